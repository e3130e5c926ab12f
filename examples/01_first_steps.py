"""Sixteen CartPoles as one: make, reset, step, close."""

import shoal

envs = shoal.make("CartPole-v1", num_envs=16)
print(envs, "on", envs.plan.backend)

observation, info = envs.reset(seed=0)
episodes = 0
for _ in range(500):
    observation, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
    episodes += int((terminated | truncated).sum())
print(f"{episodes} episodes ended in {500 * envs.num_envs} steps")
envs.close()
