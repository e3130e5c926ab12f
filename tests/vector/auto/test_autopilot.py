"""``backend="auto"``: the first steps decide, and no result depends on the decision."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import threading
import time
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal.vector.auto import trial
from shoal.vector.backends import make_backend
from shoal.vector.backends.serial import SerialBackend
from tests.comparing import difference
from tests.envs import WalkingEnv
from tests.moving import move_at_once
from tests.vector.auto.costly import CostlyEnv, make_up_time, play_until_decided, same_played

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor leaves no choice")


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    make_up_time(monkeypatch, [0])
    move_at_once(monkeypatch)


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_what_costs_much_moves_to_workers_and_goes_on_the_same(mode: AutoresetMode) -> None:
    keywords: dict[str, Any] = {"computing": 2e-3}
    with shoal.make(CostlyEnv, 6, autoreset_mode=mode, **keywords) as envs:
        assert (envs.plan.backend, envs.worker_pids) == ("serial", ())
        assert envs.plan.reason == "the first steps are timed in this process, then it is decided"
        found = play_until_decided(envs)
        assert (envs.plan.backend, len(envs.worker_pids), envs.on_fault) == ("shm", 2, "restore")
        assert "A step of one environment takes" in envs.plan.reason
        assert "2 worker processes should take about" in envs.plan.reason
    assert not difference(found, same_played(keywords, 6, len(found) - 1, autoreset_mode=mode))


def test_what_costs_little_stays_and_no_worker_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def watched(name: str, *arguments: Any, **keywords: Any) -> Any:
        started.append(name)
        return make_backend(name, *arguments, **keywords)

    monkeypatch.setattr("shoal.vector.pool.make_backend", watched)
    with shoal.make(CostlyEnv, 4) as envs:
        found = play_until_decided(envs)
        assert (envs.plan.backend, envs.on_fault) == ("serial", "raise")
        assert envs.plan.reason.startswith("A step of one environment takes ")
        assert envs.plan.reason.endswith("which is not worth it.")
        assert isinstance(envs._pool.backend, SerialBackend), "nothing is written down any more"
    assert started == ["serial"]
    assert not difference(found, same_played({}, 4, len(found) - 1))


def test_what_waits_gets_a_thread_each() -> None:
    keywords: dict[str, Any] = {"waiting": 5e-3}
    with shoal.make(CostlyEnv, 6, **keywords) as envs:
        found = play_until_decided(envs)
        plan = envs.plan
        assert (plan.backend, plan.num_workers, plan.threads_per_worker) == ("shm", 2, 3)
        assert "% of it waiting" in plan.reason
        assert "2 worker processes with 3 threads each" in plan.reason
    assert not difference(found, same_played(keywords, 6, len(found) - 1))


def test_what_is_slow_to_make_is_made_by_workers_at_once() -> None:
    CostlyEnv.made = 0
    with shoal.make(CostlyEnv, 3, making=0.1) as envs:
        assert (envs.plan.backend, CostlyEnv.made) == ("shm", 2)
        assert envs.plan.reason.startswith("Making one environment takes 0.1")


def test_what_is_slow_to_reset_moves_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SLOW_TO_BEGIN", 0.0)
    with shoal.make(WalkingEnv, 3) as envs:
        assert envs.plan.backend == "serial"
        observation, _ = envs.reset(seed=3)
        again = [envs.step([0, 1, 2]) for _ in range(2)]
        assert envs.plan.backend == "shm"
        assert envs.plan.reason == "Nothing was timed before workers were needed."
    with shoal.make(WalkingEnv, 3, backend="serial") as plain:
        assert not difference(observation, plain.reset(seed=3)[0])
        assert not difference(again, [plain.step([0, 1, 2]) for _ in range(2)])


def test_a_first_environment_is_made_only_once() -> None:
    CostlyEnv.made = 0
    with shoal.make(CostlyEnv, 3) as envs:
        envs.reset()
        assert CostlyEnv.made == 3


@pytest.mark.parametrize("how", ["step_async", "all at once", "halves", "parts"])
def test_who_wants_something_meanwhile_is_timed_too_and_gets_workers(how: str) -> None:
    with shoal.make(CostlyEnv, 4, computing=2e-3) as envs, shoal.make(CostlyEnv, 4, backend="serial") as plain:
        for each in (envs, plain):
            each.reset(seed=3)
            each.set_attr("start", 5.0)
        if how == "halves":
            envs.send([1] * 4)
        parts = envs.split(2)
        for _ in range(20):
            expected = plain.step([1] * 4)
            found: list[Any] = []
            if how == "step_async":
                envs.step_async([1] * 4)
                found.append((range(4), *envs.step_wait()))
            elif how == "all at once":
                envs.send([1] * 4)
                found.append(envs.recv(min_envs=4))
            elif how == "halves":
                for _ in range(2):
                    batch = envs.recv(env_ids=[0, 1] if not found else [2, 3])
                    found.append(batch)
                    envs.send([1, 1], batch.env_ids)
            else:
                found.extend((part.env_ids, *part.step([1, 1])) for part in parts)
            for env_ids, *results in found:
                its = [values[list(env_ids)] for values in expected[:4]]
                assert not difference(results[:4], its)
        assert (envs.plan.backend, envs._is_undecided) == ("shm", False)
        assert "A step of one environment takes" in envs.plan.reason


@pytest.mark.parametrize(
    "keywords",
    [
        {"num_workers": 2}, {"start_method": "fork"}, {"on_fault": "truncate"}, {"step_timeout": 9.0},
        {"timeouts": {"reset": 9.0}}, {"max_worker_episodes": 99}, {"max_worker_memory": "2 GB"}, {"in_process": [0]},
        {"isolate_rng": True},
    ],
    ids=str,
)  # fmt: skip
def test_who_asks_for_what_only_workers_have_gets_them_at_once(keywords: dict[str, Any]) -> None:
    with shoal.make(WalkingEnv, 3, **keywords) as envs:
        assert envs.plan.backend == "shm"
        assert not envs._is_undecided


class FickleEnv(CostlyEnv):
    """Never the same twice."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float(time.perf_counter_ns()), *rest


def test_what_cannot_be_repeated_stays_with_a_warning() -> None:
    with shoal.make(FickleEnv, 4, computing=2e-3) as envs:
        with pytest.warns(RuntimeWarning, match="all environments run in this process, .*gave another result than"):
            play_until_decided(envs)
        assert (envs.plan.backend, envs.worker_pids) == ("serial", ())
        assert "But they cannot run elsewhere" in envs.plan.reason
        assert envs.step([1, 1, 1, 1])[0].shape == (4, 3)


def test_where_no_process_can_be_started_it_stays_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.warns(
        RuntimeWarning, match="all environments run in this process, .*refuses another process"
    ) as warned:
        envs = shoal.make(WalkingEnv, 4)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with envs:
        assert envs.plan.backend == "serial"
        assert "no worker process could be started" in envs.plan.reason
        envs.reset()


def test_a_world_stays() -> None:
    with shoal.make("shoal/FrozenLake-v0", 4) as envs:
        assert (envs.plan.backend, envs.plan.reason) == (
            "serial",
            "A batched world steps all its environments in one call.",
        )


def test_close_and_errors_work_while_it_is_open() -> None:
    envs = shoal.make(WalkingEnv, 3)
    with pytest.raises(shoal.ResetNeeded):
        envs.step([0, 0, 0])
    envs.reset()
    with pytest.raises(shoal.InvalidAction):
        envs.step([0, 0])
    envs.close()
    with pytest.raises(shoal.Closed):
        envs.step([0, 0, 0])
    with pytest.raises(shoal.Closed):
        envs.step_async([0, 0, 0])


@pytest.mark.parametrize(("slow", "sizes"), [(0, [1, 7]), (1, [2, 6]), (7, [7, 1])])
def test_who_is_slower_than_the_others_shares_a_worker_with_fewer(slow: int, sizes: list[int]) -> None:
    costs = [3e-3 if place == slow else 3e-4 for place in range(8)]
    env_fns = [functools.partial(CostlyEnv, cost) for cost in costs]
    with shoal.ParallelEnv(env_fns) as envs:
        found = play_until_decided(envs)
        pids = envs.call(pid_of)
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == sizes
        assert "Steps of single environments take 300 µs to 3 ms" in envs.plan.reason
        assert f"shares that take equally long: {sizes[0]}, {sizes[1]} environments." in envs.plan.reason
    assert not difference(found, same_played({}, 8, len(found) - 1))


def pid_of(env: Any) -> int:
    return os.getpid()


class BrokenEnv(WalkingEnv):
    made = 0

    def __init__(self) -> None:
        BrokenEnv.made += 1
        raise ValueError("no such map")


def test_what_cannot_be_made_is_reported_as_on_any_backend_and_made_once() -> None:
    with pytest.raises(shoal.EnvError, match="environment 0 .*no such map") as caught:
        shoal.make(BrokenEnv, 3)
    assert isinstance(caught.value, ValueError)
    assert BrokenEnv.made == 1


class SlowResetEnv(WalkingEnv):
    """Takes its time to begin."""

    def reset(self, **keywords: Any) -> Any:
        time.sleep(0.02)
        return super().reset(**keywords)


def test_beginnings_are_not_taken_for_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SLOW_TO_BEGIN", 10.0)
    with shoal.make(SlowResetEnv, 4) as envs:
        first, second = envs.split(2)
        for _ in range(3):
            for part in (first, second):
                part.reset()
            for _ in range(3):
                first.step([1, 1])
                second.step([1, 1])
        assert envs.plan.backend == "serial"


def test_a_recording_goes_on_after_a_move() -> None:
    with shoal.make(CostlyEnv, 3, computing=5e-3) as envs:
        envs.reset(seed=0)
        recording = envs.record_arrivals()
        for _ in range(12):
            envs.send([0, 1, 2])
            envs.recv(min_envs=3)
        assert envs.plan.backend == "shm"
        assert sorted(row for arrived in recording for row in arrived) == sorted([0, 1, 2] * 12)


class OnlyHereEnv(CostlyEnv):
    """Cannot be made in another process."""

    def __init__(self, computing: float, home: int) -> None:
        super().__init__(computing)
        if os.getpid() != home:
            raise OSError("the port is in use")


def test_what_cannot_be_made_elsewhere_stays_with_a_warning() -> None:
    with shoal.make(functools.partial(OnlyHereEnv, 2e-3, os.getpid()), 4) as envs:
        with pytest.warns(RuntimeWarning, match="all environments run in this process, .*the port is in use") as warned:
            found = play_until_decided(envs)
        assert len(warned) == 1
        assert envs.plan.backend == "serial"
        assert not envs.closed
    assert not difference(found, same_played({"computing": 2e-3}, 4, len(found) - 1))


def test_what_is_no_factory_is_refused_before_anything_is_made() -> None:
    CostlyEnv.made = 0
    wrong: Any = [CostlyEnv, 3]
    with pytest.raises(shoal.ConfigurationError, match=r"env_fns\[1\] is not a callable that makes an environment"):
        shoal.ParallelEnv(wrong)
    assert CostlyEnv.made == 0


def test_the_time_between_making_and_resetting_does_not_count() -> None:
    with shoal.make(CostlyEnv, 4) as envs:
        time.sleep(4 * trial.SLOW_TO_BEGIN + 0.1)
        envs.reset()
        envs.step([0, 0, 0, 0])
        assert envs._is_undecided


class SecretiveEnv(CostlyEnv):
    """Tells something that cannot be pickled: in resets, in every step, or only in steps long after the decision."""

    def __init__(self, tells_in: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.tells_in, self.num_steps = tells_in, 0

    def reset(self, **keywords: Any) -> Any:
        observation, info = super().reset(**keywords)
        return observation, {**info, **self.secret("resets")}

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        *result, info = super().step(action)
        return *result, {**info, **self.secret("steps"), **(self.secret("late steps") if self.num_steps > 50 else {})}

    def secret(self, where: str) -> dict[str, Any]:
        return {"simulator": {"lock": threading.Lock()}} if where == self.tells_in else {}


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("tells_in", ["resets", "steps"])
@pytest.mark.parametrize("how", ["step", "recv"])
def test_infos_that_workers_could_not_send_keep_environments_here(tells_in: str, mode: AutoresetMode, how: str) -> None:
    with shoal.make(SecretiveEnv, 6, tells_in=tells_in, computing=2e-3, autoreset_mode=mode) as envs:
        envs.reset(seed=3)
        for _ in range(60):
            if how == "step":
                envs.step([1] * 6)
            else:
                envs.send([1] * 6)
                envs.recv(6)
        assert (envs.plan.backend, envs._is_undecided) == ("serial", False)
        assert envs.plan.reason.endswith(
            "But infos cannot be sent by worker processes (['simulator']['lock']: TypeError: cannot pickle "
            "'_thread.lock' object), so all stay in this process."
        ), envs.plan.reason


def test_infos_that_cannot_be_sent_after_the_move_are_no_breach_of_contract() -> None:
    with shoal.make(SecretiveEnv, 6, tells_in="late steps", computing=2e-3) as envs:
        envs.reset(seed=3)
        with pytest.raises(shoal.EnvContractError) as caught:
            for _ in range(60):
                envs.step([1] * 6)
        assert envs.plan.backend == "shm"
        text = str(caught.value)
        assert "contract" not in text
        assert (
            "returned what cannot leave its worker process: its info cannot be sent to the caller's process: " in text
        )
        assert "['simulator']['lock']: TypeError: cannot pickle '_thread.lock' object" in text
        assert 'use backend="threads" (or "serial")' in text
        assert (caught.value.episode, caught.value.step) != (0, 0), "it is said where"
        envs.set_attr("tells_in", "nothing")
        envs.reset(seed=3)
        envs.step([1] * 6)


def test_a_list_whose_infos_cannot_be_sent_stays_here() -> None:
    env_fns = [functools.partial(SecretiveEnv, "steps", computing=2e-3)] * 4
    with shoal.EnvList(env_fns, autoreset_mode="SameStep") as envs:
        envs.reset(seed=1)
        for _ in range(60):
            envs.step([1] * 4)
        assert envs.plan.backend == "serial"
        assert "But infos cannot be sent by worker processes" in envs.plan.reason


class LockedEnv(CostlyEnv):
    """Shows what cannot be sent to another process."""

    def reset(self, **keywords: Any) -> Any:
        _, info = super().reset(**keywords)
        return threading.Lock(), info

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return threading.Lock(), *rest


def test_a_list_whose_observations_cannot_be_sent_stays_here() -> None:
    with shoal.EnvList([functools.partial(LockedEnv, 2e-3)] * 4, autoreset_mode="SameStep") as envs:
        envs.reset(seed=1)
        for _ in range(60):
            envs.step([1] * 4)
        assert envs.plan.backend == "serial"
        assert "cannot be sent by worker processes" in envs.plan.reason


def test_a_list_is_timed_too_and_cheap_worlds_stay() -> None:
    with shoal.EnvList([CostlyEnv] * 4) as envs:
        envs.reset(seed=1)
        for _ in range(600):
            results = envs.step([1, 1], env_ids=[0, 2])
            ended = [
                row for row, *flags in zip([0, 2], results.terminated, results.truncated, strict=True) if any(flags)
            ]
            if ended:
                envs.reset(env_ids=ended)
        assert envs.plan.backend == "serial"
        assert envs.plan.reason.endswith("which is not worth it.")


def test_a_list_of_costly_worlds_moves_and_goes_on_the_same() -> None:
    found: list[list[Any]] = []
    for backend in ("auto", "serial"):
        with shoal.EnvList(
            [functools.partial(CostlyEnv, 2e-3)] * 4, backend=backend, autoreset_mode="SameStep"
        ) as envs:
            found.append([envs.reset(seed=3), *(envs.step([number % 3] * 4) for number in range(40))])
            assert envs.plan.backend == ("shm" if backend == "auto" else "serial")
    assert not difference(found[0], found[1])
