"""The fault line: strikes attempts of this machine for real, for drills and tests."""
