"""Who takes part in which cell, and why somebody does not.

Some cannot, or need not be measured to know. Others could, but would only make the run longer: what they can do there
is known from another rig or another cell. Who is named on the command line takes part wherever that is possible.
"""

from __future__ import annotations

from benchmarks.throughput.cells import Cell
from benchmarks.throughput.rigs.catalogue import RigSpec

OWN_ENVIRONMENTS_ONLY = "has only environments of its own"
_CHEAP_MICROSECONDS = 50
"""Up to here a loop in one process can be the fastest way."""
_LITTLE_MICROSECONDS, _FEW_ENVS = 5, 8
"""With more environments of such steps, a message to each takes all the time there is; with these few it is measured."""
_LONG_MICROSECONDS = 100_000
"""A round of waiting that takes longer is not worth the time: it takes just as long as one wait after the other."""
_MANY_PROCESSES = 64


def why_not(rig: RigSpec, cell: Cell, was_named: bool) -> str | None:
    """The reason for which this rig is not run in this cell, if there is one."""
    return _impossible(rig, cell) or (None if was_named or rig.role == "reference" else _pointless(rig, cell))


def stays_started(rig: RigSpec, cell: Cell) -> bool:
    """Whether it may live through the whole cell; a crowd of processes lives only for its turn."""
    return not (rig.family == "process-each" and cell.num_envs > _MANY_PROCESSES)


def _impossible(rig: RigSpec, cell: Cell) -> str | None:
    if rig.family == "process-each" and cell.num_envs > cell.max_processes:
        return "one process per environment"
    if rig.family == "compiled" and cell.world is None:
        return OWN_ENVIRONMENTS_ONLY
    if rig.family == "loop" and cell.waits and cell.num_envs * cell.step_microseconds > _LONG_MICROSECONDS:
        return "waits for one environment after the other"
    return None


def _pointless(rig: RigSpec, cell: Cell) -> str | None:
    if rig.way == "halves" and not cell.halves:
        return "halves are compared in other cells"
    if rig.made_for == "waiting" and not cell.waits:
        return "made for steps that wait"
    if rig.made_for == "computing" and cell.waits:
        return "made for steps that compute"
    if rig.family == "loop" and _costs_much(cell) and cell.num_envs <= cell.max_processes:
        return "one environment after the other, on one core: see plain-loop"
    if rig.family in ("processes", "process-each") and _costs_nothing(cell) and cell.max_processes <= _MANY_PROCESSES:
        return "where steps cost nothing, processes only cost: see 0us-x200"
    if rig.family == "process-each" and _costs_little(cell) and cell.num_envs > _FEW_ENVS:
        return "where steps cost little, a process for each is many times slower: see 5us-x8"
    return None


def _costs_much(cell: Cell) -> bool:
    return cell.step_microseconds > _CHEAP_MICROSECONDS


def _costs_nothing(cell: Cell) -> bool:
    return cell.step_microseconds == 0 and cell.world is None


def _costs_little(cell: Cell) -> bool:
    return 0 < cell.step_microseconds <= _LITTLE_MICROSECONDS
