"""What is done with an environment in a fresh process. Each experiment varies one thing and keeps the rest.

::

    baseline   every seed alone, one after the other, watched closely: what everything else is compared with
    repeat     the same again in another process; perhaps with another order of hashes, perhaps with other global random
               numbers
    sharing    several in one process: one after the other, the same one again, interleaved, and reset in mid-life
    backends   many at a time, on a backend (in its own module)
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from shoal.testing.fresh import Progress
from shoal.testing.inspection import (
    BufferInspector,
    ContractInspector,
    GlobalRandomInspector,
    Perturber,
    Symptom,
    seed_global_random,
    uses_unseeded_generator,
)
from shoal.testing.lone import (
    MAKING,
    Attendant,
    Differences,
    LoneRun,
    Make,
    RunEnded,
    Trace,
    compare,
    normal_actions,
    sample_actions,
)
from shoal.vector.isolation import IsolatedFactory
from shoal.vector.pickling import dumps

RUN_SECONDS = 1.0  # an environment is stepped so long, and no more than the caller asked for ...
FEWEST_STEPS = 5  # ... and at least so often
HANDING_OVER_SECONDS = 60.0
MOST_BYTES = 32 * 2**20  # and a run may be so large, because all of it is kept


@dataclass(frozen=True)
class Subject:
    """The environment, and how to run it. Travels to every fresh process."""

    pickled_env_fn: bytes
    seeds: tuple[int, ...]
    steps: int
    actions: bytes | None
    """A pickled list to take actions from in turn, instead of random ones."""
    isolate_rng: bool

    def factory(self) -> Make:
        """What makes the environment. Unpickling it runs code of the user's."""
        env_fn: Make = pickle.loads(self.pickled_env_fn)
        return isolated(env_fn) if self.isolate_rng else env_fn


def isolated(env_fn: Make) -> Make:
    """A factory whose environments each have global random numbers of their own."""
    return env_fn if isinstance(env_fn, IsolatedFactory) else IsolatedFactory(env_fn, 0, gives_back=True)


class Material(NamedTuple):
    """What the baseline gave, for all other experiments to compare with."""

    actions: dict[int, list[Any]]
    """By seed."""
    next_step: dict[int, Trace]
    same_step: dict[int, Trace]


class Baseline(NamedTuple):
    """What the baseline says to the caller."""

    symptoms: list[Symptom]
    steps: int = 0
    step_seconds: float = 0.0
    """How long a step takes, about."""
    material: bytes = b""
    """A pickled :class:`Material`: the caller only hands it on. Empty if the environment could not be run."""


class Repeat(NamedTuple):
    """What a repetition found."""

    differences: Differences
    is_unseeded: bool
    """Whether the environment has a ``np_random`` that its resets did not seed."""


class Sharing(NamedTuple):
    """What several environments in one process did to each other."""

    shared: list[tuple[str, Differences]]
    """In which arrangement, and what was different there."""
    past: Differences
    """Between an environment that is reset with a seed in mid-life, and a new one with that seed."""


def baseline(progress: Progress, subject: Subject) -> Baseline:
    """Run every seed alone, and look closely."""
    try:
        make = subject.factory()
    except Exception as error:
        return Baseline([Symptom("factory-unpicklable", "", f"{type(error).__name__}: {error}")])
    contract, buffers, global_random = ContractInspector(), BufferInspector(), GlobalRandomInspector()
    material = Material({}, {}, {})
    steps, seconds, began = subject.steps, RUN_SECONDS, time.monotonic()
    runs: list[LoneRun] = []
    for seed in subject.seeds:
        seed_global_random()
        runs.append(run := LoneRun(make, seed, (), [progress, contract, buffers, global_random]))
        material.actions[seed] = _run_within(seconds, run, subject, steps)
        material.next_step[seed] = run.trace
        steps, seconds = len(material.actions[seed]), float("inf")
        if run.ending is not None:
            break
    for seed in () if runs[-1].ending else subject.seeds:
        seed_global_random()
        actions = material.actions[seed]
        runs.append(run := LoneRun(make, seed, actions, [progress, contract], AutoresetMode.SAME_STEP))
        material.same_step[seed] = run.finish()
    symptoms = [*contract.symptoms, *buffers.symptoms, *global_random.symptoms]
    for run in runs:
        if run.ending is not None:
            return Baseline([_symptom_of(run.ending), *symptoms], steps)
    step_seconds = (time.monotonic() - began) / (len(runs) * (steps + 1))
    progress.say("handing over results", HANDING_OVER_SECONDS)
    return Baseline(symptoms, steps, step_seconds, dumps(material))


def _run_within(seconds: float, run: LoneRun, subject: Subject, steps: int) -> list[Any]:
    """Finish a run, but stop when it has taken long or become large. Returns the actions that were taken."""
    began, size = time.monotonic(), 0
    actions: list[Any] = []
    while run.advance():
        taken = len(run.trace) - 1
        if taken == 0:
            actions = _choose_actions(run, subject, steps)
            run.take(actions)
            size = len(pickle.dumps(run.trace[0]))
        if taken >= FEWEST_STEPS and (time.monotonic() - began > seconds or size * taken > MOST_BYTES):
            break
    run.close()
    return actions[: len(run.trace) - 1]


def _choose_actions(run: LoneRun, subject: Subject, steps: int) -> list[Any]:
    space = run.env.action_space
    if subject.actions is None:
        return sample_actions(space, run.seed, steps)
    given = pickle.loads(subject.actions)
    return normal_actions(space, [given[step % len(given)] for step in range(steps)])


def _symptom_of(ending: RunEnded) -> Symptom:
    if not ending.traceback:
        return Symptom("wrong-result", ending.place, ending.what)
    return Symptom(
        "cannot-be-made" if ending.place == MAKING else "raises", ending.place, f"{ending.what}\n{ending.traceback}"
    )


def repeat(progress: Progress, subject: Subject, material: bytes, perturbs: bool) -> Repeat:
    """Run every seed alone again, perhaps with other global random numbers."""
    make, (actions, traces, _) = subject.factory(), unpickled(material)
    attendants: list[Attendant] = [progress]
    if perturbs:
        attendants.append(Perturber())
    found, is_unseeded = Differences(), False
    for seed in subject.seeds:
        seed_global_random()
        run = LoneRun(make, seed, actions[seed], attendants)
        while run.advance():
            pass
        is_unseeded = is_unseeded or uses_unseeded_generator(run.env, seed)
        run.close()
        found |= compare(seed, traces[seed], run.trace)
    return Repeat(found, is_unseeded)


def sharing(progress: Progress, subject: Subject, material: bytes) -> Sharing:
    """Run several environments in one process, which have nothing in common but what they should not have in common.

    Each has its own global random numbers here: what these do is another experiment's.
    """
    make, (actions, _, _) = isolated(subject.factory()), unpickled(material)
    seeds = subject.seeds
    alone = {seed: LoneRun(make, seed, actions[seed], [progress]).finish() for seed in seeds}
    later = compare(seeds[0], alone[seeds[0]], LoneRun(make, seeds[0], actions[seeds[0]], [progress]).finish())
    in_turn = Differences()
    for run in _interleaved([LoneRun(make, seed, actions[seed], [progress]) for seed in (*seeds, *seeds[:1])]):
        in_turn |= compare(run.seed, alone[run.seed], run.trace)
    run = LoneRun(make, seeds[0], actions[seeds[0]], [progress])
    while run.advance():
        pass
    run.restart(seeds[-1], actions[seeds[-1]])
    past = compare(seeds[-1], alone[seeds[-1]], run.finish())
    return Sharing([("after others", later), ("step by step in turn with others", in_turn)], past)


def _interleaved(runs: list[LoneRun]) -> list[LoneRun]:
    """One record each in turn, until all are done; all are open at the same time."""
    going = runs
    while going:
        going = [run for run in going if run.advance()]
    for run in runs:
        run.close()
    return runs


def unpickled(material: bytes) -> Material:
    """What the baseline gave."""
    given: Material = pickle.loads(material)
    return given
