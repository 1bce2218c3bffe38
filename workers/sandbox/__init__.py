"""Containers of one attempt: the hardened profile, exec with deadline and cap, facts, clean-up."""
