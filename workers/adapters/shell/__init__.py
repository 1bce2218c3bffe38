"""The reference agent `shell`: one model, one shell, nothing else (reference/agents.md section 4)."""
