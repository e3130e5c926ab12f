"""A worker that dies is replaced, and the rollout goes on as if nothing had happened."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.vector.journal import MUCH
from tests.comparing import difference
from tests.envs import CountingEnv, SpaceEnv, TextEnv, WalkingEnv

NUM_ENVS = 6


class FaultyEnv(WalkingEnv):
    """Does something to its process at one of its steps, once: a file remembers that it has been done."""

    def __init__(
        self, marker: str = "", at: int = -1, fault: Callable[[], None] = lambda: None, before: bool = True
    ) -> None:
        super().__init__()
        self.marker, self.at, self.fault, self.before = Path(marker) if marker else None, at, fault, before
        self.taken = 0

    def _strike(self) -> None:
        if self.marker is not None and self.taken == self.at and not self.marker.exists():
            self.marker.touch()
            self.fault()

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.before:
            self._strike()
        result = super().step(action)
        if not self.before:
            self._strike()
        return result


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crashed() -> None:
    os.abort()


def broken() -> None:
    faulthandler._sigsegv()  # type: ignore[attr-defined]


def gone() -> None:
    os._exit(0)


def gone_by_the_c_library() -> None:
    ctypes.CDLL(None).exit(3)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def asleep() -> None:
    time.sleep(60)


def play(env_fns: list[Any], steps: int = 40, **keywords: Any) -> tuple[list[Any], int]:
    """A rollout with everything in it: steps, resets of some, calls, attributes; and how many workers were replaced."""
    with ParallelEnv(env_fns, on_fault="restore", **keywords) as envs:
        results: list[Any] = [envs.reset(seed=5)]
        ended = np.zeros(len(env_fns), np.bool_)
        for number in range(steps):
            if envs.autoreset_mode is AutoresetMode.DISABLED and ended.any():
                results.append(envs.reset(options={"reset_mask": ended}))
            step = envs.step([(number + row) % 3 for row in range(len(env_fns))])
            results.append(step)
            ended = step[2] | step[3]
            if number == 10:
                envs.set_attr("position", 0.25)
            if number == 20:
                results.append(envs.get_attr("position"))
                results.append(envs.reset(seed=[8, 9], options=[{"from": 1}, None], env_ids=[1, 4]))
                ended[[1, 4]] = False
        return results, envs.stats.restarts


def faulty(tmp_path: Path, faults: dict[int, tuple[int, Callable[[], None], bool]]) -> list[Any]:
    """Environments of which these have a fault: (at which step, which, before the step is taken)."""
    return [
        functools.partial(FaultyEnv, str(tmp_path / f"{row}"), *faults[row]) if row in faults else FaultyEnv
        for row in range(NUM_ENVS)
    ]


def compare_with_undisturbed(tmp_path: Path, faults: Any, restarts: int, **keywords: Any) -> None:
    disturbed, counted = play(faulty(tmp_path, faults), **keywords)
    mode = keywords.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    expected, _ = play([FaultyEnv] * NUM_ENVS, backend="serial", autoreset_mode=mode)
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == sorted(faults), "every fault has struck"
    assert counted == restarts
    assert not difference(disturbed, expected)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_worker_killed_in_a_step_loses_nothing(
    process_backend: str, tmp_path: Path, mode: AutoresetMode, before: bool
) -> None:
    compare_with_undisturbed(
        tmp_path, {4: (13, killed, before)}, restarts=1, backend=process_backend, num_workers=2, start_method="fork",
        autoreset_mode=mode,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_every_way_to_start_can_replace(process_backend: str, tmp_path: Path, method: str) -> None:
    compare_with_undisturbed(
        tmp_path, {0: (1, killed, True), 5: (30, gone, False)}, restarts=2, backend=process_backend, num_workers=3,
        start_method=method,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (killed, "was killed by SIGKILL"),
        (crashed, "was killed by SIGABRT"),
        (broken, "was killed by SIGSEGV"),
        (gone, "ended by itself with exit code 0"),
        (gone_by_the_c_library, "ended by itself with exit code 3"),
    ],
)
def test_however_a_worker_dies(
    process_backend: str, tmp_path: Path, fault: Callable[[], None], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    compare_with_undisturbed(
        tmp_path, {2: (7, fault, True)}, restarts=1, backend=process_backend, num_workers=2, start_method="fork"
    )
    assert said in caplog.text


def test_all_workers_may_die_at_once_and_again(process_backend: str, tmp_path: Path) -> None:
    faults = dict.fromkeys((0, 2, 4), (9, killed, True)) | {1: (25, killed, False)}
    compare_with_undisturbed(tmp_path, faults, restarts=4, backend=process_backend, num_workers=3, start_method="fork")


@pytest.mark.parametrize("fault", [stopped, asleep], ids=lambda fault: fault.__name__)
def test_a_step_that_hangs_is_ended_and_taken_again(
    process_backend: str, tmp_path: Path, fault: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    compare_with_undisturbed(
        tmp_path, {3: (6, fault, True)}, restarts=1, backend=process_backend, num_workers=2, start_method="fork",
        step_timeout=1.0,
    )  # fmt: skip
    assert "environment 3 took longer than 1 s" in caplog.text


def test_a_worker_killed_while_idle_is_replaced_at_the_next_step(process_backend: str) -> None:
    with (
        ParallelEnv(
            [WalkingEnv] * 4, backend=process_backend, num_workers=2, start_method="fork", on_fault="restore"
        ) as envs,
        ParallelEnv([WalkingEnv] * 4, backend="serial") as undisturbed,
    ):
        assert not difference(envs.reset(seed=3), undisturbed.reset(seed=3))
        for number in range(12):
            if number in (4, 8):
                os.kill(envs.worker_pids[number // 8], signal.SIGKILL)
            assert not difference(envs.step([0, 1, 2, 0]), undisturbed.step([0, 1, 2, 0]))
        assert envs.stats.restarts == 2


def test_so_many_environments_that_only_digests_of_results_are_kept_are_restored(process_backend: str) -> None:
    count = MUCH // 34 + 1  # bytes of three numbers, a reward and two flags
    with (
        ParallelEnv([WalkingEnv] * count, backend=process_backend, num_workers=2, start_method="fork") as envs,
        ParallelEnv([WalkingEnv] * count, backend="serial") as undisturbed,
    ):
        actions = np.arange(count) % 3
        assert not difference(envs.reset(seed=3), undisturbed.reset(seed=3))
        for number in range(12):
            if number == 7:
                os.kill(envs.worker_pids[1], signal.SIGKILL)
            assert not difference(envs.step(actions), undisturbed.step(actions))
        assert envs.stats.restarts == 1
        assert envs._pool.backend.journal.rounds.step_nbytes < 20 * count  # type: ignore[attr-defined]


def test_a_reset_of_one_in_a_replacement_leaves_the_others_observations(process_backend: str) -> None:
    with ParallelEnv([WalkingEnv] * 3, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset(seed=1)
        before, *_ = envs.step([1, 2, 0])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        after, _ = envs.reset(seed=[9], env_ids=[1])
        assert (after[[0, 2]] == before[[0, 2]]).all()
        assert (after[1] != before[1]).any()
        assert envs.stats.restarts == 1


def test_environments_that_are_under_way_arrive_all_the_same(process_backend: str, tmp_path: Path) -> None:
    env_fns = faulty(tmp_path, {1: (3, killed, True), 4: (5, killed, False)})
    lone = [WalkingEnv() for _ in range(NUM_ENVS)]
    with ParallelEnv(
        env_fns,
        backend=process_backend,
        num_workers=2,
        start_method="fork",
        autoreset_mode="Disabled",
        on_fault="restore",
    ) as envs:
        envs.send_reset(seed=1)
        expected: dict[int, Any] = {row: env.reset(seed=1 + row)[0] for row, env in enumerate(lone)}
        for number in range(5000):
            if number >= 60 and envs.stats.restarts == 2:  # who is first, and so how soon that is, nobody knows
                break
            batch = envs.recv(min_envs=2, timeout=30)
            for place, row in enumerate(batch.env_ids.tolist()):
                assert not difference(batch.observation[place], expected[row])
                if batch.terminated[place] or batch.truncated[place]:
                    envs.send_reset([row], seed=[7])
                    expected[row] = lone[row].reset(seed=7)[0]
                else:
                    envs.send([2], [row])
                    expected[row] = lone[row].step(2)[0]
        assert envs.stats.restarts == 2


SPACES = [
    spaces.Dict(
        {"picture": spaces.Box(0, 255, (5, 3), np.uint8), "word": spaces.Text(9), "bits": spaces.MultiBinary(3)}
    ),
    spaces.Sequence(spaces.Discrete(5)),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_every_kind_of_space_is_restored(process_backend: str, space: Any) -> None:
    make = functools.partial(SpaceEnv, space, spaces.Box(-1, 1, (2,), np.float32))
    with (
        ParallelEnv(
            [make] * 4, backend=process_backend, num_workers=2, start_method="fork", on_fault="restore"
        ) as envs,
        ParallelEnv([make] * 4, backend="serial") as undisturbed,
    ):
        assert not difference(envs.reset(seed=3), undisturbed.reset(seed=3))
        envs.action_space.seed(1)
        for number in range(10):
            actions = envs.action_space.sample()
            if number == 6:
                os.kill(envs.worker_pids[1], signal.SIGKILL)
            assert not difference(envs.step(actions), undisturbed.step(actions))
        assert envs.stats.restarts == 1


class ClockEnv(CountingEnv):
    """Is another one every time."""

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return np.array([time.perf_counter() % 1000, 0], np.float32), *rest


def test_an_environment_that_does_something_else_is_named_and_not_guessed_over(process_backend: str) -> None:
    with ParallelEnv(
        [CountingEnv, ClockEnv], backend=process_backend, num_workers=1, start_method="fork", on_fault="restore"
    ) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        envs.step([0, 0])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        with pytest.raises(shoal.ReplayDiverged, match="environment 1 in episode 0 at step 1 .* gave another result"):
            envs.step([0, 0])


class DoomedEnv(CountingEnv):
    """Kills its process at every second step."""

    def step(self, action: Any) -> Any:
        if self.count == 1:
            killed()
        return super().step(action)


class ReluctantEnv(CountingEnv):
    """Kills its process twice at every step, and then takes it; files remember how often."""

    def __init__(self, folder: str) -> None:
        super().__init__(length=100)
        self.folder = Path(folder)

    def step(self, action: Any) -> Any:
        for number in range(2):
            marker = self.folder / f"{self.count}-{number}"
            if not marker.exists():
                marker.touch()
                killed()
        return super().step(action)


def test_a_step_that_is_taken_by_ones_keeps_everybodys_info(process_backend: str, tmp_path: Path) -> None:
    env_fns: list[Any] = [*[functools.partial(CountingEnv, 100)] * 3, functools.partial(ReluctantEnv, str(tmp_path))]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=1, start_method="fork", on_fault="restore") as envs:
        envs.reset(seed=0)
        for number in range(1, 6):
            *_, info = envs.step([0] * 4)
            assert info["count"].tolist() == [number] * 4
        assert envs.stats.restarts == 10


def test_a_step_that_kills_every_time_is_given_up(process_backend: str, caplog: pytest.LogCaptureFixture) -> None:
    envs = ParallelEnv(
        [CountingEnv, DoomedEnv], backend=process_backend, num_workers=1, start_method="fork", on_fault="restore"
    )
    envs.reset(seed=0)
    envs.step([0, 0])
    with pytest.raises(
        shoal.PoisonStep,
        match="environment 1 has ended its worker 3 times in the same step or right after it, at last alone",
    ):
        envs.step([0, 0])
    assert "It is replaced, and its environments are brought back" in caplog.text
    envs.close()


def test_a_step_that_hangs_every_time_is_given_up(process_backend: str) -> None:
    from tests.envs import HangingEnv

    envs = ParallelEnv(
        [CountingEnv, HangingEnv],
        backend=process_backend,
        num_workers=2,
        start_method="fork",
        step_timeout=0.3,
        on_fault="restore",
    )
    envs.reset(seed=0)
    with pytest.raises(shoal.WorkerTimeout, match="environment 1 took longer than 0.3 s"):
        envs.step([0, 4])
    envs.close()


class DrawingEnv(CountingEnv):
    """Draws a number when it is reset, and shows it for ever."""

    drawn = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.drawn = 100, float(self.np_random.uniform(0, 100))
        return self._observe()

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        return np.array([self.count, self.drawn], np.float32), {}


def test_unseeded_environments_are_restored_too(process_backend: str) -> None:
    with ParallelEnv(
        [DrawingEnv] * 2, backend=process_backend, num_workers=1, start_method="fork", on_fault="restore"
    ) as envs:
        first, _ = envs.reset()
        envs.step([0, 0])
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        after, *_ = envs.step([1, 1])
        assert after[:, 0].tolist() == [2, 2]
        assert after[:, 1].tolist() == first[:, 1].tolist()
        assert envs.stats.restarts == 1


def test_text_worlds_and_turns_are_restored(process_backend: str) -> None:
    with (
        shoal.EnvList(
            [TextEnv, WalkingEnv], backend=process_backend, num_workers=1, start_method="fork", on_fault="restore"
        ) as envs,
        shoal.EnvList([TextEnv, WalkingEnv], backend="serial") as undisturbed,
    ):
        assert not difference(envs.reset(seed=3), undisturbed.reset(seed=3))
        action = envs.action_spaces[0].sample()
        for number in range(2):
            if number:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            assert not difference(envs.step([action, 1]), undisturbed.step([action, 1]))


def test_replacing_is_logged_once_with_the_reason(
    process_backend: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with caplog.at_level(logging.WARNING, logger="shoal"):
        play(
            env_fns=faulty(tmp_path, {2: (7, killed, True)}),
            backend=process_backend,
            num_workers=2,
            start_method="fork",
        )
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "was killed by SIGKILL while in step(), at environment 2" in record.getMessage()


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="on_fault must be one of 'restore', 'truncate', 'raise', got 'ignore'"
    ):
        ParallelEnv([CountingEnv], on_fault="ignore")


def test_what_the_caller_changes_afterwards_is_not_what_is_repeated(process_backend: str) -> None:
    options = {"from": 3.0}
    with ParallelEnv([WalkingEnv] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs:
        expected = envs.reset(seed=0, options=options)[0]
        options["from"] = 9.0
        os.kill(envs.worker_pids[0], signal.SIGKILL)
        observation, *_ = envs.step([1, 1])
        assert envs.stats.restarts == 1
        assert observation[:, 1].tolist() == expected[:, 1].tolist() == [3.0, 3.0]
