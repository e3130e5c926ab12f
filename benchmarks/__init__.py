"""Shoal beside its peers: one folder per question."""
