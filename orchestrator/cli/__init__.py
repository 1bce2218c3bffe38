"""The command `assize`: data on standard output, everything else on standard error (CLI-1 .. CLI-12)."""
