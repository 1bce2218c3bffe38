"""Custody: who holds which key, and the life of the trust root (certificates.md 3.5).

A home keeps every version of its trust root. The next one grows as a draft that is signed anywhere,
collected, and only becomes the trust root when `publish` has checked it as a verifier would.
"""
