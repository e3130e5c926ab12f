"""What a program meets in its first seconds with ``backend="auto"``."""
