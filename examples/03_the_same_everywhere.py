"""The same seeds and actions give the same bits on every backend, with any number of workers."""

import hashlib

import shoal

for backend, num_workers in (("serial", 1), ("threads", 3), ("pipes", 2), ("shm", 4)):
    with shoal.make("CartPole-v1", num_envs=10, backend=backend, num_workers=num_workers) as envs:
        envs.action_space.seed(1)
        observation, _ = envs.reset(seed=1)
        digest = hashlib.sha256(observation.tobytes())
        for _ in range(100):
            observation, reward, terminated, *_ = envs.step(envs.action_space.sample())
            digest.update(observation.tobytes() + reward.tobytes() + terminated.tobytes())
        print(f"{backend:8} {num_workers} workers  {digest.hexdigest()[:16]}")
