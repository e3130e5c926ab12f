"""Ask the profiler, follow its advice, and ask again."""

import time

import gymnasium
import numpy as np

import shoal


class RemoteGame(gymnasium.Env):
    """Every step waits for a server."""

    observation_space = gymnasium.spaces.Box(0, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(0.005)
        return self.np_random.random(4, np.float32), 1.0, False, False, {}


def profile(**choices):
    with shoal.make(RemoteGame, num_envs=16, backend="shm", **choices) as envs:
        envs.reset(seed=0)
        with envs.profile() as found:
            for _ in range(20):
                envs.step(envs.action_space.sample())
    return found


before = profile()
print(before)
after = profile(threads_per_worker=8)
print(f"\nWith threads: {after.steps_per_second / before.steps_per_second:.1f} times as many steps per second.")
