"""Engines: they move slots through claim, run and record."""
