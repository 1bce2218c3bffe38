"""The transparency log: an RFC 6962 tree in plain C2SP files, and what a stranger needs to check it.

Formats: reference/certificates.md 3.4. Reading and verifying need `cryptography` and the standard library
only; the writer adds nothing but files. Nothing here knows what a certificate says.
"""
