"""An environment of your own, with a text and an array in one observation, in worker processes."""

import gymnasium
import numpy as np

import shoal


class Corridor(gymnasium.Env):
    """Walk right to the end."""

    def __init__(self, length: int = 5):
        self.observation_space = gymnasium.spaces.Dict(
            {"place": gymnasium.spaces.Box(0, length, (1,), np.float32), "sign": gymnasium.spaces.Text(20)}
        )
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length
        self.place = 0

    def observe(self):
        return {"place": np.array([self.place], np.float32), "sign": f"{self.length - self.place} to go"}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.observe(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        arrived = self.place == self.length
        return self.observe(), float(arrived), arrived, False, {}


# No `if __name__ == "__main__"` is needed.
with shoal.make(Corridor, num_envs=4, length=3, backend="shm", num_workers=2) as envs:
    envs.reset(seed=0)
    for _ in range(3):
        observation, reward, terminated, truncated, info = envs.step([1, 1, 0, 1])
        print(observation["sign"], reward)
