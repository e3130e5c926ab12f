"""Training loops: Shoal's, and those that people use today."""
