"""Everything that decides how training goes on, as tensors and plain values, and back.

Environments are saved where that is possible: those of a world by their state, those in workers by their journal, with which
they are brought back by doing everything again, others by pickling them. Where none of it works, training goes on with new
episodes, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from shoal.ppo.acting import TorchPolicy, policy_of
from shoal.ppo.rollout import Episode
from shoal.runs.report import Pace
from shoal.vector.errors import ConfigurationError, ShoalError

if TYPE_CHECKING:
    from shoal.ppo.trainer import PPOTrainer

VERSION = 1


def tensors_of(trainer: PPOTrainer) -> dict[str, torch.Tensor]:
    """Weights, the optimiser's moments, and the state of the generator that shuffles."""
    tensors = {f"network.{name}": value for name, value in trainer.network.state_dict().items()}
    tensors |= {f"optimiser.{name}": value for name, value in trainer.updater.learner.tensors().items()}
    tensors["shuffling"] = trainer.updater.shuffling.get_state()
    policy = trainer._policy
    if isinstance(policy, TorchPolicy) and policy.states is not None:
        tensors["memory"] = policy.states
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def state_of(trainer: PPOTrainer, lost: str | None = None) -> dict[str, Any]:
    """Counters, random numbers, what has been seen, and where environments are, unless it is said why that is lost."""
    collector = trainer.collector
    return {
        "version": VERSION,
        "updates": trainer.updates,
        "steps": trainer.steps,
        "episodes": trainer.episodes,
        "best_return": trainer.best_return,
        "latest": [[episode.total, episode.length] for episode in collector.latest],
        "last_episode": None if trainer._last_episode is None else list(trainer._last_episode),
        "random": collector.random.bit_generator.state,
        "scale": None if trainer.scale is None else trainer.scale.moments.state(),
        "reward_scale": None if trainer.reward_scale is None else trainer.reward_scale.state(),
        "collector": {
            "returns": collector.returns.copy(),
            "lengths": collector.lengths.copy(),
            "observations": collector.observations,
            "is_due": collector.is_due,
            "begins": collector.begins,
            "masks": None if collector.masks is None else collector.masks.copy(),
        },
        "environments": _environments_of(trainer) if lost is None else {"kind": "new", "reason": lost},
    }


def load(trainer: PPOTrainer, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
    """Go on from there. Returns a sentence if environments could not be brought back."""
    if state["version"] != VERSION:
        raise ConfigurationError(f"this checkpoint is of version {state['version']}, and this is Shoal's {VERSION}")
    load_network(trainer, tensors, state)
    trainer.updater.learner.load(_part(tensors, "optimiser."))
    trainer.updater.shuffling.set_state(tensors["shuffling"])
    collector = trainer.collector
    trainer.updates, trainer.steps, trainer.episodes = state["updates"], state["steps"], state["episodes"]
    trainer.best_return = state["best_return"]
    collector.latest.extend(Episode(float(total), int(length)) for total, length in state["latest"])
    last = state["last_episode"]
    trainer._last_episode = None if last is None else Episode(float(last[0]), int(last[1]))
    collector.random.bit_generator.state = state["random"]
    if trainer.reward_scale is not None:
        trainer.reward_scale.load(state["reward_scale"])
    trainer._pace = Pace()  # it was that of another training
    return _bring_back(trainer, tensors, state)


def load_network(trainer: PPOTrainer, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    """Only what is needed for acting."""
    try:
        trainer.network.load_state_dict(_part(tensors, "network."))
    except RuntimeError as error:
        raise ConfigurationError(f"this checkpoint is of another network than the config describes: {error}") from None
    if trainer.scale is not None:
        trainer.scale.moments.load(state["scale"])


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _environments_of(trainer: PPOTrainer) -> dict[str, Any]:
    envs = trainer.envs
    if _are_rows(trainer):
        return {"kind": "rows", "states": list(envs.call("get_state"))}
    try:
        return {"kind": "state", "state": envs.state_dict()}
    except ShoalError as error:
        return {"kind": "new", "reason": str(error)}


def _bring_back(trainer: PPOTrainer, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> str | None:
    saved, envs, collector = state["environments"], trainer.envs, trainer.collector
    trainer._begin()
    reason = saved.get("reason", "they are of another kind than those that were saved")
    is_back = False
    try:
        if saved["kind"] == "rows" and _are_rows(trainer):
            for number, its in enumerate(saved["states"]):
                envs.call_on([number], "set_state", its)
            is_back = True
        elif saved["kind"] == "state":
            envs.load_state_dict(saved["state"])
            is_back = True
    except ShoalError as error:
        reason = str(error)
    if not is_back:
        collector.begin(trainer.config.seed + trainer.steps)  # not those with which the run began
        return f"environments begin new episodes: {reason}"
    its_collector = state["collector"]
    collector.returns, collector.lengths = its_collector["returns"], its_collector["lengths"]
    collector.go_on_from(its_collector["observations"], its_collector["is_due"], its_collector["begins"])
    collector.masks = its_collector["masks"]
    if "memory" in tensors:
        trainer._policy = policy_of(trainer.network, trainer._device)
        assert isinstance(trainer._policy, TorchPolicy)
        trainer._policy.states = tensors["memory"].to(trainer._device)
    return None


def _are_rows(trainer: PPOTrainer) -> bool:
    from shoal.vector.batched import rows_maker

    return rows_maker(trainer.envs.env_fns) is not None


__all__ = ["load", "load_network", "state_of", "tensors_of"]
