"""Signed statements about how attempts ended, and their offline verification.

Formats: reference/certificates.md. Everything that `verify` imports needs `cryptography` and the standard
library only; pydantic is used where statements are made (`statements`, `issue`, `signer`).
"""
