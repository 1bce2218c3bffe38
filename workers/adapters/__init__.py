"""How an agent is driven: pure plans from an agent revision to one command. No adapter classifies an end."""
