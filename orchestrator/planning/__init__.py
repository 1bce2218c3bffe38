"""What will be run, in which order and under which conditions."""
