"""Recorded rollouts: what they are made of, and the digests of what they gave when they were recorded."""
