"""Parts of the environments, driven as if they were all."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.vector.backends import processes
from tests.comparing import difference
from tests.envs import CountingEnv, GrumpyEnv, SilentEnv, WalkingEnv
from tests.looking import always_look

STEPS = 25


def in_parts(envs: ParallelEnv, num_parts: int) -> list[list[Any]]:
    """What each part gives, when all of them are always under way."""
    parts = envs.split(num_parts)
    given: list[list[Any]] = [[part.reset(seed=3)] for part in parts]
    for part in parts:
        part.step_async(actions(0)[part.env_ids])
    for step in range(1, STEPS):
        for part, its in zip(parts, given, strict=True):
            its.append(part.step_wait())
            part.step_async(actions(step)[part.env_ids])
    for part, its in zip(parts, given, strict=True):
        its.append(part.step_wait())
    return given


def actions(step: int) -> Any:
    return np.random.default_rng(step).integers(0, 3, 7)


def in_lockstep(num_parts: int, mode: AutoresetMode) -> list[list[Any]]:
    """The same, part by part, each in lockstep alone."""
    given = []
    for first in range(num_parts):
        rows = range(first, 7, num_parts)
        with ParallelEnv([WalkingEnv] * len(rows), backend="serial", autoreset_mode=mode) as envs:
            its: list[Any] = [envs.reset(seed=[3 + row for row in rows])]
            given.append(its + [envs.step(actions(step)[list(rows)]) for step in range(STEPS)])
    return given


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_parts_give_what_lockstep_gives(make: Callable[..., ParallelEnv], num_parts: int, mode: AutoresetMode) -> None:
    envs = make([WalkingEnv] * 7, autoreset_mode=mode)
    assert not difference(in_parts(envs, num_parts), in_lockstep(num_parts, mode))


def test_a_part_knows_its_environments(make: Callable[..., ParallelEnv]) -> None:
    first, second = make([WalkingEnv] * 5).split()
    assert (first.num_envs, second.num_envs) == (3, 2)
    assert first.env_ids.tolist() == [0, 2, 4]
    assert second.action_space.sample().shape == (2,)
    assert second.observation_space.shape == (2, 3)
    assert repr(second) == "Part(env_ids=[1, 3])"


@pytest.mark.parametrize("kind", [WalkingEnv, SilentEnv])
def test_a_worker_that_is_killed_costs_no_part_anything(process_backend: str, kind: type[WalkingEnv]) -> None:
    with ParallelEnv([kind] * 6, backend=process_backend, num_workers=2, start_method="fork") as envs:
        with ParallelEnv([kind] * 6, backend="serial") as plain:
            plain.reset(seed=1)
            parts = envs.split(2)
            for part in parts:
                part.reset(seed=1)
                part.step_async([1, 1, 1])
            for step in range(20):
                expected = plain.step([1] * 6)
                if step in (5, 11):
                    os.kill(envs.worker_pids[step % 2], signal.SIGKILL)
                for part in parts:
                    found = part.step_wait()
                    assert not difference(found[:4], tuple(values[part.env_ids] for values in expected[:4]))
                    part.step_async([1, 1, 1])
        assert envs.stats.restarts == 2


def test_after_a_death_halves_are_as_quick_as_before() -> None:
    with ParallelEnv([SilentEnv] * 4, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        parts = envs.split(2)
        for step in range(40):
            if step == 10:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            for part in parts:
                part.step(np.array([1, 1]))
        assert envs.stats.restarts == 1
        assert envs._pool.backend._is_simple  # type: ignore[attr-defined]


@pytest.mark.parametrize("lease", [1, 3])
def test_leased_observations_are_those_of_the_last_step(backend: str, lease: int) -> None:
    with (
        ParallelEnv([SilentEnv] * 4, backend=backend, copy=False, lease=lease, start_method="fork") as envs,
        ParallelEnv([SilentEnv] * 4, backend="serial") as plain,
    ):
        envs.reset(seed=0)
        plain.reset(seed=0)
        for _ in range(3):
            for _ in range(2):
                expected = plain.step([1] * 4)
                for part in envs.split(2):
                    found = part.step(np.array([1, 1]))
                    assert not difference(found[:4], tuple(values[part.env_ids] for values in expected[:4]))
            assert not difference(envs.step(np.array([1] * 4))[:4], plain.step([1] * 4)[:4])


def test_a_half_that_is_under_way_is_recorded_too(backend: str) -> None:
    with ParallelEnv([SilentEnv] * 4, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        first, second = envs.split(2)
        first.step_async(np.array([1, 1]))
        recording = envs.record_arrivals()
        first.step_wait()
        second.step(np.array([1, 1]))
        assert recording == [[0, 2], [1, 3]]


def test_a_death_that_is_not_repaired_is_raised_in_a_part(process_backend: str) -> None:
    with ParallelEnv(
        [SilentEnv] * 4, backend=process_backend, num_workers=2, start_method="fork", on_fault="raise"
    ) as envs:
        envs.reset(seed=0)
        first, second = envs.split(2)
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        first.step_async(np.array([1, 1]))
        with pytest.raises(shoal.WorkerDied):
            first.step_wait()
        with pytest.raises(shoal.WorkerDied, match="can only be closed now"):
            second.step(np.array([1, 1]))


def test_a_part_of_closed_environments_says_so(backend: str) -> None:
    with ParallelEnv([SilentEnv] * 4, backend=backend, start_method="fork") as envs:
        envs.reset(seed=0)
        first, _ = envs.split(2)
        first.step_async(np.array([1, 1]))
    with pytest.raises(shoal.Closed):
        first.step_wait()
    with pytest.raises(shoal.Closed):
        first.step(np.array([1, 1]))


def test_who_raises_is_raised_in_its_own_part(make: Callable[..., ParallelEnv]) -> None:
    makers = [functools.partial(GrumpyEnv, at=1 if row == 1 else 50) for row in range(4)]
    first, second = make(makers).split(2)
    for part in (first, second):
        part.reset(seed=0)
        part.step_async([0, 0])
    assert first.step_wait()[0][:, 0].tolist() == [1, 1]
    with pytest.raises(ValueError, match="environment 1"):
        second.step_wait()
    first.step([0, 0])
    with pytest.raises(shoal.ResetNeeded):
        second.step([0, 0])
    second.reset(seed=0)
    with pytest.raises(ValueError, match="environment 1"):
        second.step([0, 0])
    second.reset(seed=0)


def test_members_of_a_group_stay_together(make: Callable[..., ParallelEnv]) -> None:
    envs = make([WalkingEnv] * 8, group_size=2)
    first, second = envs.split(2)
    assert (first.env_ids.tolist(), second.env_ids.tolist()) == ([0, 1, 4, 5], [2, 3, 6, 7])
    first.reset()
    observation, _ = second.reset()
    assert not difference(observation[::2], observation[1::2])
    with pytest.raises(shoal.ConfigurationError, match="4 groups cannot be split into 5 parts"):
        envs.split(5)


def test_a_wait_that_times_out_can_be_repeated(process_backend: str) -> None:
    with ParallelEnv([CountingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork") as envs:
        first, _ = envs.split(2)
        first.reset(seed=0)
        pid = envs.worker_pids[0]
        os.kill(pid, signal.SIGSTOP)
        first.step_async([0])
        with pytest.raises(shoal.WaitTimeout, match=r"environments \[0\] have been waited for 0.05 s, and 0 of them"):
            first.step_wait(timeout=0.05)
        os.kill(pid, signal.SIGCONT)
        assert first.step_wait()[0][0, 0] == 1


def test_mistakes_are_explained(backend: str) -> None:
    with ParallelEnv([CountingEnv] * 4, backend=backend, start_method="fork") as envs:
        with pytest.raises(shoal.ConfigurationError, match="4 environments cannot be split into 5 parts"):
            envs.split(5)
        with pytest.raises(shoal.ConfigurationError, match="num_parts must be a whole number of at least 1, got 0"):
            envs.split(0)
        first, second = envs.split(2)
        with pytest.raises(shoal.NothingPending, match="`step_wait` without any prior call to `step_async`"):
            first.step_wait()
        with pytest.raises(shoal.ResetNeeded):
            first.step([0, 0])
        envs.reset(seed=0)
        first.step_async([0, 0])
        with pytest.raises(shoal.AlreadyPending):
            first.step_async([0, 0])
        with pytest.raises(shoal.AlreadyPending, match="have been sent and not received"):
            envs.step([0] * 4)
        second.step([0, 0])
        first.step_wait()
        envs.step([0] * 4)
    with pytest.raises(shoal.Closed):
        envs.split(2)


# -- receiving chosen environments -------------------------------------------------------------------------------------


def test_chosen_environments_are_received_in_the_order_asked_for(make: Callable[..., ParallelEnv]) -> None:
    envs = make([WalkingEnv] * 4)
    envs.reset(seed=0)
    envs.send([1, 1, 1, 1])
    assert envs.recv(env_ids=[3, 1]).env_ids.tolist() == [3, 1]
    assert envs.recv(env_ids=[0]).env_ids.tolist() == [0]
    with pytest.raises(shoal.NothingPending, match=r"for ever for environments \[0, 3\], which have not been sent"):
        envs.recv(env_ids=[0, 2, 3])
    assert envs.recv().env_ids.tolist() == [2]


def test_a_recording_of_chosen_environments_is_compared_with_what_is_asked_for(
    make: Callable[..., ParallelEnv],
) -> None:
    envs = make([WalkingEnv] * 2)
    envs.reset(seed=0)
    envs.replay_arrivals([[0], [1]])
    envs.send([1, 1])
    with pytest.raises(shoal.StateError, match=r"hands over environments \[0\] next, but \[1\] are asked for"):
        envs.recv(env_ids=[1])
    assert envs.recv(env_ids=[0]).env_ids.tolist() == [0]
    assert envs.recv(env_ids=[1]).env_ids.tolist() == [1]


def test_halves_stay_on_their_short_way_when_episodes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, the caller goes on looking.
    monkeypatch.setattr(processes, "SPIN_SECONDS", 2.0)
    monkeypatch.setattr(processes, "usable_cpus", lambda: 2)
    always_look(monkeypatch)
    with ParallelEnv([SilentEnv] * 6, backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        parts, receive = envs.split(2), envs._recv_exactly
        on_the_long_way = ended = 0

        def counted(*arguments: Any) -> Any:
            nonlocal on_the_long_way
            on_the_long_way += 1
            return receive(*arguments)

        monkeypatch.setattr(envs, "_recv_exactly", counted)
        for _ in range(100):
            for part in parts:
                _, _, terminated, truncated, _ = part.step(np.array([0, 1, 2]))
                ended += int((terminated | truncated).sum())
        assert ended > 50
        assert on_the_long_way < 20, "more than the first time of each, and when something had to be seen to"


class CountedEnv(CountingEnv):
    """Sees how many steps all environments of its process have taken, so that their order shows; has an info now and then."""

    steps_of_all = 0

    def step(self, action: Any) -> Any:
        CountedEnv.steps_of_all += 1
        observation, _, terminated, truncated, info = super().step(action)
        reward = float(CountedEnv.steps_of_all)
        return observation, reward, terminated, truncated, info if CountedEnv.steps_of_all % 10 == 0 else {}


def play_halves(backend: str, seed: int) -> list[Any]:
    """Halves that are sent off as parts, or environment by environment, and looked at in between."""
    random, CountedEnv.steps_of_all = np.random.default_rng(seed), 0
    with ParallelEnv(
        [functools.partial(CountedEnv, 1000)] * 6, backend=backend, num_workers=1, start_method="fork"
    ) as envs:
        envs.reset(seed=0)
        parts, sent = envs.split(2), ["", ""]
        seen: list[Any] = []
        for _ in range(80):
            half = int(random.integers(2))
            rows = parts[half].env_ids
            if random.random() < 0.2:
                envs.is_ready()
            if not sent[half]:
                sent[half] = str(random.choice(["part", "part", "part", "alone"]))
                if sent[half] == "part":
                    parts[half].step_async([1, 1, 1])
                else:
                    envs.send([1, 1, 1], rows)
            else:
                if sent[half] == "alone" or random.random() < 0.2:
                    seen.append(envs.recv(env_ids=rows)[1:5])
                else:
                    seen.append(parts[half].step_wait()[:4])
                sent[half] = ""
        return seen


@pytest.mark.parametrize("seed", range(5))
def test_what_was_asked_first_is_done_first(process_backend: str, seed: int) -> None:
    assert not difference(play_halves(process_backend, seed), play_halves("serial", seed))
