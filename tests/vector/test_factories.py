"""How factories reach workers, of every start method."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import shoal
from tests.comparing import difference, rollout
from tests.envs import CountingEnv
from tests.scripts import run_script


def test_a_class_in_a_function_of_the_script_may_use_globals_in_its_body() -> None:
    done = run_script(
        """
        import gymnasium, numpy as np
        import shoal

        LIMIT = 3

        def make():
            class Env(gymnasium.Env):
                class Sizes:
                    number: np.ndarray = np.full(LIMIT, 7)

                observation_space = gymnasium.spaces.Box(-1, 1, (LIMIT,), np.float32)
                action_space = gymnasium.spaces.Discrete(LIMIT)

                def reset(self, *, seed=None, options=None):
                    super().reset(seed=seed)
                    return self.observation_space.low, {}

                def step(self, action):
                    return self.observation_space.high, float(self.Sizes.number[0]), False, False, {}

            return Env()

        def name_of(env):
            class Named:
                name = f"{LIMIT} {type(env.unwrapped).__name__}"
            return Named.name

        for backend in ("serial", "pipes", "shm"):
            for method in ("fork", "forkserver", "spawn"):
                if backend != "serial" or method == "fork":
                    with shoal.make(make, 2, backend=backend, num_workers=1, start_method=method) as envs:
                        envs.reset(seed=1)
                        observation, reward, *_ = envs.step([0, 0])
                        print(observation.tolist(), reward.tolist(), envs.call(name_of))
        """
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]] [7.0, 7.0] ('3 Env', '3 Env')"] * 7


def locked() -> Callable[[], CountingEnv]:
    """A factory that cannot be sent anywhere."""
    lock = threading.Lock()

    def make() -> CountingEnv:
        with lock:
            return CountingEnv(length=9)

    return make


@pytest.mark.parametrize("isolate_rng", [False, True])
def test_a_forked_worker_needs_no_factory_to_be_sent(process_backend: str, isolate_rng: bool) -> None:
    env_fns: list[Any] = [locked() for _ in range(4)]
    keywords: dict[str, Any] = {"isolate_rng": isolate_rng}
    with shoal.make(env_fns, backend="serial", **keywords) as envs:
        expected = rollout(envs, 30)
    with shoal.make(env_fns, backend=process_backend, num_workers=2, start_method="fork", **keywords) as envs:
        found = rollout(envs, 10)
        for worker in (0, 1):  # replacements, the second of which may be a spare that was ready
            os.kill(envs.worker_pids[worker], signal.SIGKILL)
            found += [envs.step(envs.action_space.sample()) for _ in range(10)]
        assert envs.stats.restarts == 2
    assert difference(found, expected) == ""


def test_elsewhere_the_error_says_that_forked_workers_do_without(process_backend: str) -> None:
    with pytest.raises(shoal.ConfigurationError) as caught:
        shoal.make([locked()], backend=process_backend, start_method="forkserver")
    text = str(caught.value)
    assert "the factory of environment 0" in text
    assert "cannot be sent to a worker process: TypeError: cannot pickle" in text
    assert 'or use start_method="fork", which sends no factories, or backend="serial" or "threads"' in text
