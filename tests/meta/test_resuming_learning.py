"""A learner that was saved goes on as if it had not been."""

from __future__ import annotations

import pytest
import torch

from shoal.runs import state_json
from shoal.runs.tensor_bytes import as_bytes, from_bytes
from shoal.vector.errors import ConfigurationError
from tests.meta.learning import ARCHS, assert_same, contents, learner_of


@pytest.mark.parametrize("name", ["numbers", "choices"])
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("buffer_size", [1000, 60], ids=["filling", "full"])
def test_a_resumed_learner_goes_on_bit_by_bit(arch: str, name: str, buffer_size: int) -> None:
    train = {"buffer_size": buffer_size}
    with learner_of(arch, name=name, train=train) as whole:
        whole.train()
        expected = whole.state_dict()
    with learner_of(arch, name=name, train=train) as first:
        first.train_once()
        saved = first.state_dict()
    # through the forms in which a checkpoint holds them
    tensors = from_bytes(as_bytes(saved["tensors"]))
    state = state_json.decode(state_json.encode(saved["state"]))
    with learner_of(arch, 3, name=name, train=train, env={"parallel_kwargs": {"backend": "serial"}}) as second:
        second.load_state_dict({"tensors": tensors, "state": state})
        second.train()
        resumed = second.state_dict()
        assert second.is_done
    assert resumed["state"] == expected["state"]
    assert resumed["tensors"].keys() == expected["tensors"].keys()
    for place, value in expected["tensors"].items():
        assert torch.equal(value, resumed["tensors"][place]), place


def test_what_is_saved_does_not_change_afterwards() -> None:
    with learner_of() as learner:
        learner.train_once()
        saved = learner.state_dict()
        before = {name: value.clone() for name, value in saved["tensors"].items()}
        learner.train_once()
        assert all(torch.equal(value, saved["tensors"][name]) for name, value in before.items())


def test_a_buffer_of_another_size_is_refused() -> None:
    with learner_of() as learner, learner_of(train={"buffer_size": 30}) as smaller:
        learner.train_once()
        with pytest.raises(ConfigurationError, match="does not fit into one of 30"):
            smaller.load_state_dict(learner.state_dict())


def test_another_network_is_refused() -> None:
    with learner_of() as learner, learner_of(policy={"rnn_hidden_size": 8}) as other:
        with pytest.raises(ConfigurationError, match="another network than the config describes"):
            other.load_state_dict(learner.state_dict())


def test_another_version_is_refused() -> None:
    with learner_of() as learner:
        saved = learner.state_dict()
        saved["state"]["version"] = 99
        with pytest.raises(ConfigurationError, match="of version 99"):
            learner.load_state_dict(saved)


def test_a_larger_buffer_may_take_what_was_kept_while_it_was_not_full() -> None:
    with learner_of() as learner, learner_of(train={"buffer_size": 2000}) as larger:
        learner.collect_rollouts(3)
        larger.load_state_dict(learner.state_dict())
        assert_same(contents(learner), contents(larger))
