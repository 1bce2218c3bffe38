"""Pure functions from verified tries to figures: no I/O, no clock, no environment."""
