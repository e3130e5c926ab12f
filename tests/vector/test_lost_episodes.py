"""What cannot be brought back ends its episode, says so, and touches nobody else."""

from __future__ import annotations

import functools
import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.vector.backends.worker import Worker
from tests.comparing import difference
from tests.envs import CountingEnv, HangingEnv, TextEnv, WalkingEnv


class DoomedEnv(WalkingEnv):
    """Kills its process at a certain step of its first episode, every time."""

    def __init__(self, at: int = -1) -> None:
        super().__init__()
        self.at, self.episodes = at, 0

    def reset(self, **keywords: Any) -> Any:
        if keywords.get("seed") != 5 + 2:  # the seed with which environment 2 begins
            self.at = -1
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        if self.steps + 1 == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def play(envs: ParallelEnv, steps: int = 14) -> list[Any]:
    results: list[Any] = [envs.reset(seed=5)]
    ended = np.zeros(envs.num_envs, np.bool_)
    for number in range(steps):
        if envs.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            results.append(envs.reset(options={"reset_mask": ended}))
        step = envs.step([(number + row) % 3 for row in range(envs.num_envs)])
        results.append(step)
        ended = step[2] | step[3]
    return results


def of_others(results: list[Any], without: int) -> list[Any]:
    """Everything in these results but one environment's."""
    return [[np.delete(part, without, axis=0) for part in result[:-1]] for result in results]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.value)
def test_a_step_that_always_kills_ends_one_episode(process_backend: str, mode: AutoresetMode) -> None:
    doomed: list[Any] = [WalkingEnv, WalkingEnv, functools.partial(DoomedEnv, 2), WalkingEnv]
    with ParallelEnv(
        doomed, backend=process_backend, num_workers=2, start_method="fork", autoreset_mode=mode, on_fault="truncate"
    ) as envs:
        found = play(envs)
        assert envs.stats.lost_episodes == 1
        assert envs.stats.restarts == 3
    with ParallelEnv([WalkingEnv] * 4, backend="serial", autoreset_mode=mode) as plain:
        expected = play(plain)
    assert not difference(of_others(found, 2), of_others(expected, 2))
    before, step = found[1], found[2]
    assert step[3].tolist()[2]
    assert not step[2][2]
    assert step[1][2] == 0
    info = step[4]
    assert info["_fault"].tolist() == [False, False, True, False]
    fault = {key: value[2] for key, value in info["fault"].items() if not key.startswith("_")}
    assert (fault["kind"], fault["signal"], fault["exit_code"]) == ("died", "SIGKILL", -9)
    assert "was killed by SIGKILL while in step(), at environment 2" in fault["message"]
    if mode is AutoresetMode.NEXT_STEP:
        assert np.array_equal(step[0][2], before[0][2]), "its observation is the last that was seen"
        assert found[3][0][2][2] == 0, "the next step begins an episode"
    else:
        assert np.array_equal(info["final_obs"][2], before[0][2])
        assert step[0][2][2] == 0


def test_without_autoreset_the_caller_resets_it(process_backend: str) -> None:
    with ParallelEnv(
        [WalkingEnv, WalkingEnv, functools.partial(DoomedEnv, 2), WalkingEnv],
        backend=process_backend,
        num_workers=1,
        start_method="fork",
        autoreset_mode=AutoresetMode.DISABLED,
        on_fault="truncate",
    ) as envs:
        play(envs)
        assert envs.stats.lost_episodes == 1


def test_a_step_that_always_hangs_ends_one_episode(process_backend: str) -> None:
    with ParallelEnv(
        [CountingEnv, HangingEnv],
        backend=process_backend,
        num_workers=1,
        start_method="fork",
        step_timeout=0.4,
        on_fault="truncate",
    ) as envs:
        envs.reset(seed=0)
        *_, truncated, info = envs.step([0, 4])
        assert truncated.tolist() == [False, True]
        assert info["fault"]["kind"][1] == "hung"
        assert "environment 1 took longer than 0.4 s (in step()); it was here:" in info["fault"]["message"][1]
        assert "in step" in info["fault"]["message"][1]
        envs.step([0, 0])


class ClockEnv(CountingEnv):
    """Says what time it is."""

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return np.array([time.perf_counter() % 1000, 0], np.float32), *rest


def test_one_that_came_to_something_else_ends_its_episode(
    process_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ParallelEnv(
        [functools.partial(CountingEnv, 9), functools.partial(ClockEnv, 9)],
        backend=process_backend,
        num_workers=1,
        start_method="fork",
        on_fault="truncate",
    ) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        last, *_ = envs.step([0, 0])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        observation, _, _, truncated, info = envs.step([0, 0])
        assert observation[0].tolist() == [3, 1], "its neighbour goes on"
        assert truncated.tolist() == [False, True]
        assert np.array_equal(observation[1], last[1])
        assert info["fault"]["kind"][1] == "diverged"
        assert "environment 1 in episode 0 at step 1" in info["fault"]["message"][1]
        assert "The episodes of environments [1] end here." in caplog.text


def test_environments_that_cannot_be_repeated_have_a_worker_each(process_backend: str) -> None:
    with ParallelEnv(
        [functools.partial(ClockEnv, 9)] * 3, backend=process_backend, start_method="fork", replayable=False
    ) as envs:
        assert len(set(envs.worker_pids)) == 3
        envs.reset(seed=0)
        for _ in range(5):
            envs.step([0, 0, 0])
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        *_, truncated, info = envs.step([0, 0, 0])
        assert truncated.tolist() == [False, True, False]
        assert info["fault"]["signal"][1] == "SIGKILL"
        *_, truncated, info = envs.step([0, 0, 0])
        assert not truncated.any()
        assert envs.call("describe") == ("plain:7", "plain:0", "plain:7")
        assert envs.stats.lost_episodes == 1


def test_its_journal_does_not_grow(process_backend: str) -> None:
    with ParallelEnv(
        [functools.partial(CountingEnv, 9)] * 2, backend=process_backend, start_method="fork", replayable=False
    ) as envs:
        envs.reset(seed=0)
        for _ in range(200):
            envs.step([0, 0])
        journal = envs._pool.backend.journal  # type: ignore[attr-defined]
        assert len(journal.rounds) < 50
        for _ in range(100):
            envs.send([0, 0])
            envs.recv(min_envs=2)
        assert len(journal.rounds) < 50
        for part in envs.split(2) * 100:
            part.step([0])
        assert len(journal.rounds) < 50


def test_a_lost_half_shows_what_was_last_seen_of_it(
    process_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doom, announce, fills_in = tmp_path / "doom", Worker._announce_all, Worker._fills_in

    def die_if_doomed(rows: Any) -> None:
        if list(rows) == [0] and doom.exists():
            doom.unlink()
            os.kill(os.getpid(), signal.SIGKILL)  # everything is written, and nothing said

    def patched_announce(self: Any, rows: Any, *others: Any) -> None:
        die_if_doomed(rows)
        announce(self, rows, *others)

    def patched_fills_in(self: Any, half: int, sequence: int, rows: Any, outcome: Any) -> bool:
        is_told = fills_in(self, half, sequence, rows, outcome)
        die_if_doomed(rows)
        return is_told

    monkeypatch.setattr(Worker, "_announce_all", patched_announce)
    monkeypatch.setattr(Worker, "_fills_in", patched_fills_in)
    envs = ParallelEnv(
        [functools.partial(CountingEnv, 10**6)] * 2, backend=process_backend, start_method="fork", replayable=False
    )
    with envs:
        envs.reset(seed=0)
        first, second = envs.split(2)
        for _ in range(50):
            first.step(np.array([0]))
            second.step(np.array([0]))
        doom.touch()
        observation, _, _, truncated, _ = first.step(np.array([0]))
        assert truncated.tolist() == [True]
        assert observation[0, 0] == 50


def test_fewer_workers_than_such_environments_are_refused() -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="num_workers=2, but with replayable=False each of the 3 environments"
    ):
        ParallelEnv([CountingEnv] * 3, backend="shm", num_workers=2, replayable=False)


def test_an_environment_registered_as_nondeterministic_is_not_repeated() -> None:
    gymnasium.register("Clock-v0", entry_point=lambda **_: ClockEnv(), nondeterministic=True)
    try:
        with shoal.make("Clock-v0", 3, backend="shm", start_method="fork") as envs:
            assert len(set(envs.worker_pids)) == 3
    finally:
        del gymnasium.registry["Clock-v0"]


def test_text_is_kept_as_the_last_observation(process_backend: str) -> None:
    with ParallelEnv([TextEnv] * 2, backend=process_backend, start_method="fork", replayable=False) as envs:
        envs.reset(seed=0)
        last, *_ = envs.step(envs.action_space.sample())
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        observation, _, _, truncated, _ = envs.step(envs.action_space.sample())
        assert truncated.tolist() == [True, False]
        assert observation[0] == last[0]


def test_one_sent_off_alone_arrives_truncated(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 2, backend=process_backend, start_method="fork", replayable=False) as envs:
        envs.reset(seed=0)
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        envs.send([1, 1])
        batch = envs.recv(min_envs=2)
        assert sorted(zip(batch.env_ids.tolist(), batch.truncated.tolist(), strict=True)) == [(0, False), (1, True)]


def test_a_reset_of_a_lost_one_reports_nothing(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with ParallelEnv([WalkingEnv] * 2, backend=process_backend, start_method="fork", replayable=False) as envs:
        first, _ = envs.reset(seed=4)
        os.kill(envs.worker_pids[1], signal.SIGKILL)
        again, info = envs.reset(seed=4)
        assert np.array_equal(first, again)
        assert "fault" not in info
        *_, truncated, _ = envs.step([1, 1])
        assert not truncated.any()
