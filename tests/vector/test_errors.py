"""What a user is told when something goes wrong, on every backend."""

from __future__ import annotations

import asyncio
import functools
import pickle
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import (
    EnvContractError,
    EnvError,
    ParallelEnv,
    ResetNeeded,
)
from tests.envs import GrumpyEnv, ReturningEnv, SpaceEnv, TextEnv, counting

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
    with ParallelEnv(
        [functools.partial(GrumpyEnv, make_error, at=1), counting(100)], backend=process_backend, start_method="fork"
    ) as envs:
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
    with ParallelEnv(
        [functools.partial(GrumpyEnv, KeyboardInterrupt, at=1)], backend=process_backend, start_method="fork"
    ) as envs:
        envs.reset()
        with pytest.raises(EnvError, match="raised KeyboardInterrupt"):
            envs.step([0])


class GrumpyCoroutineEnv(GrumpyEnv):
    """Raises after a pause."""

    async def step(self, action: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().step(action)


OVERLAPS = {
    "in turn": (GrumpyEnv, {}),
    "on lanes": (GrumpyEnv, {"threads_per_worker": 2}),
    "coroutines": (GrumpyCoroutineEnv, {}),
    "coroutines on lanes": (GrumpyCoroutineEnv, {"threads_per_worker": 2}),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_what_ends_programs_is_an_error_of_the_environment_that_raises_it(
    make: Make, backend: str, kind: Any, overlap: str
) -> None:
    env, keywords = OVERLAPS[overlap]
    if keywords and backend in ("serial", "threads"):
        return  # which have no lanes
    envs = make([counting(100), counting(100), functools.partial(env, kind, at=3), counting(100)], **keywords)
    if kind is KeyboardInterrupt and backend == "serial":
        return  # that is Ctrl-C
    envs.reset(seed=40)
    envs.step([1, 1, 1, 1])
    envs.step([1, 1, 1, 1])
    for episode in range(2):
        with pytest.raises(EnvError) as caught:
            envs.step([1, 1, 3, 1])
        error = caught.value
        assert (error.env_index, error.phase, error.seed, error.episode) == (2, "step", 42, episode)
        assert (error.step, error.action, error.type_name) == (3, repr(np.int64(3)), kind.__name__)
        assert not isinstance(error, kind)
        observation, _ = envs.reset(seed=40)
        assert observation[:, 0].tolist() == [0, 0, 0, 0]
        envs.step([1, 1, 1, 1])
        envs.step([1, 1, 1, 1])
    with pytest.raises(EnvError, match=f"environment 2.* in a call raised {kind.__name__}"):
        envs.call_on([2], "complain")


@pytest.mark.parametrize("where", ["construct", "reset"])
def test_an_environment_that_calls_exit_fails_wherever_it_does(make: Make, where: str) -> None:
    makers = [counting(100), functools.partial(GrumpyEnv, functools.partial(SystemExit, 3), where)]
    with pytest.raises(EnvError, match="environment 1.* raised SystemExit: 3") as caught:
        make(makers).reset(seed=40)
    assert (caught.value.phase, caught.value.seed) == (where, 41 if where == "reset" else None)


def test_a_signal_handler_that_ends_the_program_is_no_failure_of_an_environment() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ParallelEnv([SignallingEnv], backend="serial") as envs:
            envs.reset()
            with pytest.raises(SystemExit) as caught:
                envs.step([0])
            assert caught.value.code == 143
    finally:
        signal.signal(signal.SIGTERM, before)


class SignallingEnv(GrumpyEnv):
    """Is stepped when somebody asks the program to end."""

    def step(self, action: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)


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
        (lambda r: (*r[:2], 0.5, *r[3:]), "terminated must be a bool, got 0.5"),
        (lambda r: (*r[:3], float("nan"), r[4]), "truncated must be a bool, got nan"),
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
