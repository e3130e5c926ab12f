"""The adapter of the real simulator, tried on a stand-in with its interface."""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import shoal
from shoal.cyber import CybORGEnv, GreenAgent, RedMeanderAgent, VectorizedCAGE2Envs
from tests.comparing import difference, rollout
from tests.scripts import run_script

STAND_IN = Path(__file__).parent / "stand_in"


@pytest.fixture
def cyborg(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """CybORG can be imported, here and in worker processes."""
    monkeypatch.syspath_prepend(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN), prepend=os.pathsep)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "CybORG"]:
        del sys.modules[name]


@pytest.mark.usefixtures("cyborg")
def test_it_is_an_environment_as_gymnasium_wants_it() -> None:
    check_env(CybORGEnv(red="Meander"), skip_render_check=True)


@pytest.mark.usefixtures("cyborg")
def test_a_seed_means_what_it_means_in_cyborg() -> None:
    from CybORG import CybORG
    from CybORG.Agents import RedMeanderAgent as Meander
    from CybORG.Agents.Wrappers import ChallengeWrapper

    original = ChallengeWrapper(
        env=CybORG(str(STAND_IN / "CybORG/Shared/Scenarios/Scenario2.yaml"), "sim", agents={"Red": Meander}),
        agent_name="Blue",
    )
    random.seed(5)
    expected: list[Any] = [original.reset(), *(original.step(0)[:2] for _ in range(30))]
    env = CybORGEnv(red="Meander")
    found: list[Any] = [env.reset(seed=5)[0].tolist()]
    for _ in range(30):
        observation, reward, *_ = env.step(np.int64(0))
        found.append((observation.tolist(), reward))
    assert found == expected


@pytest.mark.usefixtures("cyborg")
def test_games_in_one_process_do_not_disturb_each_other() -> None:
    """Nor anybody else who draws from Python's generator."""
    alone = CybORGEnv(red="Meander")
    alone.reset(seed=1)
    expected = [alone.step(0)[0].tolist() for _ in range(20)]

    one, other = CybORGEnv(red="Meander"), CybORGEnv(red="Meander")
    one.reset(seed=1)
    random.seed(9)
    other.reset(seed=2)
    found = []
    for _ in range(20):
        found.append(one.step(0)[0].tolist())
        other.step(0)
    assert found == expected
    numbers = [random.random() for _ in range(3)]
    random.seed(9)
    assert [random.random() for _ in range(3)] == numbers


@pytest.mark.usefixtures("cyborg")
def test_every_backend_gives_the_same(backend: str) -> None:
    def play(**keywords: Any) -> list[Any]:
        with shoal.make("shoal/CybORG-v0", 4, red="Meander", green="Scan", max_steps=15, **keywords) as envs:
            return rollout(envs, 50)

    expected = play(backend="serial")
    assert sum(step[3].sum() for step in expected[1:]) == 12
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 2}
    assert not difference(play(backend=backend, **workers), expected)


@pytest.mark.usefixtures("cyborg")
def test_a_killed_worker_loses_no_game(process_backend: str) -> None:
    import signal

    def play(is_killed: bool) -> list[Any]:
        with shoal.make(
            "shoal/CybORG-v0", 4, red="Meander", max_steps=15, backend=process_backend, num_workers=2
        ) as envs:
            envs.action_space.seed(0)
            found: list[Any] = [envs.reset(seed=3)]
            for step in range(40):
                if is_killed and step == 25:
                    os.kill(envs.worker_pids[0], signal.SIGKILL)
                found.append(envs.step(envs.action_space.sample()))
            assert envs.stats.restarts == int(is_killed)
            return found

    assert not difference(play(is_killed=True), play(is_killed=False))


@pytest.mark.usefixtures("cyborg")
def test_the_faces_run_it_too() -> None:
    with VectorizedCAGE2Envs(n_envs=3, red_agent_type=RedMeanderAgent, simulator="cyborg", green=GreenAgent) as envs:
        assert envs.reset(seed=0).shape == (3, 52)
        for _ in range(5):
            observations, rewards, dones, infos = envs.step([0, 1, 144])
        states = envs.get_true_states()
    assert infos == [{}, {}, {}]
    assert len(states) == 3
    assert states[0]["success"] is True
    assert set(states[0]["Host0"]) == {"Sessions"}


@pytest.mark.usefixtures("cyborg")
def test_infos_are_handed_over_when_asked_for() -> None:
    env = CybORGEnv(with_infos=True)
    env.reset(seed=0)
    assert set(env.step(0)[4]) == {"reward", "action"}


@pytest.mark.usefixtures("cyborg")
def test_agents_can_be_ones_own() -> None:
    class First:
        def get_action(self, hosts: list[int]) -> int:
            return 0

    env = CybORGEnv(red=First)
    env.reset(seed=0)
    env.step(0)
    assert env.true_state["Host0"] == {"Sessions": [1]}
    with pytest.raises(shoal.ConfigurationError, match="red must be one of 'B_line', 'Meander', 'Sleep'.*got 'Bline'"):
        CybORGEnv(red="Bline")


@pytest.mark.usefixtures("cyborg")
@pytest.mark.parametrize("red", ["Wrappers", "Bline"])
def test_what_is_no_agent_is_refused(red: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=f"red must be one of .*, got '{red}'"):
        CybORGEnv(red=red)


@pytest.mark.usefixtures("cyborg")
def test_limits_and_actions_are_checked() -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="max_steps must be a whole number of at least 1, or None, got 0"
    ):
        CybORGEnv(max_steps=0)
    env = CybORGEnv()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="the action -1 is not in Discrete"):
        env.step(-1)


@pytest.mark.usefixtures("cyborg")
def test_a_simulator_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrappers: Any = importlib.import_module("CybORG.Agents.Wrappers")

    class Older(wrappers.ChallengeWrapper):  # type: ignore[misc]
        def __init__(self, agent_name: str, env: Any) -> None:
            super().__init__(agent_name, env)
            self.action_space = wrappers.Space(158)

    monkeypatch.setattr(wrappers, "ChallengeWrapper", Older)
    with pytest.raises(shoal.ConfigurationError, match="158 actions .* and CAGE 2 has 145 and 52"):
        CybORGEnv()


@pytest.mark.usefixtures("cyborg")
def test_another_scenario_can_be_played(tmp_path: Path) -> None:
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("Hosts: {mine: {}}")
    assert CybORGEnv(scenario_path=scenario).cyborg.scenario == "Hosts: {mine: {}}"


def test_who_has_no_cyborg_is_told_what_to_do() -> None:
    with pytest.raises(ModuleNotFoundError, match="which is not installed here.*shoal/Cage2-v0"):
        CybORGEnv()


def test_neither_numba_nor_anything_else_is_needed() -> None:
    """Where CybORG is, little else may be."""
    done = run_script(
        f"""
        import sys
        for name in ("numba", "torch", "matplotlib", "rich", "tyro", "pydantic", "yaml", "stable_baselines3"):
            sys.modules[name] = None
        sys.path.insert(0, {str(STAND_IN)!r})
        from shoal.cyber import *
        with ParallelEnvSharedMemory(n_envs=2, red_agent_type=B_lineAgent, simulator="cyborg", backend="serial") as envs:
            envs.reset(seed=0)
            print(envs.step([0, 0])[0].shape, len(envs.get_true_states()))
        """
    )
    assert done.stdout == "(2, 52) 2\n", done.stderr
