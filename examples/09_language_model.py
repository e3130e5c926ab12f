"""A model that says anything plays Sokoban in groups, and its trajectories are checked.

python examples/09_language_model.py                                       a function stands for a model
python examples/09_language_model.py http://localhost:8000/v1 NAME         a server that speaks OpenAI's protocol
"""

from __future__ import annotations

import sys

from shoal.llm import LLMAgentProxy, OpenAIPolicy, Request, verify

GROUPS, GROUP_SIZE = 4, 4
CREW = {"env_groups": GROUPS, "group_size": GROUP_SIZE, "env_configs": {"tags": ["Easy"], "n_groups": [GROUPS]}}
CONFIG = {
    "es_manager": {"train": CREW, "val": {**CREW, "group_size": 1}},
    "custom_envs": {"Easy": {"env_type": "sokoban", "env_config": {"num_boxes": 1, "search_depth": 10}}},
    "agent_proxy": {"max_turn": 15, "context_window_mode": "full"},
    "algorithm": {"filter_groups": {"enable": True, "max_num_gen_batches": 3}},
    "seed": {"train": 1, "val": 1},
}


def guess(requests: list[Request]) -> list[str]:
    """Any move, by the seed of the request: whoever repeats this rollout gets the same."""
    moves = ["up", "down", "left", "right"]
    return [f"<think>Why not?</think><action>{moves[one.seed % 4]}</action>" for one in requests]


if __name__ == "__main__":
    policy = OpenAIPolicy(*sys.argv[1:3]) if len(sys.argv) > 1 else guess
    with LLMAgentProxy(CONFIG, policy) as agent:
        data = agent.rollout()
    for first in range(0, GROUPS * GROUP_SIZE, GROUP_SIZE):
        group = data.records[first : first + GROUP_SIZE]
        print(f"task {group[0].seed}:", *(f"{one.episode_return:6.1f} {one.status.value:9}" for one in group))
    print(data.meta_info["metrics"]["Easy"])
    print("waste:", data.meta_info["waste"])
    print("played again, all are the same:", all(verify(one) for one in data.records))
