"""How much quicker rollouts of tasks are collected in parallel."""
