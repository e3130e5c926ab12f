"""Who keeps how much of its speed beside busy processes? ``--busy`` asks that instead of everything else."""
