"""The interface of the research code that Shoal grew out of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shoal
from shoal.cyber import (
    TRUE_STATE,
    B_lineAgent,
    ParallelEnvPipes,
    ParallelEnvSharedMemory,
    ParallelEnvWrapper,
    SleepAgent,
    VectorizedCAGE2Envs,
)

FACES = [ParallelEnvSharedMemory, ParallelEnvPipes, VectorizedCAGE2Envs]


@pytest.mark.parametrize("face", FACES)
def test_it_is_used_exactly_like_the_original(face: Any) -> None:
    envs = face(n_envs=6, red_agent_type=B_lineAgent)
    observations = envs.reset()
    assert observations.shape == (6, 52)
    for _ in range(120):
        observations, rewards, dones, infos = envs.step(np.zeros(6, dtype=int))
    assert observations.shape == (6, 52)
    assert rewards.shape == dones.shape == (6,)
    assert not dones.any(), "episodes never end, unless that is asked for"
    assert infos == [{}] * 6
    states = envs.get_true_states()
    assert len(states) == 6
    assert states[0]["User0"]["Sessions"] == [{"Agent": "Red", "Username": "SYSTEM", "Privileged": True}]
    envs.close()


def test_all_of_them_come_to_the_same() -> None:
    found = []
    for face in FACES:
        with face(n_envs=4, red_agent_type=B_lineAgent, max_steps=30) as envs:
            random = np.random.default_rng(0)
            results: list[Any] = [envs.reset(seed=1)]
            results += [envs.step(random.integers(145, size=4)) for _ in range(70)]
            found.append((results, envs.get_true_states(), envs.true_states))
    for other in found[1:]:
        for ours, theirs in zip(found[0][0][1:], other[0][1:], strict=True):
            for one, another in zip(ours[:3], theirs[:3], strict=True):
                np.testing.assert_array_equal(one, another)
        assert found[0][1] == other[1]
        np.testing.assert_array_equal(found[0][2], other[2])


def test_after_the_end_the_observation_is_the_first_of_the_next_episode() -> None:
    with VectorizedCAGE2Envs(n_envs=2, red_agent_type="B_line", max_steps=10) as envs:
        envs.reset(seed=0)
        for _ in range(9):
            last, _, dones, _ = envs.step([0, 0])
            assert not dones.any()
        observations, _, dones, infos = envs.step([0, 0])
    assert dones.tolist() == [True, True]
    assert not observations.any()
    assert infos[0]["final_obs"].shape == (52,)
    assert infos[0]["final_obs"].any()
    assert infos[1]["final_info"] == {}


def test_the_first_name_of_the_pipe_version_is_kept() -> None:
    assert ParallelEnvWrapper is ParallelEnvPipes
    assert ParallelEnvPipes.backend == "pipes"
    with ParallelEnvWrapper(n_envs=1) as envs:
        assert envs.envs.plan.backend == "pipes"


def test_true_states_are_also_one_array() -> None:
    with ParallelEnvSharedMemory(n_envs=5, red_agent_type=SleepAgent, num_workers=2) as envs:
        envs.reset()
        envs.step([28 + 1] * 5)  # DecoyApache Enterprise0
        states = envs.true_states
        assert states.dtype == TRUE_STATE
        assert states["decoys"][:, 1, 0].all()
        words = envs.get_true_states()[4]
    assert words["blue_action"] == "DecoyApache Enterprise0"
    assert words["red_action"] == "Sleep"
    assert words["success"] is True
    assert words["Enterprise0"]["Processes"] == [
        {"Connections": [{"local_port": 22}], "Service": "ssh", "Username": "root"},
        {"Connections": [{"local_port": 80}], "Service": "web", "Decoy": "Apache"},
    ]
    assert words["Op_Server0"]["Processes"][-1]["Service"] == "OTService"
    assert words["User3"]["Processes"][1]["Connections"] == [{"local_port": 3389}], "the quirk"


def test_asking_changes_nothing() -> None:
    def play(asks: bool) -> list[Any]:
        with ParallelEnvSharedMemory(n_envs=4, num_workers=2) as envs:
            results: list[Any] = [envs.reset(seed=0)]
            for _ in range(30):
                results.append(envs.step([3, 4, 5, 6])[:2])
                if asks:
                    envs.get_true_states()
            return results

    for one, another in zip(play(asks=True)[1:], play(asks=False)[1:], strict=True):
        np.testing.assert_array_equal(one[0], another[0])
        np.testing.assert_array_equal(one[1], another[1])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"simulator": "real"}, "simulator must be 'shoal' or 'cyborg', got 'real'"),
        ({"scenario_path": "Mine.yaml"}, "has the scenario of the challenge built in"),
        ({"red": "B_line"}, "here the attacker is called red_agent_type, not red"),
        ({"red_agent_type": "Blineagent"}, "red must be one of"),
    ],
)
def test_what_cannot_be_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        VectorizedCAGE2Envs(n_envs=1, **keywords)


def test_what_the_original_could_do_works() -> None:
    with VectorizedCAGE2Envs(2, "Shared/Scenarios/Scenario2.yaml", B_lineAgent) as envs:
        assert envs.observation_shape == (52,)
        envs.step([0, 0])  # nobody has reset them
        envs.reset([1])
        assert envs.true_states["step"].tolist() == [1, 0]
        for session in envs.get_true_states()[0]["User0"]["Sessions"]:
            assert session["Username"] in {"root", "SYSTEM"}


def test_unknown_names_are_not_there() -> None:
    import shoal.cyber

    with pytest.raises(AttributeError, match="has no attribute 'CAGE3'"):
        _ = shoal.cyber.CAGE3
