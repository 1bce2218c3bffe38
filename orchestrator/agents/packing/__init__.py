"""Packing of known agents, on a host with network: registries' own clients fetch, nothing fetched is run."""
