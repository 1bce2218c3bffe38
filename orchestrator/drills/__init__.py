"""Drills: faults injected for real on this machine, and what the ledger and the certificates made of them."""
