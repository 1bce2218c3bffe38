"""Packs: Harbor tasks loaded unchanged, the pack manifest, the catalog and the admission gate."""
