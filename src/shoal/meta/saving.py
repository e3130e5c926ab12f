"""Everything that decides how a learner goes on, as tensors and plain values, and back.

Environments are not part of it: every rollout begins with a task and a seed of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from shoal.runs.report import Pace
from shoal.vector.errors import ConfigurationError

if TYPE_CHECKING:
    from shoal.meta.learner import Learner

VERSION = 1


def tensors_of(learner: Learner) -> dict[str, torch.Tensor]:
    """Weights, the optimisers' moments, and torch's random numbers."""
    algorithm = learner.algorithm
    tensors = {f"network.{name}": value for name, value in learner.network.state_dict().items()}
    tensors["log_alpha"] = algorithm.log_alpha
    for name, optimiser in _optimisers(learner):
        for number, moments in optimiser.state_dict()["state"].items():
            tensors |= {f"{name}.{number}.{which}": value for which, value in moments.items()}
    tensors["noise"] = algorithm.random.get_state()
    return {name: value.detach().clone() for name, value in tensors.items()}


def memory_of(learner: Learner) -> dict[str, torch.Tensor]:
    """What is kept of rollouts, where it lies: nothing is copied."""
    kept = learner.policy_storage.state()
    return {f"buffer.{name}": torch.from_numpy(part) for name, part in kept.items() if isinstance(part, np.ndarray)}


def state_of(learner: Learner) -> dict[str, Any]:
    """Counters and random numbers."""
    kept = learner.policy_storage.state()
    return {
        "version": VERSION,
        "steps": learner._n_env_steps_total,
        "rollouts": learner._n_rollouts_total,
        "updates": learner._n_updates_total,
        "iterations": learner.updates,
        "batches": learner._batches.bit_generator.state,
        "acting": learner.agent.random.bit_generator.state,
        "buffer": {name: part for name, part in kept.items() if not isinstance(part, np.ndarray)},
    }


def load(learner: Learner, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
    """Go on from there. Returns a sentence if what was kept of rollouts is not there any more."""
    if state["version"] != VERSION:
        raise ConfigurationError(f"this checkpoint is of version {state['version']}, and this is Shoal's {VERSION}")
    load_network(learner, tensors)
    with torch.no_grad():
        learner.algorithm.log_alpha.copy_(tensors["log_alpha"])
    for name, optimiser in _optimisers(learner):
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for place, value in _part(tensors, f"{name}.").items():
            number, which = place.split(".")
            moments.setdefault(int(number), {})[which] = value.clone()
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    learner.algorithm.random.set_state(tensors["noise"])
    kept = {name: value.numpy() for name, value in _part(tensors, "buffer.").items()}
    if kept:
        learner.policy_storage.load({**state["buffer"], **kept})
    learner._n_env_steps_total, learner._n_rollouts_total = state["steps"], state["rollouts"]
    learner._n_updates_total, learner.updates = state["updates"], state["iterations"]
    learner._pace = Pace()  # it was that of another training
    learner._batches.bit_generator.state = state["batches"]
    learner.agent.random.bit_generator.state = state["acting"]
    if kept:
        return None
    return (
        "what was kept of rollouts is saved with the last checkpoint alone: from here, only new ones are learned from"
    )


def load_network(learner: Learner, tensors: dict[str, torch.Tensor]) -> None:
    """Only what is needed for acting."""
    try:
        learner.network.load_state_dict(_part(tensors, "network."))
    except RuntimeError as error:
        raise ConfigurationError(f"this checkpoint is of another network than the config describes: {error}") from None


def _optimisers(learner: Learner) -> list[tuple[str, torch.optim.Optimizer]]:
    return [("optimiser", learner.algorithm.optimiser), ("alpha_optimiser", learner.algorithm.alpha_optimiser)]


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
