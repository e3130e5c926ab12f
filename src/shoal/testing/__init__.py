"""What we ship for your own tests: a check that finds the usual bugs of environments, a scripted one, faults by plan."""

from __future__ import annotations

from shoal.testing.check import check_parallel
from shoal.testing.fault_plan import FaultNotFired, FaultPlan
from shoal.testing.faults import Fault
from shoal.testing.findings import CheckFailed, Finding, Report
from shoal.testing.mock import Called, MockParallelEnv
from shoal.testing.restorable import Restorability, check_restorable
from shoal.testing.script import Request, Scripted
from shoal.vector.messages import Reset

__all__ = [
    "Called",
    "CheckFailed",
    "Fault",
    "FaultNotFired",
    "FaultPlan",
    "Finding",
    "MockParallelEnv",
    "Report",
    "Request",
    "Reset",
    "Restorability",
    "Scripted",
    "check_parallel",
    "check_restorable",
]
