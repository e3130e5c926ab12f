"""Saving, loading and branching the state of environments."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import NormalizeObservation, TimeLimit

import shoal
from shoal import EnvList, ParallelEnv
from shoal.vector import shortening, supervisor
from tests.comparing import difference
from tests.envs import CountingEnv, SpaceEnv, TextEnv, WalkingEnv
from tests.scripts import run_script


def go_on(envs: ParallelEnv, steps: int, first: int = 0) -> list[Any]:
    return [envs.step([(number + row) % 3 for row in range(envs.num_envs)]) for number in range(first, first + steps)]


def made(backend: str, **keywords: Any) -> ParallelEnv:
    keywords.setdefault("num_workers", 2)
    return ParallelEnv([WalkingEnv] * 4, backend=backend, start_method="fork", on_fault="restore", **keywords)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_a_run_goes_on_elsewhere(backend: str, mode: AutoresetMode) -> None:
    with made(backend, autoreset_mode=mode) as envs:
        envs.reset(seed=3)
        last = go_on(envs, 20)[-1]
        saved = pickle.dumps(envs.state_dict())
        expected = go_on(envs, 20, 20)
    with made("shm", autoreset_mode=mode, num_workers=3) as others:
        observation = others.load_state_dict(pickle.loads(saved))
        assert np.array_equal(observation, last[0])
        assert not difference(go_on(others, 20, 20), expected)


def test_what_was_loaded_is_restored_and_saved_again(process_backend: str) -> None:
    with made(process_backend) as envs:
        envs.reset(seed=3)
        envs.set_attr("label", "kept")
        go_on(envs, 20)
        saved = envs.state_dict()
        expected = go_on(envs, 40, 20)
    with made(process_backend) as envs:
        envs.reset(seed=99)
        go_on(envs, 3)
        envs.load_state_dict(saved)
        found = go_on(envs, 10, 20)
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        found += go_on(envs, 10, 30)
        assert envs.get_attr("label") == ("kept",) * 4
        again = envs.state_dict()
    with made(process_backend) as envs:
        envs.load_state_dict(again)
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        found += go_on(envs, 20, 40)
        assert envs.stats.restarts == 1
    assert not difference(found, expected)


def test_another_program_goes_on(tmp_path: Path) -> None:
    with shoal.make("CartPole-v1", 4, backend="shm", num_workers=2) as envs:
        envs.reset()  # without a seed: the next program draws the same numbers all the same
        for _ in range(30):
            envs.step([0, 1, 0, 1])
        (tmp_path / "state").write_bytes(pickle.dumps(envs.state_dict()))
        expected = [envs.step([1, 0, 0, 1])[0].tolist() for _ in range(30)]
    done = run_script(f"""
        import pathlib, pickle, shoal
        state = pickle.loads(pathlib.Path({str(tmp_path / "state")!r}).read_bytes())
        with shoal.make("CartPole-v1", 4, backend="pipes", num_workers=1) as envs:
            envs.load_state_dict(state)
            print([envs.step([1, 0, 0, 1])[0].tolist() for _ in range(30)])
    """)
    assert done.stdout == f"{expected}\n", done.stderr


@pytest.mark.parametrize(
    "space", [spaces.Text(9), spaces.Dict(a=spaces.Discrete(3), b=spaces.Sequence(spaces.Discrete(4)))]
)
def test_every_kind_of_space_is_saved(process_backend: str, space: Any) -> None:
    fns = [functools.partial(SpaceEnv, space, spaces.Discrete(3))] * 3
    with ParallelEnv(fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=1)
        last = go_on(envs, 7)[-1]
        saved = envs.state_dict()
        expected = go_on(envs, 7, 7)
        assert not difference(envs.load_state_dict(saved), last[0])
        assert not difference(go_on(envs, 7, 7), expected)


def test_different_worlds_are_saved(process_backend: str) -> None:
    with EnvList(
        [TextEnv, WalkingEnv], backend=process_backend, start_method="fork", autoreset_mode="NextStep"
    ) as envs:
        envs.reset(seed=1)
        last = [envs.step(["left", 1]) for _ in range(5)][-1]
        saved = envs.state_dict()
        expected = [envs.step(["right", 2]) for _ in range(9)]
        assert not difference(envs.load_state_dict(saved), last.observations)
        assert not difference([envs.step(["right", 2]) for _ in range(9)], expected)


def normalised() -> Any:
    return TimeLimit(NormalizeObservation(WalkingEnv()), 50)


def test_captured_states_are_saved_and_branched(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORTHWHILE_SECONDS", 0.0), ("LONG_SECONDS", 0.0)):
        monkeypatch.setattr(shortening, name, value)
    monkeypatch.setattr(supervisor, "MAINTENANCE", 4)
    with ParallelEnv([normalised] * 3, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=2)
        number = 0
        while len(envs._pool.backend.journal.bases) < 2:  # type: ignore[attr-defined]
            go_on(envs, 1, number)
            number += 1
            assert number < 20_000
        saved = envs.state_dict()
        expected = go_on(envs, 20, number)
        envs.load_state_dict(saved)
        assert not difference(go_on(envs, 20, number), expected)
        envs.load_state_dict(saved)
        envs.fork(2, [0])
        both = [envs.step([1, 1, 1]) for _ in range(10)]
        assert all(np.array_equal(step[0][0], step[0][2]) for step in both)


def test_a_branch_does_what_its_origin_does(backend: str) -> None:
    with made(backend) as envs:
        envs.reset(seed=3)
        go_on(envs, 13)
        before = envs.step([0, 1, 2, 0])
        envs.fork(1, [0, 3])
        same = [envs.step([1, 1, 1, 1]) for _ in range(12)]
        for step in same:
            for part in step[:4]:
                assert np.array_equal(part[1], part[0])
                assert np.array_equal(part[1], part[3])
        assert any(not np.array_equal(step[0][1], step[0][2]) for step in same)
        apart = [envs.step([0, 2, 1, 1]) for _ in range(3)]
        assert not np.array_equal(apart[-1][0][0], apart[-1][0][1])
        assert before[0].shape == apart[0][0].shape


def task_of(env_index: int, episode: int) -> shoal.Task:
    return shoal.Task(seed=100 * env_index + episode, id=(env_index, episode))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_a_branch_has_had_the_tasks_of_its_origin_and_gets_its_own(process_backend: str, mode: AutoresetMode) -> None:
    results = {}
    for backend in ("serial", process_backend):
        with made(backend, autoreset_mode=mode, tasks=task_of) as envs:
            envs.reset(seed=5)
            go_on(envs, 30)
            envs.fork(0, [1, 3])
            results[backend] = go_on(envs, 5)
            envs.fork(1, [2])  # which has become a branch itself
            results[backend] += go_on(envs, 10)
            if backend != "serial":
                for pid in envs.worker_pids:
                    os.kill(pid, signal.SIGKILL)
            results[backend] += go_on(envs, 30)
    assert not difference(results["serial"], results[process_backend])


def test_a_branch_is_restored_when_its_worker_dies(process_backend: str) -> None:
    with made(process_backend) as envs:
        envs.reset(seed=3)
        go_on(envs, 13)
        envs.fork(1, [3])
        go_on(envs, 2)
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        envs.fork(3, [0])
        steps = [envs.step([1, 1, 1, 1]) for _ in range(10)]
        assert all(np.array_equal(step[0][0], step[0][3]) for step in steps)
        assert envs.stats.restarts == 1


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
@pytest.mark.parametrize(
    ("saving", "loading"),
    [("serial", "serial"), ("threads", "serial"), ("shm", "pipes"), ("serial", "shm")],
)
def test_without_a_journal_environments_are_pickled(saving: str, loading: str, mode: AutoresetMode) -> None:
    def unjournaled(backend: str) -> ParallelEnv:
        workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 2}
        if backend in ("pipes", "shm"):
            workers["start_method"] = "fork"
        return ParallelEnv([WalkingEnv] * 5, backend=backend, autoreset_mode=mode, on_fault="raise", **workers)

    with unjournaled(saving) as envs:
        envs.reset(seed=3)
        last = go_on(envs, 23)[-1]
        saved = pickle.dumps(envs.state_dict())
        expected = go_on(envs, 20, 20)
        envs.fork(1, [0, 4])
        branched = envs.step([1] * 5)
        assert np.array_equal(branched[0][0], branched[0][1])
        assert np.array_equal(branched[0][4], branched[0][1])
    with unjournaled(loading) as others:
        observation = others.load_state_dict(pickle.loads(saved))
        assert np.array_equal(observation, last[0])
        assert not difference(go_on(others, 20, 20), expected)


class Unpickled(WalkingEnv):
    """Counts how often one of its kind has been unpickled."""

    times = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        Unpickled.times += 1


def test_every_environment_is_unpickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of them for each of them, which took nine seconds for 256."""
    with ParallelEnv([Unpickled] * 16, backend="serial") as envs:
        envs.reset(seed=3)
        go_on(envs, 5)
        saved = envs.state_dict()
        monkeypatch.setattr(Unpickled, "times", 0)
        envs.load_state_dict(saved)
        assert Unpickled.times == 16
        monkeypatch.setattr(Unpickled, "times", 0)
        envs.fork(3, range(16))
        assert Unpickled.times <= 3 * 16


@pytest.mark.parametrize("backend", ["serial", "threads", "pipes"])
def test_branches_without_a_journal_go_each_its_own_way(backend: str) -> None:
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 2}
    if backend == "pipes":
        workers["start_method"] = "fork"
    with ParallelEnv([WalkingEnv] * 5, backend=backend, on_fault="raise", **workers) as envs:
        envs.reset(seed=3)
        go_on(envs, 4)
        envs.fork(1, range(5))
        together = envs.step([1] * 5)[0]
        assert all(np.array_equal(together[row], together[1]) for row in range(5))
        saved = envs.state_dict()
        expected = [envs.step([0, 1, 2, 1, 0])[0] for _ in range(3)]
        assert np.array_equal(expected[-1][0], expected[-1][4])
        assert not np.array_equal(expected[-1][0], expected[-1][2])
        envs.load_state_dict(saved)  # environments that are equal are not one
        assert not difference([envs.step([0, 1, 2, 1, 0])[0] for _ in range(3)], expected)


class SharingEnv(WalkingEnv):
    """Draws lots from a pot that is also the others'."""

    def __init__(self, pot: list[int]) -> None:
        super().__init__()
        self.pot = pot

    def step(self, action: Any) -> Any:
        self.pot.append(len(self.pot))
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(self.pot[-1]), terminated, truncated, info


def test_what_environments_share_they_share_after_loading() -> None:
    pot: list[int] = []
    with ParallelEnv([lambda: SharingEnv(pot)] * 4, backend="serial", on_fault="raise") as envs:
        envs.reset(seed=3)
        go_on(envs, 5)
        saved = envs.state_dict()
        expected = go_on(envs, 5, 5)
        envs.load_state_dict(saved)
        assert not difference(go_on(envs, 5, 5), expected)
        assert not any(one is pot for one in envs.get_attr("pot"))


class Unpicklable(WalkingEnv):
    """Holds something that cannot be written down."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def test_who_cannot_be_saved_says_so() -> None:
    with ParallelEnv([Unpicklable] * 2, backend="serial") as envs:
        envs.reset(seed=0)
        with pytest.raises(
            shoal.StateError,
            match=r"state_dict\(\) pickles environments .* cannot be pickled: .*lock.*on_fault=\"restore\"",
        ):
            envs.state_dict()
    with ParallelEnv([CountingEnv] * 2, backend="shm", start_method="fork", replayable=False) as envs:
        envs.reset(seed=0)
        with pytest.raises(shoal.StateError, match=r"fork\(\) is not possible: .* replayable=False"):
            envs.fork(0, [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_envs": 3}, "it has 3 environments, and there are 4 here"),
        ({"version": 99}, "it was saved in version 99 of the format, and this Shoal reads version 1"),
        ({"kind": "apples"}, "it was saved from apples, and here are environments with observations"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with made("shm") as envs:
        envs.reset(seed=3)
        saved = envs.state_dict()
        with pytest.raises(shoal.ConfigurationError, match=message):
            envs.load_state_dict({**saved, **change})
        with pytest.raises(shoal.ConfigurationError, match=r"this is not what state_dict\(\) returns: list"):
            envs.load_state_dict([])  # type: ignore[arg-type]
        envs.step([0, 0, 0, 0])


class OtherEnv(WalkingEnv):
    """Looks the same and does something else."""

    def step(self, action: Any) -> Any:
        return super().step(2 - action)


def test_an_environment_that_does_something_else_is_named() -> None:
    with made("shm") as envs:
        envs.reset(seed=3)
        envs.step([0, 0, 0, 0])
        saved = envs.state_dict()
    with (
        ParallelEnv([WalkingEnv, WalkingEnv, OtherEnv, WalkingEnv], backend="shm", start_method="fork") as envs,
        pytest.raises(shoal.ReplayDiverged, match="environment 2 in episode 0 at step 1 .* gave another result"),
    ):
        envs.load_state_dict(saved)
