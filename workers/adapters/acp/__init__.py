"""The agent client protocol: an agent that is talked to over its standard streams (reference/agents.md 6)."""
