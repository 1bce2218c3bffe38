"""Evidence: content-addressed files and the manifest that names them (reference/certificates.md 3.2)."""
