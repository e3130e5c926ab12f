"""Settings: a YAML file as it was written, and mistakes that are explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.meta import AGENT_ARCHS, Learner, MetaConfig
from shoal.vector.errors import ConfigurationError
from tests.meta import task_envs

GUIDE = """
seed: 3
env:
  env_type: meta
  env_name: AntDir-v0
  max_rollouts_per_task: 2
  num_train_tasks: 50
  num_eval_tasks: 20
  num_parallel_workers: 6

train:
  num_rollouts_per_iter: 12
  num_updates_per_iter: 0.5
"""


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "ant.yaml"
    path.write_text(GUIDE.replace("AntDir-v0", task_envs.Drift.__name__ + "-v0").replace("50", "4").replace("20", "1"))
    with Learner(path, seed=4, env={"num_parallel_workers": 1}) as learner:
        assert learner.config.seed == 4
        assert learner.config.env.num_parallel_workers == 1
        assert learner.config.env.num_train_tasks == len(learner.train_tasks) == 4
        assert learner.config.train.num_rollouts_per_iter == 12
        assert learner.config.train.num_updates_per_iter == 0.5


def test_a_whole_number_of_updates_stays_one() -> None:
    for value, kind in ((2, int), (2.0, float), ("2", int)):
        found = MetaConfig.of({"train": {"num_updates_per_iter": value}}).train.num_updates_per_iter
        assert type(found) is kind


def test_an_architecture_may_be_named_either_way() -> None:
    assert MetaConfig.of({"policy": {"arch": AGENT_ARCHS.Memory_Markov}}).policy.arch == "memory-markov"
    assert MetaConfig.of({"policy": {"arch": "markov"}}).policy.agent_arch is AGENT_ARCHS.Markov


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_iters": 3}, "no setting 'num_iters'.*There is one in the section train"),
        ({"env": {"num_workers": 3}}, "no setting 'num_workers' in env.*num_parallel_workers"),
        ({"policy": {"arch": "memmory"}}, "policy.arch: .*Did you mean 'memory'"),
        ({"train": {"sampled_seq_len": 0}}, "a sequence has at least one step; -1 stands for whole rollouts"),
        ({"policy": {"dqn_layers": [16, 0]}}, "policy_layers and dqn_layers must be at least 1 each"),
        ({"train": {"num_iters": True}}, "and not true or false"),
        ({"policy": {"gamma": 1.5}}, r"policy.gamma: .*less than or equal to 1 \(got 1.5\)"),
    ],
    ids=["place", "name", "word", "length", "layers", "kind", "range"],
)
def test_mistakes_are_explained(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MetaConfig.of(values)
