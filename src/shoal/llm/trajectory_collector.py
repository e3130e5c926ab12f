"""``TrajectoryCollector``: plays a policy in all worlds of an environment manager, and gathers what came of it.

::

    collector = TrajectoryCollector(config, tokenizer)
    data = collector.multi_turn_loop(gen_batch, policy, envs, is_train=True)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.llm.environment_manager import EnvironmentManagerBase, Observations
from shoal.llm.ledger import Tokens
from shoal.llm.policies.policy import as_policy
from shoal.llm.records import TrajectoryRecord
from shoal.llm.rollout import Rollout, Waste, Watcher, is_informative
from shoal.llm.rollout_batch import RolloutBatch, as_dict, batch_of, drift_of
from shoal.llm.rollout_metrics import rollout_metrics
from shoal.llm.rollout_settings import RolloutSettings
from shoal.llm.stage import Stage
from shoal.vector.errors import ConfigurationError

logger = logging.getLogger("shoal.llm.rollout")


class TrajectoryCollector:
    """Collects trajectories.

    Args:
        config: a dictionary, the path of a YAML file, or an OmegaConf config; see :class:`RolloutSettings`.
        tokenizer: of the model, with a chat template. Without one there are texts, but no tokens.
        processor: what the tokenizer is taken from, if there is only that.
        watcher: who wants to know what happens meanwhile.
    """

    def __init__(
        self, config: Any, tokenizer: Any = None, processor: Any = None, watcher: Watcher | None = None
    ) -> None:
        self.config, self.processor = config, processor
        self.tokenizer = getattr(processor, "tokenizer", None) if tokenizer is None else tokenizer
        self.settings = RolloutSettings.of(config)
        self.watcher = watcher
        self._tokens = None if self.tokenizer is None else Tokens(self.tokenizer)
        if self._tokens is None and self.settings.window.kind == "tokens":
            raise ConfigurationError("agent_proxy.context_window_mode is 'tokens', which needs a tokenizer")

    # -- loops -----------------------------------------------------------------------------------------------------------

    def multi_turn_loop(
        self, gen_batch: Any, actor_rollout_wg: Any, envs: EnvironmentManagerBase, is_train: bool = True
    ) -> RolloutBatch:
        """A rollout: the dynamic one in training if ``algorithm.filter_groups.enable`` says so, otherwise the plain one.

        Args:
            gen_batch: what the rollout is for: ``None``, a dictionary, anything with ``batch``, ``non_tensor_batch`` and
                ``meta_info``, or a former result, or its records, whose tasks are played again. If it has seeds, one for each
                group, they are the tasks'. Its ``meta_info`` is handed on.
            actor_rollout_wg: the policy, or a function from requests to texts.
            envs: the environment manager.
            is_train: whether groups of no use are played again.
        """
        if is_train and self.settings.filters_groups:
            return self.dynamic_multi_turn_loop(gen_batch, actor_rollout_wg, envs)
        return self.vanilla_multi_turn_loop(gen_batch, actor_rollout_wg, envs)

    def vanilla_multi_turn_loop(
        self, gen_batch: Any, actor_rollout_wg: Any, envs: EnvironmentManagerBase
    ) -> RolloutBatch:
        """Play every group once."""
        return self._collect(gen_batch, actor_rollout_wg, envs, filters=False)

    def dynamic_multi_turn_loop(
        self, gen_batch: Any, actor_rollout_wg: Any, envs: EnvironmentManagerBase
    ) -> RolloutBatch:
        """Play every group until its members' returns differ, ``max_num_gen_batches`` times at most.

        Only groups of no use are played again, with other tasks. ``meta_info["waste"]`` says what that cost.
        """
        return self._collect(gen_batch, actor_rollout_wg, envs, filters=True)

    def _collect(self, gen_batch: Any, policy: Any, envs: EnvironmentManagerBase, *, filters: bool) -> RolloutBatch:
        stage = Stage(envs)
        rollout = Rollout(stage, as_policy(policy), self.settings, self._tokens, self.watcher)
        seeds = _seeds_in(gen_batch, stage)
        tasks = stage.next_seeds() if seeds is None else seeds
        # The container's own seeds go on where this rollout's first round ends, so other rounds keep away from them.
        stride = 1_000_003 * stage.num_groups
        records = rollout.run(dict(enumerate(tasks)), filters=filters, stride=stride)
        meta_info = dict(_part(gen_batch, "meta_info") or {})
        return self.gather_rollout_data(records, meta_info, stage.group_size, rollout.waste, rollout.rounds)

    def gather_rollout_data(
        self,
        records: Sequence[TrajectoryRecord],
        meta_info: Mapping[str, Any] | None = None,
        group_size: int = 1,
        waste: Waste | None = None,
        rounds: int = 1,
    ) -> RolloutBatch:
        """Arrays, metrics and an account of these trajectories."""
        told = {
            **(meta_info or {}),
            "metrics": rollout_metrics(records, group_size),
            "waste": as_dict(waste or Waste()),
            "rounds": rounds,
            "drift": drift_of(records),
            "uninformative_groups": sum(not is_informative(group) for group in _groups(records, group_size)),
        }
        pad = getattr(self.tokenizer, "pad_token_id", None)
        return batch_of(records, told, 0 if pad is None else pad)

    # -- prompts as arrays -----------------------------------------------------------------------------------------------

    def preprocess_single_sample(self, item: int, gen_batch: Any, obs: Observations) -> dict[str, Any]:
        """One prompt of what a manager's ``reset`` or ``step`` shows, in messages and, with a tokenizer, in tokens.

        Tokens are padded on the left to ``data.max_prompt_length``, and are all there where they are more than that.
        """
        anchor = obs.get("anchor")
        messages = [{"role": "user", "content": str(obs["text"][item])}]
        if self.settings.window.system:
            messages.insert(0, {"role": "system", "content": self.settings.window.system})
        sample: dict[str, Any] = {
            "raw_prompt": messages,
            "anchor_obs": None if anchor is None else anchor[item],
            "index": item,
            "data_source": _data_source(gen_batch, item),
        }
        if self._tokens is not None:
            ids = self._tokens.of(messages)
            width = max(len(ids), self.settings.max_prompt_length or 0)
            sample |= {"raw_prompt_ids": list(ids), **self._padded([ids], width)}
            for name in ("input_ids", "attention_mask", "position_ids"):
                sample[name] = sample[name][0]
        return sample

    def preprocess_batch(self, gen_batch: Any, obs: Observations) -> RolloutBatch:
        """All prompts of what a manager's ``reset`` or ``step`` shows."""
        samples = [self.preprocess_single_sample(item, gen_batch, obs) for item in range(len(obs["text"]))]
        batch = {}
        if self._tokens is not None and samples:
            width = max(len(sample["input_ids"]) for sample in samples)
            batch = self._padded([sample["raw_prompt_ids"] for sample in samples], width)
        others: dict[str, Any] = {}
        for name in ("raw_prompt", "raw_prompt_ids", "anchor_obs", "index", "data_source"):
            if samples and name in samples[0]:
                others[name] = np.empty(len(samples), object)
                others[name][:] = [sample[name] for sample in samples]
        return RolloutBatch(batch, others, dict(_part(gen_batch, "meta_info") or {}))

    def _padded(self, prompts: Sequence[Sequence[int]], width: int) -> dict[str, Any]:
        pad = getattr(self.tokenizer, "pad_token_id", None) or 0
        ids, mask = np.full((len(prompts), width), pad, np.int64), np.zeros((len(prompts), width), np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :], mask[row, width - len(prompt) :] = prompt, 1
        return {"input_ids": ids, "attention_mask": mask, "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0)}


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _data_source(gen_batch: Any, item: int) -> Any:
    sources = (_part(gen_batch, "non_tensor_batch") or {}).get("data_source")
    return "shoal" if sources is None else sources[item]


def _seeds_in(gen_batch: Any, stage: Stage) -> list[int] | None:
    """The seed of each group's task, if the caller says so: one for each group, or one for each member."""
    given = _seeds_of_records(gen_batch, stage.group_size) or _part(gen_batch, "seeds")
    if given is None:
        others = _part(gen_batch, "non_tensor_batch") or {}
        given = next((others[name] for name in ("seeds", "seed") if name in others), None)
    if given is None:
        return None
    seeds, num_groups, size = [int(one) for one in given], stage.num_groups, stage.group_size
    if len(seeds) == num_groups * size and all(seeds[row] == seeds[row - row % size] for row in range(len(seeds))):
        seeds = seeds[::size]
    if len(seeds) != num_groups or min(seeds) < 0:
        raise ConfigurationError(
            f"seeds must be {num_groups} whole numbers of at least 0, one for each group (or {num_groups * size}, one for each "
            f"member, the same within a group), got {seeds!s:.200}"
        )
    return seeds


def _seeds_of_records(gen_batch: Any, size: int) -> list[int] | None:
    """Those of a former rollout, whose tasks are to be played again."""
    records = gen_batch if isinstance(gen_batch, list | tuple) else getattr(gen_batch, "records", None) or [gen_batch]
    if not all(isinstance(one, TrajectoryRecord) for one in records):
        return None
    return [int(one.seed or 0) for one in records[::size]]


def _groups(records: Sequence[TrajectoryRecord], size: int) -> list[list[TrajectoryRecord]]:
    return [list(records[first : first + size]) for first in range(0, len(records), size)] if size > 1 else []
