"""Agents at their own HTTP address: the platform keeps the loop (reference/agents.md section 6)."""
