"""What a user is told when something goes wrong, on every backend."""

from __future__ import annotations

import functools
import os
import pickle
import re
import socket
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import (
    ConfigurationError,
    EnvContractError,
    EnvError,
    InvalidAction,
    ParallelEnv,
    ProtocolError,
    ResetNeeded,
    SpacesDiffer,
    WorkerDied,
    WorkerTimeout,
)
from tests.envs import CountingEnv, DyingEnv, GrumpyEnv, HangingEnv, ReturningEnv, SpaceEnv, TextEnv, counting

Make = Callable[..., ParallelEnv]


class TwoArguments(Exception):
    """Cannot be unpickled: pickle calls it with one argument."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Unpicklable(Exception):
    """Holds something that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("cannot travel")
        self.lock = threading.Lock()


class Silent(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def boom() -> ValueError:
    return ValueError("boom")


def test_an_exception_arrives_with_all_that_is_known(make_any_way: Make) -> None:
    envs = make_any_way([counting(100), functools.partial(GrumpyEnv, boom, at=3), counting(100)])
    envs.reset(seed=40)
    envs.step([1, 1, 1])
    envs.step([1, 1, 1])
    with pytest.raises(EnvError) as caught:
        envs.step([1, 3, 1])
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.env_index, error.phase, error.seed, error.episode, error.step) == (1, "step", 41, 0, 3)
    assert error.action == repr(np.int64(3))
    assert error.type_name == "ValueError"
    assert "in step" in error.remote_traceback
    assert "raise self._error()" in error.remote_traceback
    assert error.remote_traceback.rstrip().endswith("ValueError: boom")
    assert isinstance(error.original, ValueError)
    assert error.others == ()
    text = str(error)
    assert re.match(r"environment 1( \(worker \d\))? in step\(\) raised ValueError: boom\n", text)
    assert "Where: seed 41, episode 0, step 3, action np.int64(3)." in text
    assert "The other environments are fine. Reset this one" in text
    assert "raise self._error()" in str(error.__cause__)


@pytest.mark.parametrize(
    ("make_error", "name"),
    [
        (functools.partial(TwoArguments, 3, "odd"), "tests.vector.test_errors.TwoArguments: 3: odd"),
        (Unpicklable, "tests.vector.test_errors.Unpicklable: cannot travel"),
        (Silent, "tests.vector.test_errors.Silent: <its message cannot be shown: RuntimeError>"),
        (functools.partial(KeyError, "key", 3), "KeyError: ('key', 3)"),
        (functools.partial(OSError, 2, "no such file"), "FileNotFoundError: [Errno 2] no such file"),
        (functools.partial(UnicodeDecodeError, "utf8", b"x", 0, 1, "bad"), "UnicodeDecodeError"),
        (functools.partial(SystemExit, 3), "SystemExit: 3"),
        (functools.partial(ValueError, "x" * 50_000_000), "ValueError: xxx"),
        (GeneratorExit, "GeneratorExit"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_any_exception_arrives(process_backend: str, make_error: Callable[[], BaseException], name: str) -> None:
    with ParallelEnv([functools.partial(GrumpyEnv, make_error, at=1), counting(100)], backend=process_backend) as envs:
        envs.reset()
        with pytest.raises(EnvError) as caught:
            envs.step([0, 0])
        assert f"raised {name}" in str(caught.value)
        assert len(str(caught.value)) < 100_000
        kind = type(make_error())
        if kind in (KeyError, FileNotFoundError, UnicodeDecodeError):
            assert isinstance(caught.value, kind)
            assert caught.value.args == make_error().args
        observation, _ = envs.reset()
        assert observation[:, 1].tolist() == [2, 2]


def test_a_keyboard_interrupt_of_the_environments_own_does_not_stop_a_worker(process_backend: str) -> None:
    with ParallelEnv([functools.partial(GrumpyEnv, KeyboardInterrupt, at=1)], backend=process_backend) as envs:
        envs.reset()
        with pytest.raises(EnvError, match="raised KeyboardInterrupt"):
            envs.step([0])


def test_several_failures_are_counted_and_attached(make: Make) -> None:
    envs = make([functools.partial(GrumpyEnv, boom, at=1), counting(9), functools.partial(GrumpyEnv, boom, at=1)])
    envs.reset()
    with pytest.raises(ValueError, match=r"One more environment failed in the same call: 2 \(see") as caught:
        envs.step([0, 0, 0])
    assert isinstance(caught.value, EnvError)
    assert [other.env_index for other in caught.value.others] == [2]


@pytest.mark.parametrize("where", ["construct", "reset"])
def test_failures_before_the_first_step_are_named_too(make_any_way: Make, where: str) -> None:
    fns = [counting(), functools.partial(GrumpyEnv, boom, where)]
    expected = {"construct": "environment 1 while it was being made", "reset": "environment 1.* in reset()"}[where]
    with pytest.raises(ValueError, match=f"{expected}.* raised ValueError: boom") as caught:
        make_any_way(fns).reset(seed=3)
    assert isinstance(caught.value, EnvError)
    assert caught.value.env_index == 1


def test_failures_in_calls_and_attributes_are_named(make: Make) -> None:
    envs = make([functools.partial(GrumpyEnv, boom)] * 2)
    envs.reset()
    with pytest.raises(ValueError, match=r"environment 0.* in a call raised ValueError: boom"):
        envs.call("complain")
    with pytest.raises(AttributeError, match="environment 0.* in a call raised AttributeError"):
        envs.get_attr("nonexistent")
    with pytest.raises(AttributeError, match="environment 0.* while an attribute was being set raised AttributeError"):
        envs.set_attr("np_random_seed", 3)
    envs.step([0, 0])


def test_an_env_error_can_be_pickled_and_compared(make: Make) -> None:
    envs = make([functools.partial(GrumpyEnv, boom, at=1)])
    envs.reset()
    with pytest.raises(EnvError) as caught:
        envs.step([0])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, EnvError)
    assert isinstance(copy, ValueError)
    assert str(copy) == str(caught.value)
    assert copy.env_index == 0


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda r: (np.zeros(3, np.float32), *r[1:]), "observation has shape (3,), but its space has shape (2,)"),
        (lambda r: (np.float32(1), *r[1:]), "observation has shape (), but its space has shape (2,)"),
        (lambda r: (None, *r[1:]), "observation has shape (), but its space has shape (2,)"),
        (lambda r: ([1, [2]], *r[1:]), "observation cannot become an array"),
        (lambda r: (np.array(["a", "b"]), *r[1:]), "observation has dtype <U1, which does not fit its space's float32"),
        (lambda r: r[:4], "step() returned 4 values, as in the old gym"),
        (lambda r: None, "step() must return observation, reward, terminated, truncated and info, got None"),
        (lambda r: (*r, 1), "step() must return observation, reward, terminated, truncated and info"),
        (lambda r: (r[0], None, *r[2:]), "the reward must be a number, got None"),
        (lambda r: (r[0], "3", *r[2:]), "the reward must be a number, got '3'"),
        (lambda r: (r[0], np.zeros(2), *r[2:]), "the reward must be a number, got array"),
        (lambda r: (*r[:2], None, *r[3:]), "terminated must be a bool, got None"),
        (lambda r: (*r[:3], "no", r[4]), "truncated must be a bool, got 'no'"),
        (lambda r: (*r[:4], None), "the info must be a dictionary, got None"),
    ],
)
@pytest.mark.parametrize("num_envs", [2, 12])
def test_what_breaks_the_contract_is_named(
    make: Make, alter: Callable[[Any], Any], message: str, num_envs: int
) -> None:
    fns: list[Any] = [counting(100)] * num_envs
    fns[1] = functools.partial(ReturningEnv, alter)
    envs = make(fns)
    envs.reset()
    with pytest.raises(EnvContractError, match=re.escape(message)) as caught:
        envs.step([0] * num_envs)
    assert caught.value.env_index == 1
    assert "broke Gymnasium's contract" in str(caught.value)
    observation, _ = envs.reset(options={"reset_mask": np.arange(num_envs) == 1})
    assert observation[0, 0] == 1


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda r: r[0], "reset() must return an observation and an info"),
        (lambda r: (r[0], None), "the info must be a dictionary, got None"),
        (lambda r: (np.zeros((2, 2), np.float32), {}), "observation has shape (2, 2), but its space has shape (2,)"),
    ],
)
def test_what_reset_returns_is_checked_too(make: Make, alter: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(EnvContractError, match=re.escape(message)):
        make([functools.partial(ReturningEnv, alter, "reset")] * 2).reset()


@pytest.mark.parametrize(
    "result",
    [
        lambda r: (r[0].astype(np.float64), *r[1:]),
        lambda r: (r[0].tolist(), *r[1:]),
        lambda r: (r[0].astype(np.int64), np.float32(r[1]), np.bool_(r[2]), 0, r[4]),
        lambda r: (r[0], np.array([r[1]]), np.array([r[2]]), *r[3:]),
    ],
)
@pytest.mark.parametrize("num_envs", [2, 12])
def test_what_can_be_converted_without_loss_is(make: Make, result: Callable[[Any], Any], num_envs: int) -> None:
    envs = make([functools.partial(ReturningEnv, result)] * num_envs)
    envs.reset()
    observation, reward, terminated, truncated, _ = envs.step([2] * num_envs)
    assert observation.dtype == np.float32
    assert observation.tolist() == [[1, 1]] * num_envs
    assert reward.tolist() == [2.0] * num_envs
    assert not terminated.any()


class TooLarge(SpaceEnv):
    """Returns a number that its space's type cannot hold."""

    def __init__(self, value: Any, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        super().__init__(spaces.Box(0, 100, shape, dtype), spaces.Discrete(2))
        self._value = value

    def step(self, action: Any) -> Any:
        return self._value, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (300, np.uint8, "observation is 300, which does not fit its space's uint8"),
        (np.int64(300), np.uint8, "observation has dtype int64, which does not fit its space's uint8"),
        (1.5, np.int32, "observation has dtype float64, which does not fit its space's int32"),
    ],
)
@pytest.mark.parametrize("num_envs", [1, 12])
def test_numbers_that_would_be_damaged_are_refused(
    make: Make, value: Any, dtype: Any, message: str, num_envs: int
) -> None:
    envs = make([functools.partial(TooLarge, value, dtype)] * num_envs)
    envs.reset(seed=0)
    with pytest.raises(EnvContractError, match=re.escape(message)):
        envs.step([0] * num_envs)


DICT_SPACE = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])})


class WrongTree(SpaceEnv):
    """Observations whose arrangement is wrong."""

    def __init__(self, value: Any) -> None:
        super().__init__(DICT_SPACE, spaces.Discrete(2))
        self._value = value

    def step(self, action: Any) -> Any:
        return self._value, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": np.zeros(2, np.float32)}, "the observation has no 'b', which its space has"),
        (5, "the observation has no 'a', which its space has: 5"),
        ({"a": np.zeros(2, np.float32), "b": 3}, "the observation is not a tuple of 2 parts: 3"),
        ({"a": np.zeros(2, np.float32), "b": (1,)}, "the observation is not a tuple of 2 parts: (1,)"),
        ({"a": np.zeros(3, np.float32), "b": (1, 1)}, "observation['a'] has shape (3,)"),
        ({"a": np.zeros(2, np.float32), "b": (1, "x")}, "observation['b'][1] has dtype <U1"),
    ],
)
@pytest.mark.parametrize("num_envs", [1, 12])
def test_wrongly_arranged_observations_are_named(make: Make, value: Any, message: str, num_envs: int) -> None:
    envs = make([functools.partial(WrongTree, value)] * num_envs)
    envs.reset(seed=0)
    with pytest.raises(EnvContractError, match=re.escape(message)):
        envs.step([0] * num_envs)


def test_a_factory_that_makes_no_environment_is_named(make: Make) -> None:
    with pytest.raises(
        EnvContractError, match=r"environment 1 .*its factory returned None, which has no 'observation_space'"
    ):
        make([counting(), nothing])


def nothing() -> None:
    return None


# -- actions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 0], "action has shape (2,), but this batch needs (3,): one action for each of the 3 environments"),
        ([0, 0, 0, 0], "action has shape (4,), but this batch needs (3,)"),
        (np.zeros((3, 1), int), "action has shape (3, 1), but this batch needs (3,)"),
        (np.array([0.5, 0, 0]), "action has dtype float64, which cannot become the action space's int64"),
        (np.array([np.nan, 0, 0]), "action has dtype float64"),
        ([0, 5, 0], "action has values that are not in Discrete(5)"),
        ([0, -1, 0], "action has values that are not in Discrete(5)"),
        (None, "action cannot become an array of shape (3,): got None"),
        ("abc", "action cannot become an array of shape (3,): got 'abc'"),
        ({"a": 1}, "action cannot become an array of shape (3,): got {'a': 1}"),
        ([0, None, 0], "action has dtype object"),
        ([[0], [0, 1], 2], "action cannot become an array"),
        (3, "action has shape (), but this batch needs (3,)"),
    ],
)
def test_a_wrong_batch_is_refused_and_the_next_step_is_fine(make: Make, actions: Any, message: str) -> None:
    envs = make([counting(100)] * 3)
    envs.reset()
    with pytest.raises(InvalidAction, match=re.escape(message)) as caught:
        envs.step(actions)
    assert isinstance(caught.value, ValueError)
    assert "Nothing was sent to the environments." in str(caught.value)
    observation, *_ = envs.step([1, 1, 1])
    assert observation[:, 0].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (spaces.Box(-1, 1, (2,)), np.full((20, 2), np.nan), "action has values that are not in Box"),
        (spaces.Discrete(3, start=2), [1] * 20, "action has values that are not in Discrete(3, start=2)"),
        (spaces.Discrete(3), [3] * 20, "action has values that are not in Discrete(3)"),
        (spaces.Discrete(3), [-1] * 20, "action has values that are not in Discrete(3)"),
        (spaces.MultiDiscrete([2, 3]), [[1, 3]] * 20, "action has values that are not in MultiDiscrete([2 3])"),
        (spaces.MultiBinary(2), [[1, 2]] * 20, "action has values that are not in MultiBinary(2)"),
        (spaces.Text(5), ["a"] * 3, "action has 3 actions for 20 environments"),
        (spaces.Text(5), "aaaa", "action must be a sequence with one action for each of the 20 environments"),
        (spaces.Text(5), 3, "action must be a sequence with one action for each of the 20 environments, got 3"),
        (spaces.Dict({"a": spaces.Discrete(2)}), [0] * 20, "must be a dictionary with the keys ['a']"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": [0] * 20}, "the batch of actions has no 'a'"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": [0] * 19}, "action['a'] has shape (19,)"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), ([0] * 20,), "must be a tuple of 2 batches"),
        (spaces.Tuple([spaces.Discrete(2)] * 2), ([0] * 20, [2] * 20), "action[1] has values that are not in"),
    ],
)
def test_every_kind_of_action_is_checked(space: Any, actions: Any, message: str) -> None:
    fns = [functools.partial(SpaceEnv, spaces.Discrete(2), space)] * 20
    with ParallelEnv(fns, backend="serial") as envs:
        envs.reset(seed=0)
        with pytest.raises(InvalidAction, match=re.escape(message)):
            envs.step(actions)
        envs.step(envs.action_space.sample())


@pytest.mark.parametrize("actions", [0, None, "ab", {"a": 1}])
def test_a_batch_of_the_wrong_kind_is_a_type_error_too(make: Make, actions: Any) -> None:
    envs = make([counting(100)] * 2)
    envs.reset()
    with pytest.raises(TypeError):
        envs.step(actions)


@pytest.mark.parametrize("num_envs", [2, 70])
def test_the_action_of_an_environment_that_will_be_reset_need_not_make_sense(make: Make, num_envs: int) -> None:
    envs = make([counting(1), *[counting(100)] * (num_envs - 1)])
    envs.reset()
    envs.step([0] * num_envs)
    observation, *_ = envs.step([-1, *[0] * (num_envs - 1)])
    assert observation[:2, 0].tolist() == [0, 2]
    with pytest.raises(InvalidAction):
        envs.step([-1, *[0] * (num_envs - 1)])
    envs.step([0] * num_envs)
    with pytest.raises(InvalidAction):
        envs.step([0, -1, *[0] * (num_envs - 2)])
    envs.reset()
    with pytest.raises(InvalidAction):
        envs.step([-1] * num_envs)


def test_actions_in_double_precision_are_not_rounded(make: Make) -> None:
    space = spaces.Dict(
        {"a": spaces.Box(-1, 1, (2,)), "b": spaces.Box(-1, 1, ()), "c": spaces.Box(-1, 1, (1,), np.float16)}
    )
    envs = make([functools.partial(SpaceEnv, spaces.Discrete(2), space)] * 3)
    envs.reset(seed=0)
    actions = {"a": np.full((3, 2), 0.1), "b": np.full(3, 0.1, np.float32), "c": np.full((3, 1), 0.1, np.float32)}
    for _ in range(2):
        *_, info = envs.step(actions)
        for (given,) in info["given"]:
            assert given["a"].dtype == np.float64
            assert given["a"].tolist() == [0.1, 0.1]
            assert given["b"] == np.float32(0.1)
            assert given["c"].tolist() == [np.float32(0.1)]


def test_continuous_actions_beyond_their_bounds_are_the_environments_to_clip(make: Make) -> None:
    envs = make([functools.partial(SpaceEnv, spaces.Discrete(2), spaces.Box(-1, 1, (1,)))] * 2)
    envs.reset(seed=0)
    *_, info = envs.step(np.array([[5.0], [-np.inf]]))
    assert [given[0].tolist() for given in info["given"]] == [[5.0], [-np.inf]]


# -- states --------------------------------------------------------------------------------------------------------


def test_stepping_before_the_first_reset_is_refused(make: Make) -> None:
    envs = make([counting()] * 2)
    with pytest.raises(
        gymnasium.error.ResetNeeded, match=r"environments \[0, 1\] must be reset before the first step"
    ) as it:
        envs.step([0, 0])
    assert isinstance(it.value, ResetNeeded)
    envs.reset()
    envs.step([0, 0])


def test_the_first_reset_cannot_leave_environments_out(make: Make) -> None:
    envs = make([counting()] * 3)
    with pytest.raises(
        ResetNeeded, match=r"environments \[1, 2\] have never been reset, and this reset_mask leaves them out"
    ):
        envs.reset(options={"reset_mask": np.array([True, False, False])})


# -- configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (
            {"backend": "smh"},
            "backend must be one of 'auto', 'serial', 'threads', 'pipes', 'shm', got 'smh'. Did you mean 'shm'?",
        ),
        (
            {"start_method": "spoon"},
            "start_method must be one of 'spawn', 'forkserver', 'fork', got 'spoon'. Did you mean 'spawn'?",
        ),
        ({"num_workers": 0}, "num_workers must be a whole number of at least 1, got 0"),
        ({"num_workers": 1.5}, "num_workers must be a whole number of at least 1, got 1.5"),
        ({"step_timeout": -1}, "step_timeout must be a positive number of seconds or None, got -1"),
        ({"step_timeout": "3"}, "step_timeout must be a positive number of seconds or None, got '3'"),
        ({"observation_mode": "all"}, "Invalid `observation_mode`, expected: 'same' or 'different'"),
    ],
)
def test_a_wrong_keyword_is_explained(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        ParallelEnv([counting()], **keywords)
    assert isinstance(caught.value, ValueError)


def test_an_observation_mode_of_things_that_are_no_spaces_is_refused() -> None:
    with pytest.raises(TypeError, match="Expected both elements of observation_mode to be Spaces"):
        ParallelEnv([counting()], observation_mode=(1, 2))  # type: ignore[arg-type]


def test_no_factories_and_wrong_factories_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="env_fns is empty"):
        ParallelEnv([])
    with pytest.raises(ConfigurationError, match=r"env_fns\[1\] is not a callable that makes an environment: got 3"):
        ParallelEnv([counting(), 3])  # type: ignore[list-item]


def test_spaces_that_cannot_be_batched_are_named(make: Make) -> None:
    boxes = [functools.partial(SpaceEnv, spaces.Box(0, high, (2,)), spaces.Discrete(2)) for high in (1, 2)]
    with pytest.raises(
        SpacesDiffer, match="the sub-environments observation spaces are not equivalent. .*environment 1"
    ) as it:
        make(boxes)
    assert isinstance(it.value, RuntimeError)
    shapes = [functools.partial(SpaceEnv, spaces.Box(0, 1, (size,)), spaces.Discrete(2)) for size in (1, 2)]
    with pytest.raises(SpacesDiffer, match="observation space of environment 1 has another shape or dtype"):
        make(shapes, observation_mode="different")
    with pytest.raises(SpacesDiffer, match="the same action space, but environment 0 has .* and environment 2 has"):
        make([functools.partial(SpaceEnv, spaces.Discrete(2), spaces.Discrete(n)) for n in (2, 2, 3)])


class LockHolder:
    """A factory that cannot be sent anywhere."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self) -> CountingEnv:
        return CountingEnv()


def test_a_factory_that_cannot_be_sent_is_named_before_anything_starts(process_backend: str) -> None:
    fns: list[Any] = [counting(), LockHolder()]
    with pytest.raises(
        ConfigurationError, match=r"the factory of environment 1 \(.*LockHolder.*\) cannot be sent .*lock"
    ):
        ParallelEnv(fns, backend=process_backend, num_workers=1)
    with ParallelEnv(fns, backend="threads") as envs:
        envs.reset()


class SecretiveEnv(CountingEnv):
    """Its info cannot be pickled."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "deep": {"lock": threading.Lock()}}


def test_an_info_that_cannot_be_sent_is_named_with_its_key(process_backend: str) -> None:
    with ParallelEnv([counting(100), SecretiveEnv], backend=process_backend) as envs:
        envs.reset()
        with pytest.raises(
            EnvContractError, match=r"its info cannot be sent to the caller's process: \['deep'\]\['lock'\]:"
        ):
            envs.step([0, 0])
    with ParallelEnv([counting(100), SecretiveEnv], backend="serial") as envs:
        envs.reset()
        envs.step([0, 0])


def test_what_cannot_be_sent_to_one_worker_reaches_none(process_backend: str) -> None:
    with ParallelEnv([counting(100)] * 2, backend=process_backend, num_workers=2) as envs:
        envs.reset()
        with pytest.raises(
            ConfigurationError, match=r"what was given to set_attr\(\) cannot be sent to a worker process: .*lock"
        ):
            envs.set_attr("label", ["changed", threading.Lock()])
        assert envs.get_attr("label") == ("plain", "plain")
        with pytest.raises(ConfigurationError, match=r"what was given to reset\(\) cannot be sent"):
            envs.reset(options={"lock": threading.Lock()})
        observation, *_ = envs.step([0, 0])
        assert observation[:, 0].tolist() == [1, 1]


class BabblingEnv(CountingEnv):
    """Writes nonsense into every socket of its process."""

    def step(self, action: Any) -> Any:
        for name in os.listdir("/proc/self/fd"):
            try:
                with socket.socket(fileno=os.dup(int(name))) as sock:
                    sock.sendall(b"nonsense, and enough of it to be a header")
            except OSError:
                continue
        return super().step(action)


def test_a_worker_that_does_not_keep_to_the_protocol_is_reported(process_backend: str) -> None:
    envs = ParallelEnv([counting(100), BabblingEnv], backend=process_backend, num_workers=2)
    envs.reset()
    with pytest.raises(ProtocolError, match="a worker sent bytes that are not a message: b'nonsense, and en"):
        envs.step([0, 0])
    with pytest.raises(ProtocolError, match="The environments can only be closed now"):
        envs.step([0, 0])
    envs.close()


def test_a_step_timeout_without_processes_says_that_it_has_no_effect() -> None:
    with pytest.warns(UserWarning, match=r"step_timeout=1 has no effect with backend=\"serial\""):
        ParallelEnv([counting()], backend="serial", step_timeout=1).close()


# -- workers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "was killed by SIGKILL while stepping environment 2"),
        ("exit", "ended by itself with exit code 7 while stepping"),
    ],
)
@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_a_dead_worker_is_named_with_its_environment_and_signal(
    process_backend: str, method: str, how: str, said: str
) -> None:
    fns: list[Any] = [counting(100), counting(100), functools.partial(DyingEnv, how), counting(100)]
    envs = ParallelEnv(fns, backend=process_backend, num_workers=2, start_method=method)
    envs.reset()
    with pytest.raises(WorkerDied, match=said) as caught:
        envs.step([0, 0, 4, 0])
    assert re.search(r"worker 1 \(pid \d+\)", str(caught.value))
    assert "It ran environments 2 to 3 of 4." in str(caught.value)
    assert "Likely cause:" in str(caught.value)
    with pytest.raises(WorkerDied, match="The environments can only be closed now"):
        envs.reset()
    envs.close()


def test_a_worker_that_dies_while_making_environments_is_reported(process_backend: str) -> None:
    with pytest.raises(WorkerDied, match="was killed by SIGKILL while making environment 1"):
        ParallelEnv([counting(), functools.partial(DyingEnv, "kill", "construct")], backend=process_backend)


def test_a_worker_killed_while_idle_is_reported_at_the_next_step(process_backend: str) -> None:
    envs = ParallelEnv([counting(100)] * 2, backend=process_backend)
    envs.reset()
    os.kill(envs._pool.backend.pid(0), 9)  # type: ignore[attr-defined]
    with pytest.raises(WorkerDied, match="worker 0 .* was killed by SIGKILL"):
        envs.step([0, 0])
    envs.close()


def test_a_step_beyond_its_deadline_ends_the_worker_and_names_the_environment(process_backend: str) -> None:
    envs = ParallelEnv([HangingEnv] * 4, backend=process_backend, num_workers=2, step_timeout=1.5)
    envs.reset()
    envs.step([1, 0, 0, 0])
    with pytest.raises(
        WorkerTimeout, match=r"environment 3 took longer than 1.5 s \(stepping it\); its worker was ended"
    ) as it:
        envs.step([0, 0, 0, 4])
    assert isinstance(it.value, TimeoutError)
    envs.close()


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    from shoal.vector import errors

    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    defined = [
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, shoal.ShoalError)
    ]
    assert sorted(["ShoalError", *drawn]) == sorted(defined)
    for name in defined:
        assert getattr(shoal, name) is getattr(errors, name)


def test_errors_of_state_survive_pickling() -> None:
    for error in (shoal.AlreadyPending("a", "step"), shoal.NothingPending("b", "reset")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.name) == (type(error), str(error), error.name)


def test_text_environments_fail_as_clearly(make: Make) -> None:
    envs = make([TextEnv] * 2)
    envs.reset()
    with pytest.raises(TypeError, match="environment 0"):
        envs.step([1, 2])
