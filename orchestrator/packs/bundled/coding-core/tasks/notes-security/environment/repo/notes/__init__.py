"""A small shared notebook."""

from notes.app import create_app

__all__ = ["create_app"]
