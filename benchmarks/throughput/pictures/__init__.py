"""The run in two pictures."""
