"""What everything that verifies shares: reason codes, strict JSON and base64, Ed25519 keys fit for trust.

Needs `cryptography` and the standard library only. `orchestrator.log` and `orchestrator.certificates`
build on it; it knows neither.
"""
