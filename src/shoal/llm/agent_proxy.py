"""``LLMAgentProxy``: a policy and its worlds, behind one call of a trainer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

from shoal.llm.environment_manager import EnvironmentManagerBase
from shoal.llm.es_settings import flag_of
from shoal.llm.factory import make_environments
from shoal.llm.policies.policy import Policy, as_policy
from shoal.llm.rollout_batch import RolloutBatch
from shoal.llm.settings import Settings, plain
from shoal.llm.trajectory_collector import TrajectoryCollector
from shoal.vector.caller import warn_caller
from shoal.vector.errors import StateError


class LLMAgentProxy:
    """Lets a policy play in the worlds of a config, for training and for validation.

    Worlds run in worker processes unless ``use_parallel_envs`` is false. If none can be started, they run in this process,
    after a warning, with the same results. Where they are in workers, there are ``parallel_envs`` (both managers),
    ``train_parallel_envs`` and ``val_parallel_envs``, as trainers look for them.

    Args:
        config: a dictionary, the path of a YAML file, or an OmegaConf config.
        actor_rollout_wg: the policy, or a function from requests to texts.
        tokenizer: of the model.
        processor: what the tokenizer is taken from, if there is only that.
    """

    managers: tuple[EnvironmentManagerBase, EnvironmentManagerBase]
    """For training and for validation, wherever worlds run."""
    parallel_envs: tuple[EnvironmentManagerBase, EnvironmentManagerBase]
    train_parallel_envs: EnvironmentManagerBase
    val_parallel_envs: EnvironmentManagerBase

    def __init__(self, config: Any, actor_rollout_wg: Any, tokenizer: Any = None, processor: Any = None) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.policy: Policy = as_policy(actor_rollout_wg)
        self.traj_collector = TrajectoryCollector(config, tokenizer, processor)
        self._is_closed = False
        if flag_of(Settings.of(config), "use_parallel_envs", True):
            self._init_parallel_environments()
        else:
            self.managers = make_environments(config)

    def _init_parallel_environments(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "all worlds run in this process")  # which is said below
            self.managers = make_environments(self.config)
        failures = [envs.envs.worlds.fallback for envs in self.managers]
        if not any(failures):
            self.parallel_envs = self.managers
            self.train_parallel_envs, self.val_parallel_envs = self.managers
            return
        for envs in self.managers:
            envs.close()
        self.managers = make_environments(_here(self.config))
        warn_caller(
            f"Failed to initialize parallel environments: {next(filter(None, failures))}\n"
            "Falling back to original environment system"
        )

    def rollout(self, dataproto: Any = None, val: bool = False) -> RolloutBatch:
        """Play every group once; returns ``batch``, ``non_tensor_batch`` and ``meta_info``, and the ``records``.

        Args:
            dataproto: what the rollout is for; see :meth:`TrajectoryCollector.multi_turn_loop`.
            val: whether it is for validation: in the worlds for that, with the same tasks each time, and unfiltered.
        """
        if self._is_closed:
            raise StateError("the agent was closed")
        envs = self.managers[1 if val else 0]
        if val and dataproto is None:
            dataproto = {"seeds": [envs.envs.seed + group for group in range(envs.envs.env_num)]}
        return self.traj_collector.multi_turn_loop(dataproto, self.policy, envs, is_train=not val)

    def close(self) -> None:
        """Close all worlds, and the policy."""
        self._is_closed = True
        for envs in self.managers:
            envs.close()
        self.policy.close()

    def __enter__(self) -> LLMAgentProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _here(config: Any) -> dict[str, Any]:
    """The same config, with all worlds in this process."""
    settings = Settings.of(config)
    content: Mapping[str, Any] = {name: settings.get(name) for name in settings}
    return {**copy.deepcopy(plain(content)), "use_parallel_envs": False}
