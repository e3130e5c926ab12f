"""``shoal.make`` and ``gymnasium.make_vec``."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode

import shoal
from tests.envs import CountingEnv, counting


def test_by_id_with_keywords_for_the_environment() -> None:
    with shoal.make("Pendulum-v1", 2, backend="shm", g=3.0) as envs:
        assert envs.get_attr("g") == (3.0, 3.0)
        assert envs.spec is not None
        assert envs.spec.id == "Pendulum-v1"
        assert repr(envs) == "ParallelEnv(Pendulum-v1, num_envs=2)"


def test_by_id_with_a_module_to_import() -> None:
    with shoal.make("gymnasium:CartPole-v1", 2, backend="serial") as envs:
        assert envs.num_envs == 2


def test_by_spec_callable_class_and_list() -> None:
    for env in (gymnasium.spec("CartPole-v1"), counting(), CountingEnv):
        with shoal.make(env, 3, backend="serial") as envs:
            assert envs.num_envs == 3
    with shoal.make([counting(), counting()], backend="serial") as envs:
        assert envs.num_envs == 2
    with shoal.make(CountingEnv, 2, backend="serial", length=9) as envs:
        assert envs.get_attr("length") == (9, 9)
    with shoal.make([CountingEnv, CountingEnv], backend="serial", length=8) as envs:
        assert envs.get_attr("length") == (8, 8)
    with shoal.make("CartPole-v1") as envs:
        assert envs.num_envs == 1


def test_every_keyword_arrives() -> None:
    keywords: dict[str, Any] = {"num_workers": 3, "start_method": "spawn", "autoreset_mode": "SameStep", "copy": False}
    with shoal.make("CartPole-v1", 4, backend="pipes", step_timeout=9, **keywords) as envs:
        assert (envs.plan.backend, envs.plan.num_workers, envs.plan.start_method) == ("pipes", 3, "spawn")
        assert envs.autoreset_mode is AutoresetMode.SAME_STEP
        assert (envs.copy, envs.step_timeout) == (False, 9.0)


def test_gymnasium_make_vec_can_make_it() -> None:
    envs = gymnasium.make_vec("shoal/Parallel-v0", env_id="CartPole-v1", num_envs=3, backend="threads")
    assert isinstance(envs, shoal.ParallelEnv)
    assert envs.num_envs == 3
    assert envs.spec is not None
    assert envs.spec.kwargs["env_id"] == "CartPole-v1"
    envs.close()


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_the_spec_of_a_vector_environment_makes_as_many_of_the_same(mode: str, backend: str) -> None:
    theirs = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode=mode, max_episode_steps=7)
    theirs.close()
    assert theirs.spec is not None
    for num_envs in (3, 2):
        with shoal.make(theirs.spec, None if num_envs == 3 else num_envs, backend=backend, start_method=None) as envs:
            assert envs.num_envs == num_envs
            envs.reset(seed=1)
            envs.set_attr("theta_threshold_radians", 1e9)
            ends = [envs.step([0] * num_envs)[3].all() for _ in range(7)]
            assert ends == [False] * 6 + [True]
            assert envs.spec is not None
            with shoal.make(envs.spec, backend="serial") as more:  # which is that of one environment
                assert more.num_envs == 1


def test_the_wrappers_of_a_vector_environment_are_taken_over() -> None:
    theirs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", wrappers=(DoubleReward,))
    theirs.close()
    assert theirs.spec is not None
    with shoal.make(theirs.spec, backend="shm", num_workers=2) as envs:
        envs.reset(seed=1)
        assert envs.step([0, 0])[1].tolist() == [2.0, 2.0]


class DoubleReward(gymnasium.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> Any:
        return 2 * reward


def test_what_of_a_vector_environment_cannot_be_taken_over_is_said() -> None:
    theirs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs={"copy": False})
    theirs.close()
    assert theirs.spec is not None
    with pytest.raises(shoal.ConfigurationError) as caught:
        shoal.make(theirs.spec)
    assert "the spec of 'CartPole-v1' has vector_kwargs, which are for Gymnasium's own vector environments" in str(
        caught.value
    )
    assert "{'copy': False}. What to do: begin with gymnasium.spec('CartPole-v1')" in str(caught.value)


@pytest.mark.parametrize(
    ("env", "num_envs", "keywords", "message"),
    [
        ("shoal/Parallel-v0", 2, {}, "'shoal/Parallel-v0' is registered as a vector environment only"),
        ("CartPole-v1", 0, {}, "num_envs must be a whole number of at least 1, got 0"),
        ("CartPole-v1", "4", {}, "num_envs must be a whole number of at least 1, got '4'"),
        ([counting()], 3, {}, "num_envs=3, but the list has 1 factories; leave num_envs out"),
        (3, 1, {}, "env must be the id of a registered environment, a callable that makes one, or a list"),
        ("CartPole-v1", 2, {"num_worker": 1}, "make() has no keyword 'num_worker': did you mean 'num_workers'?"),
        ("no_such_module:Env-v0", 2, {}, "asks for the module 'no_such_module', which cannot be imported"),
    ],
)
def test_what_cannot_be_made_is_explained(env: Any, num_envs: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=re.escape(message)):
        shoal.make(env, num_envs, **keywords)


def test_an_unknown_id_is_gymnasiums_to_explain() -> None:
    with pytest.raises(gymnasium.error.NameNotFound, match="Did you mean"):
        shoal.make("CartPol-v1", 2)
