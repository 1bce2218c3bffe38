"""The metering relay: the sandbox's only way out (DESIGN section 6, reference/relay.md)."""
