"""``check_parallel``: does an environment give the same results however it is run, and if not, why not?

How a reason is found::

    baseline ─▶ disturbed (other hashes, other global random numbers, another process)  the same? ─▶ nothing to explain
                    └─ differs ─▶ each of these by itself: which of them makes the difference?
             ─▶ sharing (several in one process)
             ─▶ every backend

Everything runs in fresh processes; see :mod:`shoal.testing.fresh`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

from shoal.testing.backends import Comparison, Layout, affordable, in_words, layouts_of
from shoal.testing.experiments import Baseline, Repeat, Sharing, Subject
from shoal.testing.findings import Finding, Report, in_order
from shoal.testing.fresh import Ending, Job, Laboratory, Patience
from shoal.testing.inspection import Symptom
from shoal.testing.lone import Difference, Differences
from shoal.vector.arguments import check_count, time_limit
from shoal.vector.backends import BACKENDS, processes_unavailable
from shoal.vector.engine import Engine
from shoal.vector.errors import BackendUnavailable, ConfigurationError, ShoalError
from shoal.vector.making import factories_of
from shoal.vector.observations import shortened
from shoal.vector.pickling import dump_by_value
from shoal.vector.plan import make_plan

ENDED = ("died", "too-slow", "check-too-slow")
HASH_SEEDS = (1, 2, 3)  # beside 0; the order of two texts is the same under all of them in one of eight cases


def check_parallel(
    env_fn: Any,
    *,
    steps: int = 250,
    seeds: Sequence[int] = (0, 1, 2),
    backends: Sequence[str] = BACKENDS,
    num_envs: Sequence[int] = (1, 3, 14),
    num_workers: Sequence[int] = (1, 2),
    actions: Sequence[Any] | None = None,
    isolate_rng: bool = False,
    call_timeout: float = 20.0,
    total_timeout: float = 120.0,
    raise_on_error: bool = True,
) -> Report:
    """Run an environment alone, several times, and on every backend, compare every bit, and name the bugs it finds.

    The environment runs in processes of its own, which are ended when they take too long, so neither a step that hangs nor
    a crash harms the caller.

    Args:
        env_fn: a callable that makes the environment, the id of a registered one, or its ``EnvSpec``.
        steps: how many steps each run has. An environment that is slow, or has large observations, takes fewer.
        seeds: one run for each.
        backends: which backends to compare.
        num_envs: how many environments at a time, one number after the other.
        num_workers: on how many workers, one number after the other.
        actions: actions to take in turn; by default random ones.
        isolate_rng: whether environments have their own global random numbers, as with ``shoal.make(isolate_rng=True)``.
        call_timeout: seconds that one call of the environment (making it, a reset, a step) may take.
        total_timeout: seconds that the whole check may take.
        raise_on_error: whether to raise :class:`CheckFailed` if there are errors.

    Returns:
        A report; notes are in it and never raise.
    """
    _check_arguments(steps, seeds, backends, num_envs, num_workers, actions, call_timeout, total_timeout)
    (factory, *_), spec = factories_of(env_fn, 1, {})
    name = spec.id if spec is not None else _name_of(env_fn)
    began = time.monotonic()
    check = _Check(Laboratory(Patience(call_timeout, began + total_timeout)), call_timeout, total_timeout)
    try:
        pickled = dump_by_value(factory)
    except Exception as error:
        check.find("factory-unpicklable", what=" ".join(f"{type(error).__name__}: {error}".split()))
    else:
        subject = Subject(pickled, tuple(seeds), steps, _pickled_actions(actions), isolate_rng)
        check.run(subject, {backend: layouts_of(backend, num_envs, num_workers) for backend in backends})
    report = Report(
        env=name,
        findings=in_order(check.findings),
        done=frozenset(check.done),
        steps=check.steps,
        seeds=tuple(seeds),
        compared=check.compared,
        seconds=time.monotonic() - began,
    )
    if raise_on_error:
        report.raise_if_bad()
    return report


class _Check:
    """A check under way: which experiments to do next, and what their results mean."""

    def __init__(self, laboratory: Laboratory, call_timeout: float, total_timeout: float) -> None:
        self.findings: list[Finding] = []
        self.done = {"run"}
        """The stages that have been carried out."""
        self.compared = ""
        self.steps = 0
        self._laboratory = laboratory
        self._call_timeout, self._total_timeout = call_timeout, total_timeout

    def find(self, kind: str, **words: str) -> None:
        """Remember a finding, one of each kind and sentence."""
        finding = Finding.of(kind, **words)
        if all(finding.message != other.message for other in self.findings):
            self.findings.append(finding)

    @property
    def _has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)

    def run(self, subject: Subject, layouts: dict[str, list[Layout]]) -> None:
        """Everything, as far as it makes sense."""
        (baseline,) = self._results([Job("shoal.testing.experiments:baseline", {"subject": subject})])
        if baseline is None:
            return
        assert isinstance(baseline, Baseline)
        self.steps = baseline.steps
        touched = [symptom for symptom in baseline.symptoms if symptom.kind == "global-rng"]
        for symptom in baseline.symptoms:
            if symptom.kind != "global-rng":
                self._find_symptom(symptom)
        if not baseline.material:
            return
        self.done.add("alone")
        is_sound = not self._has_errors
        layouts = {name: affordable(each, self.steps, baseline.step_seconds) for name, each in layouts.items()}
        common = {"subject": subject, "material": baseline.material}
        disturbed = [_repeat(common, hash_seed, perturbs=True) for hash_seed in HASH_SEEDS]
        comparisons = [
            Job(
                "shoal.testing.backends:on_backend",
                {**common, "backend": backend, "layouts": layouts[backend], "call_seconds": self._call_timeout},
            )
            for backend in layouts
        ]
        if not is_sound:
            comparisons = []
        # Those that take longest come first, so that no processor is idle at the end.
        jobs = [*reversed(comparisons), Job("shoal.testing.experiments:sharing", common), *disturbed]
        results = self._results(jobs)
        compared, (sharing, *repeats) = results[: len(comparisons)], results[len(comparisons) :]
        if sharing is None or None in repeats:
            return
        only_infos = self._explain(common, repeats, touched)
        self._judge_sharing(sharing, only_infos)
        if is_sound and not self._is_explained:
            self._judge_backends([each for each in reversed(compared) if each is not None], only_infos)
            self.done.add("backends")
            self.compared = in_words(layouts)

    @property
    def _is_explained(self) -> bool:
        """Whether there are errors because of which backends must differ."""
        return any(one.severity == "error" and one.kind not in ENDED for one in self.findings)

    def _results(self, jobs: Sequence[Job]) -> list[Any]:
        """What the experiments returned; ``None`` for one that did not end well, which is a finding."""
        return [self._result(ending) for ending in self._laboratory.run(jobs)]

    def _result(self, ending: Ending) -> Any:
        place, limit = ending.doing, f"{self._call_timeout:g} s"
        match ending.problem:
            case "died":
                self.find("died", place=place, what=ending.how, detail=_of_the_environment(ending.printed))
            case "call-too-slow":
                self.find("too-slow", place=place, what=limit, detail=_of_the_environment(ending.printed))
            case "all-too-slow":
                detail = f"It was at: {place}\n{ending.printed}"
                self.find("check-too-slow", what=f"{self._total_timeout:g} s", detail=detail)
            case "broken":
                raise ShoalError(f"the check itself failed, at: {place}\n{ending.printed}")
        return ending.result

    def _find_symptom(self, symptom: Symptom) -> None:
        what, _, detail = symptom.what.partition("\n")
        self.find(symptom.kind, place=symptom.place, what=what, detail=detail)

    def _find_difference(self, kind: str, difference: Difference, detail: str = "") -> None:
        detail = f"{difference}{detail}"
        self.find(kind, place=difference.place, what=difference.part, detail=detail)

    def _explain(self, common: dict[str, Any], repeats: list[Repeat], touched: list[Symptom]) -> bool:
        """Find out why disturbed runs differ; returns whether infos are not to be relied on, and all else is."""
        first = next((number for number, repeat in enumerate(repeats) if repeat.differences.first), None)
        if first is None:
            self.done |= {"repeat", "causes"}
            for symptom in touched:
                self.find("global-rng-touched", place=symptom.place, what=symptom.what)
            return False
        jobs = [
            _repeat(common, 0, perturbs=False),
            _repeat(common, 0, perturbs=True),
            _repeat(common, HASH_SEEDS[first], perturbs=False),
        ]
        results = self._results(jobs)
        if any(result is None for result in results):
            return False
        same, perturbed, rehashed = results
        self.done.add("repeat")
        only_infos = self._judge_determinism(same)
        if self._is_random:
            return only_infos
        self.done.add("causes")
        by_numbers, by_hashes = _relevant(perturbed, only_infos), _relevant(rehashed, only_infos)
        if by_numbers is not None:
            names = " and ".join(dict.fromkeys(symptom.what for symptom in touched)) or "the process"
            self.find("global-rng", what=names, detail=str(by_numbers))
        if by_hashes is not None:
            self._find_difference("hash-order", by_hashes, f" (PYTHONHASHSEED=0 and {HASH_SEEDS[first]})")
        unexplained = _relevant(repeats[first], only_infos)
        if by_numbers is None and by_hashes is None and unexplained is not None:
            self._find_difference("not-deterministic", unexplained)
        return only_infos

    def _judge_determinism(self, same: Repeat) -> bool:
        """Judge a repetition with nothing changed; returns whether only infos differ."""
        first, serious = same.differences
        if serious is not None:
            self._find_difference("seed-ignored" if same.is_unseeded else "not-deterministic", serious)
        elif first is not None:
            self._find_difference("info-not-deterministic", first)
            return True
        return False

    def _judge_sharing(self, sharing: Sharing, only_infos: bool) -> None:
        if self._is_random or "repeat" not in self.done:
            return
        self.done.add("sharing")
        for how, found in sharing.shared:
            if (shared := _relevant(found, only_infos)) is not None:
                self._find_difference("shared-state", shared, f" (alone, and {how} in the same process)")
                return
        self.done.add("past")
        if (past := _relevant(sharing.past, only_infos)) is not None:
            self._find_difference("reset-depends-on-past", past, " (a new one, and one in mid-life)")

    def _judge_backends(self, compared: list[Comparison], only_infos: bool) -> None:
        for one in compared:
            where = f'the backend "{one.backend}" ({one.where})'
            if one.is_too_slow:
                self.find("too-slow", place=where, what=f"{self._call_timeout:g} s per environment", detail=one.raised)
            elif one.raised:
                self.find("backend-raises", what=where, detail=one.raised)
            elif (found := _relevant(one.differences, only_infos)) is not None:
                self.find("backends-differ", what=where, detail=str(found))

    @property
    def _is_random(self) -> bool:
        """Whether no two runs are the same, so that there is nothing to compare."""
        return any(finding.kind in ("not-deterministic", "seed-ignored") for finding in self.findings)


def _pickled_actions(actions: Sequence[Any] | None) -> bytes | None:
    if actions is None:
        return None
    try:
        pickled: bytes = cloudpickle.dumps(list(actions), protocol=5)
    except Exception as error:
        raise ConfigurationError(
            f"actions cannot be sent to another process: {type(error).__name__}: {error}"
        ) from error
    return pickled


def _name_of(env_fn: Any) -> str:
    made_by = env_fn.func if isinstance(env_fn, functools.partial) else env_fn
    return getattr(made_by, "__qualname__", None) or shortened(made_by)


def _of_the_environment(printed: str) -> str:
    """What was printed, without the part of a stack that is ours."""
    lines = printed.splitlines()
    ours = next((number for number, line in enumerate(lines) if "shoal/testing/lone.py" in line), len(lines))
    return "\n".join(lines[:ours])


def _repeat(common: dict[str, Any], hash_seed: int, *, perturbs: bool) -> Job:
    return Job("shoal.testing.experiments:repeat", {**common, "perturbs": perturbs}, hash_seed)


def _relevant(found: Repeat | Differences, only_infos: bool) -> Difference | None:
    """The first difference, apart from infos if these differ anyway."""
    differences = found.differences if isinstance(found, Repeat) else found
    return differences.outside_infos if only_infos else differences.first


def _check_arguments(
    steps: int,
    seeds: Sequence[int],
    backends: Sequence[str],
    num_envs: Sequence[int],
    num_workers: Sequence[int],
    actions: Sequence[Any] | None,
    call_timeout: float,
    total_timeout: float,
) -> None:
    if reason := processes_unavailable():
        raise BackendUnavailable(f"check_parallel runs environments in processes of their own, and {reason}")
    check_count("steps", steps)
    for name, numbers in (("num_envs", num_envs), ("num_workers", num_workers)):
        if not numbers:
            raise ConfigurationError(f"{name} is empty: at least one number is needed")
        for number in numbers:
            check_count(f"each of {name}", number)
    if not seeds or len(set(seeds)) != len(seeds) or not all(isinstance(seed, int | np.integer) for seed in seeds):
        raise ConfigurationError(f"seeds must be different whole numbers, at least one, got {list(seeds)!r}")
    for backend in backends:
        make_plan(1, Engine(backend=backend))
    if not backends or "auto" in backends:
        raise ConfigurationError(f"backends must be some of {', '.join(BACKENDS)}, got {list(backends)!r}")
    if actions is not None and not len(actions):
        raise ConfigurationError("actions is empty: at least one is needed")
    for name, seconds in (("call_timeout", call_timeout), ("total_timeout", total_timeout)):
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigurationError(f"{name} must be a positive number of seconds, got {seconds!r}")
        time_limit(name, seconds)
