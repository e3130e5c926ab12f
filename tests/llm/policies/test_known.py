"""Scripts, solvers, functions and recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal import ConfigurationError
from shoal.envs.texts.any_text import AnyText
from shoal.llm import (
    Generation,
    Play,
    PolicyError,
    RecordedPolicy,
    RecordingPolicy,
    Request,
    ScriptedPolicy,
    SolverPolicy,
    as_policy,
    create_projection_function,
    sampling_seed,
)
from shoal.llm.hosted import Begin, HostedWorld
from shoal.llm.members import maker_of


def request(member: int = 0, turn: int = 0, **more: Any) -> Request:
    return Request((0, 0, member, 0), turn, [{"role": "user", "content": f"board {member}"}], **more)


def texts(generations: list[Generation]) -> list[str]:
    return [one.text for one in generations]


def test_a_script_goes_by_turns() -> None:
    policy = ScriptedPolicy(["a", "b"])
    assert texts(policy.generate([request(0, 0), request(1, 1), request(2, 2)])) == ["a", "b", "a"]
    assert texts(ScriptedPolicy(lambda one: f"{one.key[2]}").generate([request(4)])) == ["4"]
    wrongs: list[Any] = ["text", []]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match="script must be a list of texts"):
            ScriptedPolicy(wrong)


def test_functions_are_policies() -> None:
    assert texts(as_policy(lambda requests: ["x"] * len(requests)).generate([request(0), request(1)])) == ["x", "x"]
    policy = ScriptedPolicy(["a"])
    assert as_policy(policy) is policy
    with pytest.raises(ConfigurationError, match="a policy must be"):
        as_policy(3)
    with pytest.raises(PolicyError, match="asked for 1 turns, and gave 0"):
        as_policy(lambda _: []).generate([request()])


def test_one_turn_is_asked_for_once() -> None:
    with pytest.raises(ConfigurationError, match="two requests are for the same turn"):
        ScriptedPolicy(["a"]).generate([request(), request()])


def test_batches_are_no_larger_than_wished_and_forget() -> None:
    sizes: list[int] = []

    def count(requests: Any) -> list[str]:
        sizes.append(len(requests))
        return ["x"] * len(requests)

    policy = as_policy(count)
    policy.batch_size = 2  # type: ignore[attr-defined]
    policy.submit([request(member) for member in range(6)])
    policy.forget([request(1)])
    while policy.ready():
        pass
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize(
    ("env_type", "config", "most"),
    [
        ("sokoban", {"num_boxes": 1, "search_depth": 30}, 60),
        ("frozen_lake", {"is_slippery": True, "success_rate": 0.9}, 200),
        ("bandit", {}, 1),
        ("countdown", {}, 1),
    ],
)
@pytest.mark.parametrize("seed", [3, 4])
def test_the_solver_does_the_task(env_type: str, config: dict[str, Any], most: int, seed: int) -> None:
    make, order = maker_of(env_type, config, "env_config"), Begin(seed)
    world, play = HostedWorld(make), Play(make, order, [])
    world.step(order)
    read, info, ended = create_projection_function(env_type), {"success": None}, False
    with SolverPolicy() as policy:
        for turn in range(most):
            [answer] = policy.generate([request(turn=turn, play=play)])
            lookup = [world.ask(lambda core: getattr(core, "action_lookup", None))]
            [action], [is_valid] = read([answer.text], lookup)
            assert is_valid, answer
            _, _, ended, _, info = world.step([action])
            play.turns.append([action])
            if ended:
                break
    assert ended
    assert info["success"] is True or env_type in ("frozen_lake", "bandit")


def test_what_cannot_be_solved_is_said() -> None:
    class Plain:
        observation_space = action_space = AnyText()

        def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
            return "", {}

    with SolverPolicy() as policy, pytest.raises(ConfigurationError, match=r"Plain has no solve\(\)"):
        policy.generate([request(play=Play(Plain, Begin(0), []))])


def test_a_recording_says_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    said = [Generation("a", (1, 2), (-0.5, -0.25)), Generation("b", finish="length")]
    recording = RecordingPolicy(as_policy(lambda requests: [said[one.turn] for one in requests]), path)
    asked = [request(0, 0), request(1, 1)]
    assert recording.generate(asked) == said
    again = RecordedPolicy(path)
    assert again.generate(asked[::-1]) == said[::-1]
    with pytest.raises(PolicyError, match="turn 5 of trajectory 0/0/0/0 is not in the recording"):
        again.generate([request(0, 5)])
    other = Request((0, 0, 0, 0), 0, [{"role": "user", "content": "another board"}])
    with pytest.raises(PolicyError, match="begins with another prompt"):
        RecordedPolicy(path).generate([other])
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        RecordedPolicy(tmp_path / "nothing")


def test_seeds_are_of_trajectory_and_turn() -> None:
    seeds = {
        sampling_seed(1, (0, group, member, 0), turn) for group in range(9) for member in range(9) for turn in range(9)
    }
    assert len(seeds) == 9**3
    assert sampling_seed(1, (0, 2, 3, 0), 4) == sampling_seed(1, (0, 2, 3, 0), 4) < 2**31
