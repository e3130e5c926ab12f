"""Rollouts of language models: first-ready against lockstep, and what the collector itself costs."""
