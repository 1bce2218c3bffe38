"""One attempt from prepare to record."""
