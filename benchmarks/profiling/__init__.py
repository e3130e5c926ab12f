"""What the profiler costs while it is on."""
