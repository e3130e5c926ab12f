"""Faults by plan: they happen where they should, as often as they should, and everything else is as it was."""

from __future__ import annotations

import functools
import gc
import logging
import os
import pickle
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from stable_baselines3.common.vec_env import SubprocVecEnv

import shoal
from shoal import ParallelEnv
from shoal.testing import Fault, FaultNotFired, FaultPlan
from shoal.testing.faults import ENDS_PROCESS, KINDS
from shoal.vector import shortening, supervisor
from shoal.vector.wards import Stats
from tests.comparing import difference
from tests.envs import CountingEnv, SpaceEnv, TextEnv
from tests.testing.ramblers import AgeingEnv, LongEnv, RamblingEnv

NUM_ENVS = 4
HARMFUL = sorted(ENDS_PROCESS)


def folders() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"shoal_faults_{os.getpid()}_*"))


@pytest.fixture(autouse=True)
def no_plan_stays() -> Iterator[None]:
    yield
    gc.collect()
    assert not folders()


def play(env_fns: Any, steps: int = 30, **keywords: Any) -> tuple[list[Any], Stats]:
    """A rollout, and what happened to the workers meanwhile."""
    with ParallelEnv(env_fns, **{"num_workers": 2, "start_method": "fork", **keywords}) as envs:
        results: list[Any] = [envs.reset(seed=5)]
        results += [envs.step([(number + row) % 3 for row in range(len(env_fns))]) for number in range(steps)]
        return results, envs.stats


def undisturbed(steps: int = 30, **keywords: Any) -> list[Any]:
    return play([RamblingEnv] * NUM_ENVS, steps, backend="serial", **keywords)[0]


# -- faults that end the process -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HARMFUL)
def test_whatever_ends_a_worker_the_rollout_is_restored(kind: Any) -> None:
    plan = FaultPlan([Fault(kind, env=2, step=3)])
    results, stats = play(plan.wrap(RamblingEnv, NUM_ENVS), backend="shm", on_fault="restore", step_timeout=1.0)
    assert not difference(results, undisturbed())
    assert stats.restarts == 1
    assert plan.fired == [Fault(kind, env=2, step=3)]
    plan.check_all_fired()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("kill", "was killed by SIGKILL"),
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("exit", "exit code 9"),
    ],
)
def test_a_worker_ends_in_the_way_that_was_asked_for(kind: Any, message: str) -> None:
    plan = FaultPlan([Fault(kind, env=1, step=2, code=9 if kind == "exit" else None)])
    with pytest.raises(shoal.WorkerDied, match=f"(?s){message}.*environment 1"):
        play(plan.wrap(RamblingEnv, NUM_ENVS), backend="pipes", on_fault="raise")
    plan.check_all_fired()


@pytest.mark.parametrize(("kind", "place"), [("hang", "_sleep_for_ever"), ("hang with GIL", "harm")])
def test_a_worker_that_hangs_shows_where(
    process_backend: str, kind: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    plan = FaultPlan([Fault(kind, env=1, step=2)])
    results, stats = play(
        plan.wrap(RamblingEnv, NUM_ENVS), 3, backend=process_backend, on_fault="restore", step_timeout=0.5
    )
    plan.check_all_fired()
    assert not difference(results, undisturbed(3))
    assert "environment 1 took longer than 0.5 s" in caplog.text
    assert re.search(rf'File ".*harm.py", line \d+ in {place}\n', caplog.text), caplog.text
    assert stats.seconds_lost < 5


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2], ids=lambda mode: mode.value)
def test_faults_in_every_phase_and_in_several_environments(process_backend: str, mode: AutoresetMode) -> None:
    faults = [
        Fault("kill", env=0, step=1),
        Fault("kill", env=3, step=2, phase="after step"),
        Fault("exit", env=1, episode=1, phase="reset"),
        Fault("kill", env=2, episode=2, step=1),
        Fault("kill", env=0, phase="construct"),
        Fault("kill", env=0, phase="construct", after=1),  # and when it is made again
        Fault("kill", env=2, step=1, after=1),  # while it is replayed
    ]
    plan = FaultPlan(faults)
    results, stats = play(
        plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, on_fault="restore", autoreset_mode=mode
    )
    plan.check_all_fired()
    assert sorted(map(repr, plan.fired)) == sorted(map(repr, faults))
    assert stats.restarts == len(faults)
    assert not difference(results, undisturbed(autoreset_mode=mode))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_every_way_to_start(process_backend: str, method: str) -> None:
    plan = FaultPlan([Fault("kill", env=1, step=2), Fault("kill", env=1, step=2, episode=1)])
    results, stats = play(
        plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, on_fault="restore", start_method=method
    )
    plan.check_all_fired()
    assert stats.restarts == 2
    assert not difference(results, undisturbed())


def test_a_fault_in_the_step_of_another_is_met_by_the_replacement() -> None:
    fault = Fault("kill", env=1, step=2)
    plan = FaultPlan([fault, Fault("exit", env=1, step=2), fault])
    results, stats = play(plan.wrap(RamblingEnv, NUM_ENVS)[:2], 5, backend="shm", num_workers=2, on_fault="truncate")
    assert plan.fired == [fault, Fault("exit", env=1, step=2), fault]
    assert stats.restarts == 3
    assert stats.lost_episodes == 1


def test_a_step_that_kills_every_time_ends_that_episode_alone(process_backend: str) -> None:
    fault = Fault("kill", env=2, step=3, every_time=True)
    plan = FaultPlan([fault])
    results, stats = play(
        plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, on_fault="truncate", autoreset_mode="SameStep"
    )
    *_, terminated, truncated, info = results[3]
    assert truncated.tolist() == [False, False, True, False]
    assert info["final_info"]["fault"]["signal"].tolist() == [None, None, "SIGKILL", None]
    assert stats.lost_episodes == 1
    assert plan.fired == [fault] * 3, "the third time it is given up, and later episodes are spared"
    plan.check_all_fired()
    others = [0, 1, 3]
    for (observation, *numbers, _), (expected, *expected_numbers, _) in zip(
        results[1:], undisturbed(autoreset_mode="SameStep")[1:], strict=True
    ):
        assert not difference(observation[others], expected[others])
        assert not difference([number[others] for number in numbers], [number[others] for number in expected_numbers])


def test_a_step_that_kills_so_many_times() -> None:
    plan = FaultPlan([Fault("kill", env=2, step=3, times=2)])
    results, stats = play(plan.wrap(RamblingEnv, NUM_ENVS), backend="shm", on_fault="restore")
    assert not difference(results, undisturbed())
    assert stats.restarts == 2
    plan.check_all_fired()


def test_a_step_that_kills_every_time_is_an_error_where_nothing_may_be_lost() -> None:
    plan = FaultPlan([Fault("kill", env=2, step=3, every_time=True)])
    with pytest.raises(shoal.PoisonStep, match="environment 2 has ended its worker 3 times"):
        play(plan.wrap(RamblingEnv, NUM_ENVS), backend="shm", on_fault="restore")


@pytest.mark.parametrize("kind", ["kill", "raise"])
def test_environments_that_can_never_be_made_again(process_backend: str, kind: Any) -> None:
    plan = FaultPlan([Fault("kill", env=0, step=2), Fault(kind, env=1, phase="construct", after=1, every_time=True)])
    with ParallelEnv(
        plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, num_workers=2, start_method="fork"
    ) as envs:
        envs.reset(seed=5)
        observation, *_ = envs.step([0] * NUM_ENVS)
        before = observation.copy()
        with pytest.raises(shoal.WorkerCrashLoop) as caught:
            envs.step([0] * NUM_ENVS)
        with pytest.raises(shoal.WorkerCrashLoop, match="can only be closed now"):
            envs.step([0] * NUM_ENVS)
        assert (observation == before).all(), "what had been returned is the caller's"
    said = str(caught.value)
    if kind == "kill":
        assert "worker 0 has died 11 times without getting any further" in said
        assert said.count("was killed by SIGKILL while") == 11
    else:
        assert "the replacement of worker 0 could not make its environments again" in said
    plan.check_all_fired()


# -- faults that go on -----------------------------------------------------------------------------------------------


class OwnError(Exception):
    """Not known to anybody else."""


@pytest.mark.parametrize("error", [OwnError("door is locked"), OwnError], ids=["instance", "class"])
@pytest.mark.parametrize("phase", ["before step", "after step"])
def test_an_exception_of_your_choice(backend: str, phase: Any, error: Any) -> None:
    plan = FaultPlan([Fault("raise", env=1, step=2, phase=phase, error=error)])
    with pytest.raises(OwnError) as caught:
        play(plan.wrap(RamblingEnv, 2), backend=backend)
    assert isinstance(caught.value, shoal.EnvError)
    assert (caught.value.env_index, caught.value.step) == (1, 2)
    plan.check_all_fired()


def test_an_exception_of_ours_says_that_it_was_planned(backend: str) -> None:
    plan = FaultPlan([Fault("raise", env=1, episode=0, phase="reset")])
    with pytest.raises(RuntimeError, match=r"as planned: Fault\('raise', env=1, phase='reset'\)"):
        play(plan.wrap(RamblingEnv, 2), backend=backend)
    play(plan.wrap(RamblingEnv, 2), backend=backend)
    assert len(plan.fired) == 1, "whoever begins anew is spared"


OBSERVED = [
    spaces.Box(0, 1, (2, 3), np.float32),
    spaces.Discrete(5),
    spaces.Text(9),
    spaces.Dict({"picture": spaces.Box(0, 255, (5, 3), np.uint8), "bits": spaces.MultiBinary(3)}),
    spaces.Tuple([spaces.Discrete(4), spaces.Box(0, 1, (2,))]),
    spaces.Sequence(spaces.Discrete(5)),
]


@pytest.mark.parametrize("space", OBSERVED, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("place", [{"step": 2}, {"phase": "reset", "episode": 1}], ids=["step", "reset"])
def test_an_observation_of_another_shape(space: Any, place: Any) -> None:
    plan = FaultPlan([Fault("wrong shape", env=0, **place)])
    (make,) = plan.wrap(SpaceEnv, 1, observation_space=space, action_space=spaces.Discrete(3))
    env = make()
    for _ in range(2):
        observations = [env.reset(seed=1)[0], *(env.step(0)[0] for _ in range(3))]
        plan_says = [space.contains(observation) for observation in observations]
        expected = 2 if "step" in place else 0
        if plan.fired and not all(plan_says):
            assert [number for number, is_inside in enumerate(plan_says) if not is_inside] == [expected]
    plan.check_all_fired()


def test_an_observation_of_another_shape_is_refused(backend: str) -> None:
    plan = FaultPlan([Fault("wrong shape", env=1, step=2)])
    with pytest.raises(shoal.EnvContractError, match="environment 1"):
        play(plan.wrap(RamblingEnv, 2), backend=backend)


def test_a_reward_that_is_not_a_number_and_a_large_info(backend: str) -> None:
    plan = FaultPlan(
        [
            Fault("nan reward", env=1, step=2),
            Fault("large info", env=0, step=1, nbytes=3_000_000),
            Fault("large info", env=1, phase="reset", nbytes=5),
        ]
    )
    results, _ = play(plan.wrap(RamblingEnv, 2), 3, backend=backend)
    plan.check_all_fired()
    assert results[0][1]["large_info"][1] == bytes(5)
    assert len(results[1][-1]["large_info"][0]) == 3_000_000
    assert np.isnan([step[1] for step in results[1:]]).tolist() == [[False, False], [False, True], [False, False]]


def test_what_the_caller_was_told_is_told_again_by_a_replay(process_backend: str) -> None:
    """Otherwise the replay would come to something else than what happened."""
    told = [
        Fault("nan reward", env=1, step=2),
        Fault("large info", env=0, step=1),
        Fault("nan reward", env=2, episode=1, step=1),
    ]
    expected, _ = play(FaultPlan(told).wrap(RamblingEnv, NUM_ENVS), backend="serial")
    plan = FaultPlan([*told, Fault("kill", env=1, step=4), Fault("kill", env=3, episode=2, step=2)])
    results, stats = play(plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, num_workers=1, on_fault="restore")
    assert stats.restarts == 2
    assert len(plan.fired) == 5, "a repetition is no news"
    assert not difference(results, expected)


def test_what_an_environment_raised_is_raised_again_by_a_replay(process_backend: str) -> None:
    """A step that was not taken must not be taken the second time: it would draw random numbers."""

    def results_of(env_fns: Any, **keywords: Any) -> list[Any]:
        results: list[Any] = []
        with ParallelEnv(env_fns, start_method="fork", **keywords) as envs:
            results.append(envs.reset(seed=5))
            for number in range(20):
                try:
                    results.append(envs.step([2, 1]))
                except OwnError:
                    results.append(envs.reset(options={"reset_mask": np.array([False, True])}))
                    results.append(number)
        return results

    told = Fault("raise", env=1, step=2, error=OwnError("once"))
    plan = FaultPlan([told, Fault("kill", env=0, episode=2, step=2)])
    expected = results_of(FaultPlan([told]).wrap(RamblingEnv, 2), backend="serial")
    results = results_of(plan.wrap(RamblingEnv, 2), backend=process_backend, num_workers=1, on_fault="restore")
    plan.check_all_fired()
    assert not difference(results, expected)


def test_a_slow_step_is_slow_once(process_backend: str) -> None:
    plan = FaultPlan([Fault("slow", env=1, step=2, seconds=0.4), Fault("kill", env=1, step=4)])
    began = time.perf_counter()
    results, stats = play(
        plan.wrap(RamblingEnv, NUM_ENVS), backend=process_backend, on_fault="restore", step_timeout=20
    )
    assert time.perf_counter() - began >= 0.4
    assert stats.restarts == 1
    plan.check_all_fired()
    assert not difference(results, undisturbed())


# -- the process that made the plan ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["serial", "threads"])
@pytest.mark.parametrize("kind", HARMFUL)
def test_nobody_ends_the_process_that_made_the_plan(backend: str, kind: Any) -> None:
    plan = FaultPlan([Fault(kind, env=1, step=2)])
    for _ in range(2):
        with pytest.raises(
            shoal.ConfigurationError, match="was not let happen: it would .* the process that made the plan"
        ):
            play(plan.wrap(RamblingEnv, 2), backend=backend)
    assert plan.fired == []
    with pytest.raises(FaultNotFired, match="it was refused, because it would have harmed the process"):
        plan.check_all_fired()


# -- with others -----------------------------------------------------------------------------------------------------


def test_environments_are_as_they_were_otherwise(backend: str) -> None:
    plan = FaultPlan([Fault("kill", env=0, episode=99, step=1), Fault("raise", env=1, episode=99, step=1)])
    results, _ = play(plan.wrap(RamblingEnv, NUM_ENVS), backend=backend)
    assert not difference(results, undisturbed())


def test_the_wrapper_hides_nothing() -> None:
    plan = FaultPlan([Fault("kill", env=0, step=9)])
    (make,) = plan.wrap("CartPole-v1", 1, render_mode="rgb_array")
    assert "CartPole" in repr(make)
    env, alone = make(), gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert env.spec == alone.spec
    assert env.render_mode == "rgb_array"
    assert type(env.unwrapped) is type(alone.unwrapped)
    assert env.get_wrapper_attr("gravity") == 9.8
    env.set_wrapper_attr("gravity", 5.0)
    assert env.unwrapped.gravity == 5.0  # type: ignore[attr-defined]
    alone.unwrapped.gravity = 5.0  # type: ignore[attr-defined]
    assert not difference(env.reset(seed=1), alone.reset(seed=1))
    assert not difference(env.step(1), alone.step(1))
    env.close()
    alone.close()


def test_attributes_and_calls_reach_the_environment(backend: str) -> None:
    plan = FaultPlan([Fault("kill", env=0, episode=9, step=1)])
    with ParallelEnv(plan.wrap(CountingEnv, 2), backend=backend, start_method="fork") as envs:
        envs.reset()
        envs.set_attr("label", ["first", "second"])
        assert envs.call("describe") == ("first:0", "second:0")


def test_a_plan_without_faults() -> None:
    plan = FaultPlan([])
    results, _ = play(plan.wrap([RamblingEnv] * NUM_ENVS), backend="serial")
    assert not difference(results, undisturbed())
    plan.check_all_fired()


@pytest.mark.parametrize("captures", [False, True], ids=["replay", "state"])
def test_a_branch_has_its_own_faults(captures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if captures:
        monkeypatch.setattr(supervisor, "MAINTENANCE", 3)
        monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.0)
        monkeypatch.setattr(shortening, "LONG_SECONDS", 0.0)
        monkeypatch.setattr(shortening, "CAPTURE_SHARE", 1.0)
    passed = Fault("kill", env=1, step=28)
    met = Fault("kill", env=1, step=35)
    plan = FaultPlan([passed, met, Fault("kill", env=0, step=34)])
    with ParallelEnv(
        plan.wrap(functools.partial(CountingEnv, 100), 2), backend="shm", num_workers=2, start_method="fork",
        on_fault="restore",
    ) as envs:  # fmt: skip
        envs.reset(seed=1)
        for _ in range(25):
            envs.step([0, 0])
        for _ in range(7):
            envs.send([0], [0])
            envs.recv(min_envs=1)
        envs.fork(0, [1])
        for _ in range(5):
            observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [37, 37]
        assert envs.stats.restarts == 2
    assert plan.fired == [Fault("kill", env=0, step=34), met]


def test_different_worlds() -> None:
    plan = FaultPlan([Fault("kill", env=0, step=2)])
    with (
        shoal.EnvList(
            plan.wrap([TextEnv, RamblingEnv]), backend="shm", num_workers=1, start_method="fork", on_fault="restore"
        ) as envs,
        shoal.EnvList([TextEnv, RamblingEnv], backend="serial") as alone,
    ):
        assert not difference(envs.reset(seed=3), alone.reset(seed=3))
        for _ in range(3):
            assert not difference(envs.step(["go", 1]), alone.step(["go", 1]))
    plan.check_all_fired()


def end(processes: Any, pipes: Any) -> None:
    """What others leave to the caller when a worker has died."""
    for process in processes:
        process.kill()
        process.join()
        process.close()
    for pipe in pipes:
        pipe.close()


def test_gymnasiums_own_vector_environment() -> None:
    plan = FaultPlan([Fault("nan reward", env=1, step=2), Fault("kill", env=0, step=4)])
    envs = AsyncVectorEnv(plan.wrap("CartPole-v1", 2), context="fork", shared_memory=False)
    envs.reset(seed=1)
    rewards = [envs.step(np.array([0, 1]))[1].tolist() for _ in range(3)]
    assert np.isnan(rewards).tolist() == [[False, False], [False, True], [False, False]]
    with pytest.raises((EOFError, ConnectionError)):
        envs.step(np.array([0, 1]))
    end(envs.processes, envs.parent_pipes)
    envs.closed = True  # it cannot be closed any more
    plan.check_all_fired()


def test_stable_baselines3s_own_vector_environment() -> None:
    plan = FaultPlan([Fault("nan reward", env=1, step=2), Fault("exit", env=0, step=3)])
    envs = SubprocVecEnv(plan.wrap("CartPole-v1", 2), start_method="fork")
    envs.reset()
    assert np.isnan([envs.step(np.array([0, 1]))[1] for _ in range(2)]).tolist() == [[False, False], [False, True]]
    with pytest.raises((EOFError, ConnectionError)):
        envs.step(np.array([0, 1]))
    end(envs.processes, envs.remotes)
    plan.check_all_fired()


# -- where an environment is, however it was brought there -----------------------------------------------------------


@pytest.mark.parametrize(
    ("env_class", "way"),
    [(LongEnv, shortening.Way.RESETS), (AgeingEnv, shortening.Way.CAPTURES)],
    ids=["reset", "state"],
)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_episodes_are_counted_right_when_a_replay_begins_late(
    env_class: Any, way: shortening.Way, mode: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MAINTENANCE", 3)
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", 0.0)
    if env_class is AgeingEnv:
        monkeypatch.setattr(shortening, "LONG_SECONDS", 0.0)
        monkeypatch.setattr(shortening, "CAPTURE_SHARE", 1.0)
    told = [Fault("nan reward", env=1, episode=number, step=2) for number in (1, 19, 20, 21, 24)]
    expected, _ = play(FaultPlan(told).wrap(env_class, 2), 600, backend="serial", autoreset_mode=mode)
    faults = [Fault("kill", env=1, episode=number, step=13) for number in (19, 20, 23)]
    never = Fault("kill", env=1, episode=0, step=23)  # it has ended by then
    pauses = [Fault("slow", env=0, episode=number, step=1, seconds=0.3) for number in (5, 8)]  # time to rehearse
    plan = FaultPlan([*told, *faults, *pauses, never])
    with caplog.at_level(logging.DEBUG, logger="shoal"):
        results, stats = play(
            plan.wrap(env_class, 2), 600, backend="shm", num_workers=1, on_fault="restore", autoreset_mode=mode
        )
    assert f"environments of worker 0 can begin {way.value}" in caplog.text
    assert stats.restarts == 3
    assert stats.replayed_steps < 2000, "not everybody began at the beginning"
    assert set(plan.faults) - set(plan.fired) == {never}
    assert len(plan.fired) == len(plan.faults) - 1
    assert not difference(results, expected)


# -- what is wrong, in words -----------------------------------------------------------------------------------------

MISTAKES = [
    ({"kind": "kil"}, r"kind must be one of 'kill', .*, got 'kil'\. Did you mean 'kill'\?"),
    ({"kind": "explode in flames"}, r"kind must be one of .*, got 'explode in flames'\.$"),
    ({"phase": "before_step"}, r"phase must be one of .*, got 'before_step'\. Did you mean 'before step'\?"),
    ({"env": -1}, "env must be a whole number of at least 0, got -1"),
    ({"env": True}, "env must be a whole number of at least 0, got True"),
    ({"episode": -1}, "episode must be a whole number of at least 0, got -1"),
    ({"step": -1}, "step must be a whole number of at least 1, got -1"),
    ({"step": 1.5}, "step must be a whole number of at least 1, got 1.5"),
    ({"step": 0}, 'step=0: steps are counted from 1; for the reset, pass phase="reset"'),
    ({"step": None}, "a fault in the phase 'before step' needs a step, such as step=1 for the first"),
    ({"phase": "reset"}, "there are no steps in the phase 'reset': leave step=3 out"),
    (
        {"phase": "construct", "step": None, "episode": 2},
        "there are no episodes in the phase 'construct': leave episode=2 out",
    ),
    ({"times": 0}, "times must be a whole number of at least 1, got 0"),
    ({"after": -1}, "after must be a whole number of at least 0, got -1"),
    ({"times": 2, "every_time": True}, "times=2 and every_time=True contradict each other"),
    ({"seconds": 2.0}, "seconds is for faults of the kind 'slow', and this one is 'kill'"),
    ({"code": 2}, "code is for faults of the kind 'exit', and this one is 'kill'"),
    ({"error": OwnError}, "error is for faults of the kind 'raise', and this one is 'kill'"),
    ({"kind": "slow", "nbytes": 2}, "nbytes is for faults of the kind 'large info', and this one is 'slow'"),
    ({"kind": "exit", "code": 256}, "code must be a whole number from 0 to 255, got 256"),
    ({"kind": "slow", "seconds": -1}, "seconds must be a number of at least 0, got -1"),
    ({"kind": "slow", "seconds": float("inf")}, "seconds must be a number of at least 0, got inf"),
    ({"kind": "large info", "nbytes": -1}, "nbytes must be a whole number of at least 0, got -1"),
    ({"kind": "raise", "error": "no"}, "error must be an exception, or a class of exceptions, got 'no'"),
    (
        {"kind": "wrong shape", "phase": "before step"},
        "'wrong shape' changes a result, and there is none in the phase 'before step': choose 'after step' or 'reset'",
    ),
    (
        {"kind": "nan reward", "phase": "reset", "step": None},
        "a fault of the kind 'nan reward' changes a result, and there is none in the phase 'reset': choose 'after step'",
    ),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_fault_that_cannot_be_is_refused(mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        Fault(**{"kind": "kill", "env": 0, "step": 3, **mistake})


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Fault("kill", env=0, step=1), r"faults must be a list of Fault, got Fault\('kill', env=0, step=1\)"),
        (3, "faults must be a list of Fault, got 3"),
        (["kill"], r"faults\[0\] must be a Fault, got 'kill'"),
    ],
)
def test_a_plan_of_something_else_is_refused(faults: Any, message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        FaultPlan(faults)


def test_an_environment_that_is_not_there_is_named() -> None:
    plan = FaultPlan([Fault("kill", env=4, step=1)])
    with pytest.raises(
        shoal.ConfigurationError, match="env=4.* is for environment 4, and there are 4 environments, counted"
    ):
        plan.wrap("CartPole-v1", 4)
    with pytest.raises(
        shoal.ConfigurationError, match="is for environment 4, and there is 1 environment, counted from 0"
    ):
        plan.wrap("CartPole-v1")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_shows_itself_as_it_was_written(kind: Any) -> None:
    fault = Fault(kind, env=3, step=17)
    assert repr(fault) == f"Fault({kind!r}, env=3, step=17)"
    assert fault == Fault(kind, env=3, episode=0, step=17, phase=fault.phase)
    assert pickle.loads(pickle.dumps(fault)) == fault


def test_a_fault_shows_what_is_not_usual() -> None:
    fault = Fault("exit", env=0, episode=2, step=3, phase="after step", after=1, every_time=True, code=7)
    assert repr(fault) == (
        "Fault('exit', env=0, episode=2, step=3, phase='after step', every_time=True, after=1, code=7)"
    )
    assert repr(Fault("raise", env=0, phase="construct")) == "Fault('raise', env=0, phase='construct')"


# -- proof that it happened ------------------------------------------------------------------------------------------


def reason_of(plan: FaultPlan) -> str:
    with pytest.raises(FaultNotFired) as caught:
        plan.check_all_fired()
    return str(caught.value)


def test_a_fault_that_did_not_happen_says_how_far_its_environment_got(backend: str) -> None:
    fault = Fault("kill", env=1, step=17)
    plan = FaultPlan([fault])
    env_fns = plan.wrap(functools.partial(CountingEnv, 100), 2)
    assert "environment 1 was never made" in reason_of(plan)
    with ParallelEnv(env_fns, backend=backend, start_method="fork") as envs:
        assert "environment 1 was never reset" in reason_of(plan)
        envs.reset()
        assert "never reached step 17 of episode 0; it got to episode 0 step 0" in reason_of(plan)
        for _ in range(12):
            envs.step([0, 0])
    assert reason_of(plan) == (
        "1 of 1 faults did not fire as planned:\n"
        "  Fault('kill', env=1, step=17): environment 1 never reached step 17 of episode 0; it got to episode 0 step 12"
    )


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (
            Fault("raise", env=0, step=5),
            "never reached step 5 of episode 0, because that episode had ended before; it got to episode 2 step 1",
        ),
        (Fault("raise", env=0, episode=9, phase="reset"), "never reached episode 9; it got to episode 2 step 1"),
        (Fault("slow", env=0, step=1, times=3, seconds=0), "it fired once, not 3 times"),
        (Fault("raise", env=0, step=1, after=2), "environment 0 was there once, and was to pass twice before"),
        (
            Fault("raise", env=0, phase="construct", after=1),
            "environment 0 was there once, and was to pass once before",
        ),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_every_reason_why_a_fault_did_not_happen(fault: Fault, reason: str) -> None:
    plan = FaultPlan([fault])
    play(plan.wrap(CountingEnv, 1), 9, backend="serial")
    assert reason in reason_of(plan)


def test_a_fault_after_a_step_that_never_ended() -> None:
    plan = FaultPlan([Fault("raise", env=0, step=1), Fault("raise", env=0, step=1, phase="after step")])
    with pytest.raises(RuntimeError):
        play(plan.wrap(CountingEnv, 1), backend="serial")
    assert "environment 0 reached step 1 of episode 0, but not its end" in reason_of(plan)
    assert "1 of 2 faults did not fire as planned" in reason_of(plan)


def test_the_plan_cleans_up_after_itself() -> None:
    plan = FaultPlan([Fault("kill", env=0, step=2)])
    env_fns = plan.wrap(RamblingEnv, 2)
    play(env_fns, 4, backend="shm", on_fault="restore")
    assert len(folders()) == 1
    del plan
    gc.collect()
    assert len(folders()) == 1, "its factories may still be used"
    env_fns.clear()
    gc.collect()
    assert not folders()


def test_a_fork_leaves_the_plan_alone() -> None:
    plan = FaultPlan([Fault("raise", env=0, step=2)])
    pid = os.fork()
    if pid == 0:
        del plan
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert plan.fired == []


def test_a_plan_that_is_gone_is_missed() -> None:
    plan = FaultPlan([Fault("kill", env=0, step=2)])
    sent = cloudpickle.dumps(plan.wrap(RamblingEnv, 1)[0])
    del plan
    gc.collect()
    with pytest.raises(
        shoal.StateError, match="the FaultPlan of this environment is gone.*keep the plan in a variable"
    ):
        pickle.loads(sent)()


def test_a_stopped_worker_does_not_stay(process_backend: str) -> None:
    plan = FaultPlan([Fault("stop", env=0, step=2)])
    with ParallelEnv(
        plan.wrap(RamblingEnv, 2), backend=process_backend, num_workers=1, start_method="fork", on_fault="restore",
        step_timeout=0.5,
    ) as envs:  # fmt: skip
        envs.reset(seed=1)
        (pid,) = envs.worker_pids
        envs.step([0, 0])
        envs.step([0, 0])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    plan.check_all_fired()
