"""Arguments that cannot work, and things that cannot be sent, are explained before anything starts."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal import (
    Closed,
    ConfigurationError,
    EnvContractError,
    ParallelEnv,
    ProtocolError,
    SpacesDiffer,
    StateError,
    WorkerCrashLoop,
)
from shoal.vector.backends.channel import HEADER, MAGIC
from tests.comparing import difference, rollout
from tests.envs import CountingEnv, SlowEnv, SpaceEnv, counting

Make = Callable[..., ParallelEnv]


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
        (
            {"step_timeout": 10**400},
            "step_timeout is more than 1e+09 seconds, which is more than a system waits: use None",
        ),
        ({"timeouts": {"reset": 1e300}}, "timeouts['reset'] is more than 1e+09 seconds"),
        ({"max_worker_memory": 10**400}, "max_worker_memory must be a number of bytes or a text"),
        ({"step_timeout": "3"}, "step_timeout must be a positive number of seconds or None, got '3'"),
        (
            {"autoreset_mode": "SameStop"},
            "autoreset_mode must be one of 'NextStep', 'SameStep', 'Disabled', got 'SameStop'",
        ),
        ({"autoreset_mode": 3}, "autoreset_mode must be one of 'NextStep', 'SameStep', 'Disabled', got 3."),
        ({"copy": "no"}, "copy must be True or False, got 'no'"),
        ({"isolate_rng": "x"}, "isolate_rng must be True or False, got 'x'"),
        ({"copy": False, "debug_leases": 1}, "debug_leases must be True or False, got 1"),
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
    given: list[Any] = [CountingEnv(), CountingEnv()]
    with pytest.raises(
        ConfigurationError, match="item 0 of the list is an environment, .*: give a callable that makes one"
    ):
        shoal.make(given, num_envs=3)
    wrong: Any = b"CartPole-v1"
    with pytest.raises(
        ConfigurationError, match="env must be the id of a registered environment, .* got b'CartPole-v1'"
    ):
        shoal.make(wrong, num_envs=2)


def test_what_is_no_environment_is_not_closed_either(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    no_env: Any = os.getcwd
    with pytest.raises(EnvContractError, match="its factory returned .*, which has no 'observation_space'"):
        make([no_env] * 2)
    assert not caplog.records


@pytest.mark.parametrize("wrong", ["a", -1, float("nan"), True, 10**400, 1e300])
def test_a_wrong_timeout_is_refused_and_nothing_is_lost(make: Make, wrong: Any) -> None:
    message = re.escape(f"timeout must be a number of seconds, at least 0, or None, got {wrong!r}")
    if wrong in (10**400, 1e300):
        message = re.escape(
            "timeout is more than 1e+09 seconds, which is more than a system waits: use None for no limit"
        )
    envs = make([counting()] * 2)
    envs.reset_async(seed=0)
    with pytest.raises(ConfigurationError, match=message):
        envs.reset_wait(wrong)
    envs.reset_wait(None)
    envs.step_async([0, 0])
    with pytest.raises(ConfigurationError, match=message):
        envs.step_wait(wrong)
    assert envs.step_wait(None)[0][:, 0].tolist() == [1, 1]
    envs.send([0, 0])
    with pytest.raises(ConfigurationError, match=message):
        envs.recv(2, wrong)
    assert len(envs.recv(2, float("inf")).env_ids) == 2
    with pytest.raises(ConfigurationError, match=message):
        envs.close(timeout=wrong)
    envs.step([0, 0])


def test_a_wait_that_cannot_end_in_time_says_so() -> None:
    with ParallelEnv([SlowEnv] * 2, backend="serial") as envs:
        envs.reset(seed=0)
        envs.step_async([0, 0])
        envs.step_wait(timeout=60)
        envs.step_async([0, 0])
        with pytest.warns(RuntimeWarning, match='timeout=0 has no effect with backend="serial"') as warned:
            envs.step_wait(timeout=0)
        assert warned[0].filename == __file__


@pytest.mark.parametrize(("seed", "message"), [(-1, "seed must not be"), ([3, -2], "seed[1] must not be")], ids=str)
def test_a_negative_seed_is_refused_before_anything_is_sent(make: Make, seed: Any, message: str) -> None:
    envs = make([counting()] * 2)
    with pytest.raises(ConfigurationError, match=f"{re.escape(message)} negative, got -"):
        envs.reset(seed=seed)
    envs.reset(seed=np.array(5))  # type: ignore[arg-type]
    assert envs.np_random_seed == (5, 6)


@pytest.mark.parametrize(
    "copying", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda function: str(function.__name__)
)
def test_running_environments_are_neither_copied_nor_pickled(make: Make, copying: Callable[[Any], Any]) -> None:
    envs = make([counting()] * 2)
    with pytest.raises(StateError, match=r"running environments cannot be copied or pickled.*state_dict\(\)"):
        copying(envs)
    envs.reset(seed=0)


def test_closed_environments_are_not_entered() -> None:
    envs = ParallelEnv([counting()], backend="serial")
    envs.close()
    with pytest.raises(Closed), envs:
        pass


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
    with ParallelEnv([counting(100), SecretiveEnv], backend=process_backend, start_method="fork") as envs:
        envs.reset()
        with pytest.raises(
            EnvContractError, match=r"its info cannot be sent to the caller's process: \['deep'\]\['lock'\]:"
        ):
            envs.step([0, 0])
    with ParallelEnv([counting(100), SecretiveEnv], backend="serial") as envs:
        envs.reset()
        envs.step([0, 0])


class OneWayError(Exception):
    """Can be pickled, but pickle calls it with one argument."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)


class ComplainingEnv(CountingEnv):
    """Its info holds such an exception."""

    def step(self, action: Any) -> Any:
        *result, info = super().step(action)
        return *result, {**info, "error": OneWayError("lost", "there")}


def test_an_info_that_cannot_be_read_again_is_explained(process_backend: str) -> None:
    env_fns = [counting(100), ComplainingEnv]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=1, start_method="fork") as envs:
        envs.reset()
        with pytest.raises(EnvContractError, match=r"OneWayError.__init__\(\) missing 1 required") as caught:
            envs.step([0, 0])
        text = str(caught.value)
        assert "it, or another of environments 0 to 1, has told something that can be pickled and not be read" in text
        assert 'use backend="threads"' in text


def test_an_info_that_is_too_large_is_named(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.vector.backends.worker.MAX_PICKLED", 10_000)

    class WordyEnv(CountingEnv):
        def step(self, action: Any) -> Any:
            *result, info = super().step(action)
            return *result, {**info, "log": "x" * 20_000 if action else ""}

    with ParallelEnv([counting(100), WordyEnv], backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        said = r"its info cannot be sent to the caller's process: .* bytes large, and a message may have 10,000"
        with pytest.raises(EnvContractError, match=said):
            envs.step([1, 1])
        assert envs.get_attr("count") == (1, 1)


def test_what_cannot_be_sent_to_one_worker_reaches_none(process_backend: str) -> None:
    with ParallelEnv([counting(100)] * 2, backend=process_backend, num_workers=2, start_method="fork") as envs:
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
    """Writes nonsense into every socket of its process, in its third step, and tells something that needs a message."""

    nonsense = b"nonsense, and enough of it to be a header"

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(100)
        self.path = path

    def step(self, action: Any) -> Any:
        if self.count == 2 and not (self.path and self.path.exists()):
            if self.path:
                self.path.touch()
            for name in os.listdir("/proc/self/fd"):
                try:
                    with socket.socket(fileno=os.dup(int(name))) as sock:
                        sock.sendall(self.nonsense)
                except OSError:
                    continue
            *result, info = super().step(action)
            return *result, {**info, "babbled": True}
        return super().step(action)


class BoastingEnv(BabblingEnv):
    """What it writes is the beginning of a message that would take all memory."""

    nonsense = HEADER.pack(MAGIC, 0, 1, 100, 0, 0, 2**40)


def test_a_worker_that_does_not_keep_to_the_protocol_is_reported(process_backend: str) -> None:
    envs = ParallelEnv([counting(100), BabblingEnv], backend=process_backend, num_workers=2, on_fault="raise")
    envs.reset()
    said = r"worker 1 \(pid \d+\) has sent bytes that are not a message: b'nonsense, and en'\. It was ended while"
    with pytest.raises(ProtocolError, match=said) as caught:
        for _ in range(20):
            envs.step([0, 0])
    assert "writes into descriptors that are not its own" in str(caught.value)
    with pytest.raises(ProtocolError, match="The environments can only be closed now"):
        envs.step([0, 0])
    envs.close()


@pytest.mark.parametrize("env_fn", [BabblingEnv, BoastingEnv])
def test_one_that_babbles_is_replaced(process_backend: str, env_fn: Any, tmp_path: Path) -> None:
    env_fns: list[Any] = [counting(100), functools.partial(env_fn, tmp_path / "babbled")]
    with ParallelEnv(env_fns, backend=process_backend, num_workers=2, start_method="fork") as envs:
        found = rollout(envs, 30)
        assert envs.stats.restarts == 1
    assert (tmp_path / "babbled").exists()
    with ParallelEnv([counting(100)] * 2, backend="serial") as plain:
        assert not difference(found, rollout(plain, 30))


def test_one_that_always_babbles_is_given_up() -> None:
    env_fns: list[Any] = [counting(100), BabblingEnv]
    with ParallelEnv(env_fns, backend="pipes", num_workers=2, start_method="fork") as envs:
        envs.reset()
        with pytest.raises(WorkerCrashLoop, match="has sent bytes that are not a message"):
            for _ in range(20):
                envs.step([0, 0])


def test_a_step_timeout_without_processes_says_that_it_has_no_effect() -> None:
    with pytest.warns(UserWarning, match=r"step_timeout=1 has no effect with backend=\"serial\""):
        ParallelEnv([counting()], backend="serial", step_timeout=1).close()
