"""What we ship for your own tests: a check that finds the usual bugs of environments, and a vector environment to script."""

from __future__ import annotations

from shoal.testing.check import check_parallel
from shoal.testing.findings import CheckFailed, Finding, Report
from shoal.testing.mock import Called, MockParallelEnv
from shoal.testing.script import Request, Scripted
from shoal.vector.messages import Reset

__all__ = [
    "Called",
    "CheckFailed",
    "Finding",
    "MockParallelEnv",
    "Report",
    "Request",
    "Reset",
    "Scripted",
    "check_parallel",
]
