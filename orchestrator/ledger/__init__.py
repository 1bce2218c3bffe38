"""The one place where the state of screenings, tries and attempts lives."""
