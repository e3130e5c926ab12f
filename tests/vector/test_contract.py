"""Gymnasium's contract, on every backend: what code written for Sync- and AsyncVectorEnv relies on."""

from __future__ import annotations

import functools
import multiprocessing
import re
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers import vector as wrappers

from shoal import EnvContractError, ParallelEnv
from shoal.vector.errors import AlreadyPending, Closed, NothingPending
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, ReturningEnv, SlowEnv, SpaceEnv, counting, registered

Make = Callable[..., ParallelEnv]


def test_it_is_a_vector_env_with_batched_spaces(make_any_way: Make) -> None:
    envs = make_any_way([registered("CartPole-v1")] * 5)
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    assert envs.num_envs == 5
    assert isinstance(envs.single_action_space, Discrete)
    assert isinstance(envs.action_space, MultiDiscrete)
    assert isinstance(envs.observation_space, Box)
    assert envs.observation_space.shape == (5, 4)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.metadata["render_modes"] == ["human", "rgb_array"]
    assert envs.render_mode is None
    assert envs.unwrapped is envs
    assert repr(envs) == "ParallelEnv(num_envs=5)"


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("num_workers", [1, 2, 3, 9])
def test_results_equal_gymnasiums_own(make: Make, mode: AutoresetMode, num_workers: int) -> None:
    fns = [counting(length) for length in (1, 2, 3, 5, 7)]
    if mode is AutoresetMode.DISABLED:
        fns = [counting(100)] * 5
    ours = rollout(make(fns, autoreset_mode=mode, num_workers=num_workers), 12)
    theirs = rollout(SyncVectorEnv(fns, autoreset_mode=mode), 12)
    assert not difference([step[:-1] for step in ours], [step[:-1] for step in theirs])
    for (*_, our_info), (*_, their_info) in zip(ours, theirs, strict=True):
        assert data_equivalence(our_info, their_info)


def test_results_equal_gymnasiums_own_on_real_environments(make_any_way: Make) -> None:
    fns = [registered("CartPole-v1"), registered("CartPole-v1", max_episode_steps=7), registered("CartPole-v1")]
    assert not difference(rollout(make_any_way(fns), 60), rollout(SyncVectorEnv(fns), 60))


def test_a_seed_gives_environment_i_its_own(make: Make) -> None:
    envs = make([registered("CartPole-v1")] * 3)
    envs.reset(seed=10)
    assert envs.np_random_seed == (10, 11, 12)
    envs.reset()
    assert envs.np_random_seed == (10, 11, 12)
    envs.reset(seed=[5, None, 3])
    assert envs.np_random_seed == (5, 11, 3)
    envs.reset(seed=np.array([1, 2, 3]))  # type: ignore[arg-type]
    assert envs.np_random_seed == (1, 2, 3)
    envs.reset(seed=np.int64(4))  # type: ignore[arg-type]
    assert envs.np_random_seed == (4, 5, 6)


def test_np_random_is_that_of_every_environment(make: Make) -> None:
    envs = make([registered("CartPole-v1")] * 2)
    envs.reset(seed=3)
    alone = gymnasium.make("CartPole-v1")
    alone.reset(seed=4)
    assert envs.np_random[1].bit_generator.state == alone.np_random.bit_generator.state
    alone.close()


def test_options_reach_every_environment_and_stay_the_callers(make: Make) -> None:
    envs = make([counting()] * 3)
    options = {"start": 2, "nested": {"a": 1}, "reset_mask": np.array([True, True, True])}
    kept = dict(options)
    observation, _ = envs.reset(options=options)
    assert observation[:, 0].tolist() == [2, 2, 2]
    assert options.keys() == kept.keys()
    assert options["reset_mask"] is kept["reset_mask"]


class OptionChanger(CountingEnv):
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        assert options is not None
        options["seen"].append(1)
        super().reset(seed=seed)
        return np.array([len(options["seen"]), 0], np.float32), {}


def test_an_environment_that_changes_its_options_changes_nobody_elses(make: Make) -> None:
    options: dict[str, Any] = {"seen": []}
    observation, _ = make([OptionChanger] * 4).reset(options=options)
    assert observation[:, 0].tolist() == [1, 1, 1, 1]
    assert options == {"seen": []}


def test_reset_mask_resets_only_those(make: Make) -> None:
    envs = make([counting(100)] * 4, autoreset_mode="Disabled")
    envs.reset()
    for _ in range(3):
        envs.step([1, 1, 1, 1])
    observation, info = envs.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert observation[:, 0].tolist() == [3, 0, 3, 0]
    assert info["_resets"].tolist() == [False, True, False, True]
    observation, *_ = envs.step([1, 1, 1, 1])
    assert observation[:, 0].tolist() == [4, 1, 4, 1]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, True], TypeError, "must be a numpy array"),
        (np.array([True]), ValueError, "must have shape `(2,)`, got (1,)"),
        (np.array([1, 0]), TypeError, "must have `dtype=np.bool_`, got int64"),
        (np.array([False, False]), ValueError, "at least one True value"),
    ],
)
def test_a_wrong_reset_mask_is_refused(make: Make, mask: Any, error: type[Exception], message: str) -> None:
    envs = make([counting()] * 2)
    envs.reset()
    with pytest.raises(error, match=re.escape(message)):
        envs.reset(options={"reset_mask": mask})
    envs.step([0, 0])


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ([1, 2, 3], "the length must match num_envs=2 but got length=3"),
        ("12", "seed must be a whole number, a sequence of them, or None, got '12'"),
        (1.5, "seed must be a whole number"),
        ([1, 2.5], "seed[1] must be a whole number or None, got 2.5"),
        (True, "seed must be a whole number"),
    ],
)
def test_a_wrong_seed_is_refused(make: Make, seed: Any, message: str) -> None:
    envs = make([counting()] * 2)
    with pytest.raises(ValueError, match=re.escape(message)):
        envs.reset(seed=seed)
    envs.reset(seed=1)


def test_call_get_attr_and_set_attr(make_any_way: Make) -> None:
    envs = make_any_way([counting()] * 3)
    envs.reset()
    assert envs.call("describe") == ("plain:0",) * 3
    assert envs.call("describe", prefix="> ") == ("> plain:0",) * 3
    envs.set_attr("label", ["a", "b", "c"])
    assert envs.get_attr("label") == ("a", "b", "c")
    envs.set_attr("label", "all")
    assert envs.get_attr("label") == ("all", "all", "all")
    envs.call_async("describe")
    assert envs.call_wait() == ("all:0",) * 3


def test_set_attr_with_a_wrong_number_of_values_is_refused(make: Make) -> None:
    envs = make([counting()] * 3)
    with pytest.raises(ValueError, match="Got `2` values for 3 environments"):
        envs.set_attr("label", ["a", "b"])


def test_what_is_set_or_called_with_is_not_shared_between_environments(make: Make) -> None:
    envs = make([counting()] * 4)
    shared: list[int] = []
    envs.set_attr("label", {"list": shared})
    envs.call("__setattr__", "length", shared)
    assert envs.call("label") == ({"list": []},) * 4
    for env_list in envs.get_attr("length"):
        env_list.append(1)
    assert envs.get_attr("length") == ([], [], [], [])
    assert shared == []


@pytest.mark.parametrize("name", ["reset", "step", "close"])
def test_calling_what_has_its_own_method_is_refused(make: Make, name: str) -> None:
    envs = make([counting()] * 2)
    with pytest.raises(ValueError, match=f"`{name}` cannot be called with `call`"):
        envs.call(name)


def test_render_gives_one_frame_per_environment(make: Make) -> None:
    envs = make([registered("CartPole-v1", render_mode="rgb_array")] * 3)
    assert envs.render_mode == "rgb_array"
    envs.reset(seed=0)
    frames = envs.render()
    assert isinstance(frames, tuple)
    assert [frame.shape for frame in frames] == [(400, 600, 3)] * 3


def test_async_halves_give_what_the_whole_gives(make: Make) -> None:
    envs = make([counting()] * 3)
    envs.reset_async(seed=1)
    observation, _ = envs.reset_wait()
    assert observation.shape == (3, 2)
    envs.step_async([1, 2, 3])
    _, reward, *_ = envs.step_wait(timeout=30)
    assert reward.tolist() == [1, 2, 3]


def test_a_second_call_while_one_is_pending_is_refused(make: Make) -> None:
    envs = make([counting()] * 2)
    envs.reset_async()
    with pytest.raises(
        AlreadyPendingCallError, match="Calling `step_async` while waiting for a pending call to `reset`"
    ) as it:
        envs.step_async([0, 0])
    assert isinstance(it.value, AlreadyPending)
    assert it.value.name == "reset"
    with pytest.raises(AlreadyPending, match="Calling `set_attr` while"):
        envs.set_attr("label", "x")
    envs.reset_wait()
    envs.step_async([0, 0])
    with pytest.raises(AlreadyPending, match="Calling `reset_async` while waiting for a pending call to `step`"):
        envs.reset()
    with pytest.raises(AlreadyPending, match="Calling `step` while"):
        envs.step([0, 0])
    envs.step_wait()
    envs.step([0, 0])


@pytest.mark.parametrize("name", ["reset", "step", "call"])
def test_waiting_for_what_was_not_begun_is_refused(make: Make, name: str) -> None:
    envs = make([counting()] * 2)
    expected = f"Calling `{name}_wait` without any prior call to `{name}_async`."
    with pytest.raises(NoAsyncCallError, match=re.escape(expected)) as caught:
        getattr(envs, f"{name}_wait")()
    assert isinstance(caught.value, NothingPending)


def test_everything_is_refused_after_close(make: Make) -> None:
    envs = make([counting()] * 2)
    envs.reset()
    envs.close()
    uses: list[Callable[[], Any]] = [
        envs.reset,
        lambda: envs.step([0, 0]),
        lambda: envs.step_async([0, 0]),
        envs.step_wait,
        lambda: envs.call("describe"),
        lambda: envs.set_attr("label", 1),
        lambda: envs.envs,
    ]
    for use in uses:
        with pytest.raises(ClosedEnvironmentError, match=r"after a call to `close\(\)`") as caught:
            use()
        assert isinstance(caught.value, Closed)


def test_results_belong_to_the_caller(make: Make) -> None:
    envs = make([counting(100)] * 2)
    first, _ = envs.reset()
    second, reward, *_ = envs.step([1, 1])
    second[:] = -1
    reward[:] = -1
    third, reward, *_ = envs.step([2, 2])
    assert first[:, 0].tolist() == [0, 0]
    assert third[:, 0].tolist() == [2, 2]
    assert reward.tolist() == [2, 2]


def test_actions_may_be_a_list_and_stay_as_they_are(make: Make) -> None:
    envs = make([counting(100)] * 3)
    envs.reset()
    actions = np.array([1, 2, 3])
    envs.step(actions)
    assert actions.tolist() == [1, 2, 3]
    _, reward, *_ = envs.step([3, 2, 1])
    assert reward.tolist() == [3, 2, 1]


def test_a_wait_that_times_out_can_be_repeated_and_gives_its_own_results(process_backend: str) -> None:
    """Gymnasium returns the previous step's results for ever after a timeout."""
    with ParallelEnv([SlowEnv] * 2, backend=process_backend, start_method="fork") as envs:
        envs.reset()
        envs.step_async([4, 0])
        with pytest.raises(
            multiprocessing.TimeoutError, match=r"`step_wait` has waited 0.01 s .*call `step_wait` again"
        ):
            envs.step_wait(timeout=0.01)
        with pytest.raises(AlreadyPending):
            envs.step([1, 1])
        observation, reward, *_ = envs.step_wait(timeout=30)
        assert reward.tolist() == [4, 0]
        observation, reward, *_ = envs.step([0, 1])
        assert observation[:, 0].tolist() == [2, 2]
        assert reward.tolist() == [0, 1]


def test_observation_mode_different_batches_spaces_that_differ(make: Make) -> None:
    fns = [functools.partial(SpaceEnv, Box(0, high, (2,)), Discrete(2)) for high in (1, 2, 3)]
    ours, theirs = make(fns, observation_mode="different"), SyncVectorEnv(fns, observation_mode="different")
    assert ours.observation_space == theirs.observation_space
    assert ours.single_observation_space == Box(0, 1, (2,))
    assert not difference(rollout(ours, 3), rollout(theirs, 3))


def test_observation_mode_can_be_given_as_spaces(make: Make) -> None:
    spaces = (Box(0, 9, (2, 2)), Box(0, 9, (2,)))
    envs = make(
        [functools.partial(SpaceEnv, Box(0, high, (2,)), Discrete(2)) for high in (1, 2)], observation_mode=spaces
    )
    assert (envs.observation_space, envs.single_observation_space) == spaces
    envs.reset(seed=1)


def test_the_factory_may_have_reset_its_environment(make: Make) -> None:
    """Gymnasium lets such environments be stepped at once, and so do we."""
    envs = make([reset_cartpole] * 2)
    observation, *_ = envs.step([0, 1])
    alone = reset_cartpole()
    assert observation[1].tolist() == alone.step(1)[0].tolist()
    alone.close()


def reset_cartpole() -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    return env


def test_gymnasiums_own_keywords_are_understood() -> None:
    with ParallelEnv([counting()] * 2, shared_memory=False, context="spawn", daemon=True) as envs:
        assert (envs.plan.backend, envs.plan.start_method) == ("pipes", "spawn")
    with ParallelEnv([counting()] * 2, shared_memory=True) as envs:
        assert envs.plan.backend == "shm"


def test_a_limit_of_concurrency_limits_the_workers() -> None:
    with ParallelEnv([counting()] * 4, backend="threads", max_concurrency=3) as envs:
        assert envs.plan.num_workers == 3
    with ParallelEnv([counting()] * 4, backend="threads", max_concurrency=3, num_workers=2, worker=None) as envs:
        assert envs.plan.num_workers == 2
    with pytest.raises(ValueError, match="`max_concurrency` must be a positive or None, got 0"):
        ParallelEnv([counting()], max_concurrency=0)
    with pytest.raises(ValueError, match="`max_concurrency` must be an integer or None, got 2.5"):
        ParallelEnv([counting()], max_concurrency=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a custom worker function is not supported"):
        ParallelEnv([counting()], worker=print)  # type: ignore[arg-type]


def test_environments_in_this_process_can_be_touched() -> None:
    with ParallelEnv([counting()] * 3, backend="serial") as envs:
        assert [type(env) for env in envs.envs] == [CountingEnv] * 3
        envs.envs[1] = gymnasium.wrappers.TransformReward(envs.envs[1], lambda reward: -float(reward))
        envs.reset()
        assert envs.step([1, 1, 1])[1].tolist() == [1, -1, 1]
    with ParallelEnv([counting()] * 3, backend="threads", num_workers=2) as envs:
        assert len(envs.envs) == 3
    with ParallelEnv([counting()] * 3, backend="shm", start_method="fork") as envs:
        with pytest.raises(AttributeError, match="live in other processes; use call"):
            _ = envs.envs


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        functools.partial(wrappers.ClipReward, min_reward=-0.5, max_reward=0.5),
        wrappers.DictInfoToList,
        wrappers.FlattenObservation,
    ],
)
def test_gymnasiums_vector_wrappers_work_on_top(make: Make, wrap: Callable[[Any], Any]) -> None:
    fns = [counting(length) for length in (2, 3, 4)]
    ours, theirs = rollout(wrap(make(fns)), 10), rollout(wrap(SyncVectorEnv(fns)), 10)
    for our_step, their_step in zip(ours, theirs, strict=True):
        if isinstance(our_step[-1], dict):
            our_step[-1].get("episode", {}).pop("t", None)  # wall-clock time
            their_step[-1].get("episode", {}).pop("t", None)
        else:
            for info in (*our_step[-1], *their_step[-1]):
                info.get("episode", {}).pop("t", None)
        assert data_equivalence(our_step, their_step)


def count_of(env: Any, factor: int) -> int:
    return int(env.unwrapped.count) * factor


def test_some_are_asked_and_a_function_may_ask(make_any_way: Make) -> None:
    envs = make_any_way([counting(9)] * 4)
    envs.reset(seed=0)
    envs.step([0] * 4)
    envs.set_attr("count", [5, 6], env_ids=[3, 1])
    assert envs.call(count_of, 10) == (10, 60, 10, 50)
    assert envs.call_on([3, 0], "describe", "c") == ("cplain:5", "cplain:1")
    assert envs.call_on([1], lambda env: env.count + 1) == (7,)
    with pytest.raises(ValueError, match="Got `1` values for 2 environments"):
        envs.set_attr("count", [1], env_ids=[0, 1])


class CountedEnv(CountingEnv):
    """Counts how often environments are asked what is inside them."""

    asked = 0

    @property
    def unwrapped(self) -> Any:
        CountedEnv.asked += 1
        return self


def test_no_new_environment_is_compared_with_all_before_it() -> None:
    asked = []
    for num_envs in (10, 200):
        CountedEnv.asked = 0
        with ParallelEnv([CountedEnv] * num_envs, backend="serial") as envs:
            envs.reset(seed=1)
        asked.append(CountedEnv.asked / num_envs)
    assert asked[1] <= asked[0]


@pytest.mark.parametrize("flag", [float, np.float32, lambda value: np.array([value], np.float64)])
@pytest.mark.parametrize("num_envs", [2, 14])
def test_flags_may_be_zero_and_one_in_any_type(make: Make, flag: Any, num_envs: int) -> None:
    def alter(result: Any) -> Any:
        observation, reward, _, _, info = result
        return observation, reward, flag(observation[0] == 2), flag(observation[0] == 1), info

    envs = make([functools.partial(ReturningEnv, alter)] * num_envs, autoreset_mode="SameStep")
    envs.reset()
    for terminated, truncated in [(False, True), (False, True)]:
        _, _, *flags, _ = envs.step([0] * num_envs)
        assert [each.tolist() for each in flags] == [[terminated] * num_envs, [truncated] * num_envs]
        assert flags[0].dtype == flags[1].dtype == np.bool_


def test_a_factory_that_returns_the_same_environment_twice_is_refused(make: Make) -> None:
    one = CountingEnv()
    with pytest.raises(EnvContractError, match="returned the same object as that of environment 0"):
        make([lambda: one] * 2, num_workers=1)
    with pytest.raises(
        ValueError, match="the same object as that of environment 0, in another wrapper: a factory must"
    ):
        make([lambda: TimeLimit(one, 50)] * 2, num_workers=1)
