"""Agents: registered, digest-pinned revisions and the bundles that `exec` agents bring."""
