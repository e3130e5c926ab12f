"""Worlds of meta-RL: the rules stay the same, and the task is another one from time to time."""
