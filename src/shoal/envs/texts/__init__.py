"""Text worlds: what a language model plays in."""
