"""Sending environments off and receiving whoever is back: per environment, nothing differs from being alone."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import ParallelEnv
from tests.comparing import difference
from tests.conftest import BACKENDS
from tests.envs import CountingEnv, GrumpyEnv, WalkingEnv, counting

Make = Callable[..., ParallelEnv]
NUM_ENVS = 5


def drain(envs: ParallelEnv) -> dict[int, Any]:
    """Everything that is under way, by environment."""
    received: dict[int, Any] = {}
    while envs.num_under_way:
        received.update(rows_of(envs.recv(timeout=30)))
    return received


def rows_of(batch: shoal.Batch) -> dict[int, Any]:
    """What a batch says of each environment."""
    rows = {}
    for place, env_id in enumerate(batch.env_ids.tolist()):
        infos = unbatched(batch.info, place)
        flags = bool(batch.terminated[place]), bool(batch.truncated[place])
        rows[env_id] = (batch.observation[place], float(batch.reward[place]), *flags, infos)
    return rows


def unbatched(info: dict[str, Any], place: int) -> dict[str, Any]:
    """One environment's info out of a batch of them."""
    return {
        key: unbatched(value, place) if isinstance(value, dict) else value[place]
        for key, value in info.items()
        if not key.startswith("_") and info[f"_{key}"][place]
    }


# -- the same as alone ---------------------------------------------------------------------------------------------------


class Alone:
    """One environment in a plain loop, with Gymnasium's autoreset written out."""

    def __init__(self, mode: AutoresetMode) -> None:
        self.env, self.mode = WalkingEnv(), mode
        self.is_due = False

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        self.is_due = False
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, 0.0, False, False, info

    def step(self, action: int) -> Any:
        if self.is_due:
            return self.reset(None, None)
        observation, reward, terminated, truncated, info = self.env.step(np.int64(action))
        if terminated or truncated:
            if self.mode is AutoresetMode.SAME_STEP:
                final = {"final_obs": observation, "final_info": info}
                observation, info = self.env.reset()
                info = {**final, **info}
            self.is_due = self.mode is AutoresetMode.NEXT_STEP
        return observation, reward, terminated, truncated, info

    @property
    def must_be_reset(self) -> bool:
        return self.mode is AutoresetMode.DISABLED and self.env.is_over


Script = list[tuple[str, list[int], int]]
scripts = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "reset", "recv", "step"]),
        st.lists(st.integers(0, NUM_ENVS - 1), unique=True, min_size=1),
        st.integers(1, 1000),
    ),
    min_size=5,
    max_size=40,
)


def follow(script: Script, envs: ParallelEnv, mode: AutoresetMode) -> None:
    """Do what the script says, and compare every result with that of an environment that is alone."""
    lone = [Alone(mode) for _ in range(NUM_ENVS)]
    expected: dict[int, Any] = {}

    def compare(received: dict[int, Any]) -> None:
        for row, result in received.items():
            alone = expected.pop(row)
            final = {key: alone[4].pop(key) for key in ("final_obs", "final_info") if key in alone[4]}
            given_final = {key: result[4].pop(key) for key in ("final_obs", "final_info") if key in result[4]}
            assert not difference(result[:4], alone[:4]), row
            assert result[4] == alone[4]
            assert given_final.keys() == final.keys()
            if final:
                assert not difference(given_final["final_obs"], final["final_obs"])
                assert given_final["final_info"] == final["final_info"]

    observations, _ = envs.reset(seed=100)
    for row, env in enumerate(lone):
        assert not difference(observations[row], env.reset(100 + row, None)[0])
    for op, rows, number in script:
        idle = [row for row in rows if row not in expected]
        steppable = [row for row in idle if not lone[row].must_be_reset]
        if op == "send" and steppable:
            envs.send([(number + row) % 3 for row in steppable], steppable)
            expected.update({row: lone[row].step((number + row) % 3) for row in steppable})
        elif op == "reset" and idle:
            envs.send_reset(idle, seed=[number + row for row in idle], options=[{"from": row} for row in idle])
            expected.update({row: lone[row].reset(number + row, {"from": row}) for row in idle})
        elif op == "recv" and expected:
            compare(rows_of(envs.recv(min_envs=1 + number % len(expected), timeout=30)))
        elif op == "step" and not expected and not any(env.must_be_reset for env in lone):
            *results, _ = envs.step([number % 3] * NUM_ENVS)
            for row, env in enumerate(lone):
                assert not difference(results[0][row], env.step(number % 3)[0])
    compare(drain(envs))
    assert not expected


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=12)
@given(script=scripts)
def test_any_interleaving_gives_what_a_lone_environment_gives(
    backend: str, mode: AutoresetMode, script: Script
) -> None:
    with ParallelEnv(
        [WalkingEnv] * NUM_ENVS, backend=backend, num_workers=2, start_method="fork", autoreset_mode=mode
    ) as envs:
        follow(script, envs, mode)


def test_every_way_to_start_gives_what_a_lone_environment_gives(make_any_way: Make) -> None:
    script: Script = [
        ("send", [4, 1], 1),
        ("recv", [0], 0),
        ("reset", [2, 1], 7),
        ("send", [0, 3], 2),
        ("recv", [0], 1),
    ]
    follow(script * 8, make_any_way([WalkingEnv] * NUM_ENVS), AutoresetMode.NEXT_STEP)


# -- nobody waits for the slowest ----------------------------------------------------------------------------------------


class NappingEnv(CountingEnv):
    """Sleeps as long as it is told to, in hundredths of a second."""

    def __init__(self) -> None:
        super().__init__(length=1000)
        self.action_space = spaces.Discrete(100)

    def step(self, action: Any) -> Any:
        time.sleep(float(action) / 100)
        return super().step(action)


def test_one_that_is_slow_delays_nobody_who_is_done(make: Make) -> None:
    envs = make([NappingEnv] * 4)
    if envs.plan.backend == "serial":
        pytest.skip("one at a time: whoever was sent first is first")
    envs.reset(seed=0)
    envs.send([0, 4, 0, 4], [0, 1, 2, 3])  # environments 1 and 3 are each the second of their worker
    batch = envs.recv(min_envs=2, timeout=30)
    assert sorted(batch.env_ids.tolist()) == [0, 2]
    assert envs.num_under_way == 2
    assert sorted(drain(envs)) == [1, 3]


def test_is_ready_tells_who_is_back_without_waiting(make: Make) -> None:
    envs = make([NappingEnv] * 2)
    envs.reset(seed=0)
    assert not envs.is_ready().any()
    envs.send([0, 0])
    deadline = time.monotonic() + 30
    while not envs.is_ready([1, 0]).all() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert envs.is_ready().tolist() == [True, True]
    assert sorted(envs.recv(min_envs=2).env_ids) == [0, 1]
    assert not envs.is_ready().any()


def test_max_envs_leaves_the_others_for_the_next_time(make: Make) -> None:
    envs = make([counting()] * 4)
    envs.reset(seed=0)
    envs.send([0] * 4)
    first = envs.recv(min_envs=1, max_envs=1)
    assert len(first.env_ids) == 1
    rest = drain(envs)
    assert sorted([*first.env_ids.tolist(), *rest]) == [0, 1, 2, 3]


class SlowerEnv(CountingEnv):
    """Takes a moment for a step."""

    def step(self, action: Any) -> Any:
        time.sleep(0.05)
        return super().step(action)


def test_all_that_are_back_are_handed_over_even_if_fewer_were_known_to_be(process_backend: str) -> None:
    with ParallelEnv([counting(), SlowerEnv], backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        envs.send([0, 0])
        while not envs.is_ready([0]).all():
            time.sleep(0.001)
        time.sleep(1.0)
        assert sorted(envs.recv(min_envs=1).env_ids) == [0, 1]


def test_everything_of_a_batch_is_in_the_order_of_its_environments(make: Make) -> None:
    envs = make([counting(9)] * 4)
    envs.reset(seed=0)
    envs.send([3, 1, 2], [2, 0, 3])
    received = drain(envs)
    assert {row: result[1] for row, result in received.items()} == {2: 3.0, 0: 1.0, 3: 2.0}
    assert received[0][4] == {"count": 1, "resets": 1}
    assert received[0][0].tolist() == [1.0, 1.0]


# -- asyncio -------------------------------------------------------------------------------------------------------------


def test_others_run_while_a_coroutine_waits(make: Make) -> None:
    envs = make([NappingEnv] * 2)
    envs.reset(seed=0)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    async def main() -> list[int]:
        ticking = asyncio.create_task(tick())
        received: list[int] = []
        envs.send([5, 10])
        while envs.num_under_way:
            received += (await envs.arecv(timeout=30)).env_ids.tolist()
        ticking.cancel()
        return received

    assert sorted(asyncio.run(main())) == [0, 1]
    # In the caller's own thread nothing runs while an environment does.
    assert ticks >= (1 if envs.plan.backend == "serial" else 5)


def test_a_coroutine_gives_up_after_its_timeout_and_can_be_repeated(make: Make) -> None:
    envs = make([NappingEnv] * 2)
    if envs.plan.backend == "serial":
        pytest.skip("nothing can be given up while an environment runs in the caller's own thread")
    envs.reset(seed=0)

    async def main() -> None:
        envs.send([20, 20])
        with pytest.raises(shoal.WaitTimeout, match="`recv` has waited 0.01 s: 0 of the 2 environments"):
            await envs.arecv(min_envs=2, timeout=0.01)
        first = asyncio.create_task(envs.arecv(min_envs=2))
        await asyncio.sleep(0)
        with pytest.raises(shoal.AlreadyPending, match="another `arecv` is waiting; one at a time"):
            await envs.arecv()
        assert sorted((await first).env_ids) == [0, 1]

    asyncio.run(main())


# -- recorded and played back --------------------------------------------------------------------------------------------


def serve(envs: ParallelEnv, naps: dict[int, int], batches: int) -> list[Any]:
    """Send back whoever arrives, with naps of each one's own."""
    results: list[Any] = [envs.reset(seed=0)]
    envs.send([naps[row] for row in range(4)])
    for _ in range(batches):
        batch = envs.recv(min_envs=2, timeout=30)
        results.append(batch)
        envs.send([naps[row] for row in batch.env_ids.tolist()], batch.env_ids)
    drain(envs)
    return results


def test_a_recording_played_back_gives_the_same_batches_whoever_is_quick_today(make: Make) -> None:
    recorded = make([NappingEnv] * 4)
    recording = recorded.record_arrivals()
    results = serve(recorded, {0: 0, 1: 1, 2: 2, 3: 3}, batches=6)
    replayed = make([NappingEnv] * 4)
    replayed.replay_arrivals(recording[:6])
    again = serve(replayed, {0: 3, 1: 2, 2: 1, 3: 0}, batches=6)
    for first, second in zip(results[1:], again[1:], strict=True):
        assert first.env_ids.tolist() == second.env_ids.tolist()
        assert not difference(first.observation, second.observation)


def test_a_program_that_does_something_else_than_the_recorded_one_is_told(make: Make) -> None:
    envs = make([counting()] * 3)
    envs.reset(seed=0)
    envs.replay_arrivals([[2, 0]])
    envs.send([0], [2])
    with pytest.raises(shoal.StateError, match=r"hands over environments \[2, 0\] next, but \[0\] have not been sent"):
        envs.recv()
    envs.send([0], [0])
    assert envs.recv().env_ids.tolist() == [2, 0]


@pytest.mark.parametrize("recording", [[[3]], [[-1]], [["0"]]])
def test_a_recording_of_something_else_is_refused(recording: Any) -> None:
    with ParallelEnv([counting()] * 3, backend="serial") as envs:
        with pytest.raises(shoal.ConfigurationError, match="a list of lists of environments from 0 to 2, got "):
            envs.replay_arrivals(recording)
        envs.reset(seed=0)
        envs.send([0] * 3)
        with pytest.raises(shoal.AlreadyPending, match="only be played back when nothing is under way"):
            envs.replay_arrivals([[0]])


# -- misuse --------------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_and_harms_nothing(make: Make) -> None:
    envs = make([counting()] * 3)
    with pytest.raises(shoal.ResetNeeded, match=r"environments \[0, 2\] must be reset before the first step"):
        envs.send([0, 0], [0, 2])
    with pytest.raises(shoal.NothingPending, match="no environment has been sent. Call `send` first"):
        envs.recv()
    envs.reset(seed=0)
    envs.send([0, 0], [0, 1])
    with pytest.raises(
        shoal.AlreadyPending, match=r"environments \[1\] have been sent and not received.*Nothing was sent"
    ):
        envs.send([0, 0], [1, 2])
    with pytest.raises(shoal.AlreadyPending, match=r"environments \[0\] have been sent"):
        envs.send_reset([0])
    with pytest.raises(shoal.NothingPending, match=r"`recv\(min_envs=3\)` would wait for ever: only 2 environments"):
        envs.recv(min_envs=3)
    for lockstep in (
        lambda: envs.step([0] * 3),
        envs.reset,
        lambda: envs.call("describe"),
        lambda: envs.step_async([0] * 3),
    ):
        with pytest.raises(shoal.AlreadyPending, match=r"while environments \[0, 1\] have been sent and not received"):
            lockstep()
    drain(envs)
    with pytest.raises(shoal.InvalidAction, match=r"shape \(1,\), but this batch needs \(2,\)"):
        envs.send([0], [0, 2])
    assert envs.step([1, 1, 1])[0][:, 0].tolist() == [2.0, 2.0, 1.0]


def test_sending_while_a_step_is_pending_is_refused(make: Make) -> None:
    envs = make([counting()] * 2)
    envs.reset(seed=0)
    envs.step_async([0, 0])
    for call in (lambda: envs.send([0, 0]), envs.recv, envs.send_reset, envs.is_ready):
        with pytest.raises(shoal.AlreadyPending, match="while waiting for a pending call to `step`"):
            call()
    envs.step_wait()


@pytest.mark.parametrize(
    ("env_ids", "message"),
    [
        ([0, 0], r"env_ids names \[0\] more than once"),
        ([3], "env_ids: there is no 3; they are numbered from 0 to 2"),
        ([-1], "env_ids: there is no -1"),
        ([0.5], "env_ids must be whole numbers, got 0.5"),
        ([True], "env_ids must be whole numbers, got True"),
        ([], "env_ids is empty"),
        (1, "env_ids must be a sequence of indices, got 1"),
        ("01", "env_ids must be a sequence of indices, got '01'"),
        (np.array([True, False]), r"env_ids: a mask must have shape \(3,\), got \(2,\)"),
    ],
)
def test_environments_that_do_not_exist_are_refused(env_ids: Any, message: str) -> None:
    with ParallelEnv([counting()] * 3, backend="serial") as envs:
        envs.reset(seed=0)
        with pytest.raises(shoal.ConfigurationError, match=message):
            envs.send([0], env_ids)
        envs.send([0, 0], np.array([True, False, True]))
        assert sorted(drain(envs)) == [0, 2]


@pytest.mark.parametrize(("keywords", "message"), [
    ({"min_envs": 0}, "min_envs must be a whole number of at least 1, got 0"),
    ({"min_envs": 1.5}, "min_envs must be a whole number"),
    ({"max_envs": 0}, "max_envs must be a whole number of at least 1, got 0"),
    ({"min_envs": 2, "max_envs": 1}, "max_envs=1 is less than min_envs=2"),
])  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(keywords: dict[str, Any], message: str) -> None:
    with ParallelEnv([counting()] * 3, backend="serial") as envs:
        envs.reset(seed=0)
        envs.send([0] * 3)
        with pytest.raises(shoal.ConfigurationError, match=message):
            envs.recv(**keywords)


def test_an_environment_that_raises_is_named_and_the_others_arrive(make: Make) -> None:
    envs = make([counting(), functools.partial(GrumpyEnv, at=1), counting(), counting()])
    envs.reset(seed=0)
    envs.send([0, 3, 0, 0])
    received: dict[int, Any] = {}
    errors = []
    while envs.num_under_way:
        try:
            received.update(rows_of(envs.recv(timeout=30)))
        except shoal.EnvError as error:
            errors.append(error)
    assert sorted(received) == [0, 2, 3]
    assert [error.env_index for error in errors] == [1]
    with pytest.raises(shoal.ResetNeeded, match="environment 1 failed, and must be reset"):
        envs.send([0], [1])
    envs.send_reset([1])
    assert sorted(drain(envs)) == [1]


def test_an_ended_episode_must_be_reset_when_nobody_does_it(make: Make) -> None:
    envs = make([counting(1)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.send([0], [1])
    drain(envs)
    with pytest.raises(shoal.ResetNeeded, match="the episode of environment 1 has ended"):
        envs.send([0, 0])
    envs.send_reset([1])
    envs.send([0], [0])
    assert sorted(drain(envs)) == [0, 1]


def test_a_wait_that_times_out_loses_nothing(make: Make) -> None:
    envs = make([NappingEnv] * 2)
    if envs.plan.backend == "serial":
        pytest.skip("the caller's own thread cannot stop waiting")
    envs.reset(seed=0)
    envs.send([0, 20])
    with pytest.raises(
        shoal.WaitTimeout, match=r"1 of the 2 environments .* \(busy now: environment 1\). Nothing is lost"
    ):
        envs.recv(min_envs=2, timeout=0.1)
    assert sorted(drain(envs)) == [0, 1]


def test_closing_with_environments_under_way_is_quiet_and_quick(make: Make) -> None:
    envs = make([NappingEnv] * 2)
    envs.reset(seed=0)
    envs.send([1, 1])
    envs.close()
    with pytest.raises(shoal.Closed):
        envs.recv()


def test_a_worker_that_dies_under_way_is_reported(process_backend: str) -> None:
    from tests.envs import DyingEnv

    with ParallelEnv(
        [DyingEnv] * 2, backend=process_backend, num_workers=2, start_method="fork", on_fault="raise"
    ) as envs:
        envs.reset(seed=0)
        envs.send([4], [1])
        with pytest.raises(shoal.WorkerDied, match="while stepping environment 1"):
            envs.recv(timeout=30)
