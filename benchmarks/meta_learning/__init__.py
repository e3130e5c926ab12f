"""How well agents learn to learn, with and without a memory."""
