"""Learners for tests: small, quick, and with environments of :mod:`tests.meta.task_envs`."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.meta import Learner
from shoal.vector.layout import Array
from tests.meta import task_envs

POLICY = {
    "rnn_hidden_size": 16,
    "observ_embedding_size": 8,
    "action_embedding_size": 4,
    "reward_embedding_size": 4,
    "policy_layers": [16],
    "dqn_layers": [16],
}
TRAIN = {
    "num_iters": 3,
    "num_init_rollouts_pool": 4,
    "num_rollouts_per_iter": 5,
    "num_updates_per_iter": 3,
    "batch_size": 8,
    "buffer_size": 1000,
}
assert task_envs.NAMES  # which Gymnasium knows from now on
ARCHS = ("markov", "memory", "memory-markov")


def learner_of(
    arch: str = "memory", workers: int = 1, *, seed: int = 1, env: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None, policy: dict[str, Any] | None = None, name: str = "numbers",
) -> Learner:  # fmt: skip
    """One of them."""
    kwargs = {"is_discrete": name == "choices", **(env or {}).get("env_kwargs", {})}
    envs = {"env_name": "Drift-v0", "max_rollouts_per_task": 2, "num_parallel_workers": workers, "num_train_tasks": 3,
            "num_eval_tasks": 2}  # fmt: skip
    return Learner(
        seed=seed,
        env={**envs, **(env or {}), "env_kwargs": kwargs},
        train={**TRAIN, **(train or {})},
        policy={**POLICY, "arch": arch, **(policy or {})},
    )


def contents(learner: Learner) -> dict[str, Array]:
    """All that a buffer holds."""
    return {name: np.asarray(value) for name, value in learner.policy_storage.state().items()}


def assert_same(one: dict[str, Array], other: dict[str, Array]) -> None:
    """To the last bit."""
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        assert one[name].tobytes() == other[name].tobytes(), name
