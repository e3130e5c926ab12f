"""Who takes part in CAGE 2, under the names that CybORG has for them. Only the names matter here."""

from __future__ import annotations


class B_lineAgent:  # noqa: N801 - CybORG's name
    """Red: goes straight for the server of the operational network."""


class RedMeanderAgent:
    """Red: tries whatever it finds."""


class SleepAgent:
    """Red or green: does nothing."""


class GreenAgent:
    """Green: scans hosts at random, and means no harm."""
