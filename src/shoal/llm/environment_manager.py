"""Environment managers: prompts for a language model from what worlds show, and actions from what it writes.

::

    worlds ── what they show ──▶ build_text_obs ──▶ prompts ──▶ a model ──▶ texts ── projection_f ──▶ actions ──▶ worlds
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shoal.llm.container import MultiProcessEnvironmentContainer
from shoal.llm.projection import Projection
from shoal.vector.errors import ConfigurationError, InvalidAction

MOST_KEPT = 50
"""Turns of each world that are remembered."""
LONGEST_OBSERVATION = 100
"""Characters of a past observation that a prompt shows."""
HISTORY_LENGTH = 2
PLACE_OF_IMAGE = "<image>"
SUCCESS_KEYS = ("success", "won", "task_success")

Observations = dict[str, Any]


class EnvironmentManagerBase:
    """Plays with all worlds of a container. A subclass says what a player is told about its kind of world.

    Args:
        envs: the container.
        projection_f: what makes actions of texts.
        env_name: what the worlds are called.
        history_length: how many past turns a prompt shows.
        format_penalty: what a text costs that is no action. Either sign; it is always subtracted.
    """

    instruction = ""
    """What a prompt begins with. ``{name}`` is replaced by that field of the world's config."""
    answer_form = (
        "Think first, between <think> and </think>. Then give one action between <action> and </action>, as in "
        "<action>{example}</action>."
    )

    def __init__(
        self,
        envs: MultiProcessEnvironmentContainer,
        projection_f: Projection,
        env_name: str,
        *,
        history_length: int = HISTORY_LENGTH,
        format_penalty: float = 0.1,
    ) -> None:
        if isinstance(history_length, bool) or not isinstance(history_length, int) or history_length < 0:
            raise ConfigurationError(f"history_length must be a whole number of at least 0, got {history_length!r}")
        self.envs, self.projection_f, self.env_name = envs, projection_f, env_name
        self.history_length, self.format_penalty = history_length, abs(format_penalty)
        self.buffers: list[deque[dict[str, Any]]] = [
            deque(maxlen=max(MOST_KEPT, history_length)) for _ in range(len(envs))
        ]
        """The last turns of each world: ``observation``, ``action`` and ``step``."""
        self._shown: list[Any] = []
        self._has_ended = [False] * len(envs)

    def reset(self, seeds: Sequence[int] | int | None = None) -> tuple[Observations, list[dict[str, Any]]]:
        """Begin an episode in every world; returns ``text``, ``image`` and ``anchor`` of all of them, and their infos."""
        shown, infos = self.envs.reset(seeds)
        for buffer in self.buffers:
            buffer.clear()
        self._shown, self._has_ended = shown, list(self.envs.dones)
        return self._observations(shown, init=True), infos

    def step(
        self, text_actions: Sequence[str]
    ) -> tuple[Observations, np.ndarray[Any, Any], np.ndarray[Any, Any], list[dict[str, Any]]]:
        """Let every world do what a text says; returns observations, rewards, dones and infos.

        A text that is no action leaves its world as it is, and costs ``format_penalty``. Infos say ``is_action_valid``.
        """
        if len(text_actions) != len(self.envs):
            raise InvalidAction(f"{len(text_actions)} texts were given for {len(self.envs)} worlds")
        actions, valids = self.project(text_actions)
        had_ended, names = self._has_ended, self.envs.get_available_actions()
        shown, rewards, dones, infos = self.envs.step(actions)
        for row, info in enumerate(infos):
            info["is_action_valid"] = bool(valids[row])
            if had_ended[row]:
                continue
            if not valids[row]:
                rewards[row] -= self.format_penalty
            buffer = self.buffers[row]
            number = buffer[-1]["step"] + 1 if buffer else 1
            said = text_actions[row] if actions[row] is None else (names[row] or {}).get(actions[row], actions[row])
            buffer.append({"observation": self._shown[row], "action": str(said), "step": number})
        self._shown, self._has_ended = shown, dones
        return self._observations(shown, init=False), np.array(rewards), np.array(dones), infos

    def project(self, text_actions: Sequence[str]) -> tuple[list[Any], list[bool]]:
        """The action of each text, and whether it was one."""
        return self.projection_f(text_actions, self.envs.get_available_actions())

    def build_text_obs(
        self, raw_obs: Sequence[Any], init: bool = False, history_length: int | None = None
    ) -> list[str]:
        """The prompt of each world. With ``init`` there is no history in it."""
        length = 0 if init else self.history_length if history_length is None else history_length
        actions = self.envs.get_available_actions()
        return [self.prompt(row, shown, actions[row], length) for row, shown in enumerate(raw_obs)]

    def prompt(self, row: int, shown: Any, actions: Mapping[Any, str] | None, history_length: int) -> str:
        """The prompt of one world."""
        parts = [self.describe(self.envs.configs[row]), self._history(row, history_length)]
        parts.append(f"Current Observation:\n{shown if isinstance(shown, str) else PLACE_OF_IMAGE}")
        if actions:
            parts.append(f"Available Actions: {', '.join(actions.values())}")
        example = next(iter(actions.values())).lower() if actions else self.example
        parts.append(f"What do you want to do? {self.answer_form.format(example=example)}")
        return "\n\n".join(filter(None, parts))

    example = "your action"
    """An action, where a world has no list of them."""

    def describe(self, config: Any) -> str:
        """What a player is told about a world with this config."""
        return self.instruction.format_map(_Fields(config))

    def _history(self, row: int, length: int) -> str:
        past = list(self.buffers[row])[-length:] if length else []
        lines = [
            f"Step {turn['step']}: Observation: {_short(turn['observation'])} Action: {_short(turn['action'])}"
            for turn in past
        ]
        return "\n".join(["Previous Actions:", *lines]) if lines else ""

    def _observations(self, shown: list[Any], *, init: bool) -> Observations:
        images = [one for one in shown if not isinstance(one, str)]
        return {
            "text": self.build_text_obs(shown, init=init),
            "image": _stacked(shown) if images else None,
            "anchor": list(shown),
        }

    def success_evaluator(
        self,
        *,
        total_infos: Sequence[Sequence[Mapping[str, Any]]],
        total_batch_list: Sequence[Sequence[Mapping[str, Any]]],
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Who has succeeded: what the info of each world's last active step says.

        Args:
            total_infos: for each world the infos of all steps.
            total_batch_list: for each world a dictionary for each step, with ``active_masks``.
        """
        return {"success_rate": np.array([_success(*pair) for pair in zip(total_infos, total_batch_list, strict=True)])}

    def close(self) -> None:
        """Close all worlds."""
        self.envs.close()

    def __enter__(self) -> EnvironmentManagerBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Fields(dict[str, Any]):
    """A config's fields by name."""

    def __init__(self, config: Any) -> None:
        super().__init__(config if isinstance(config, dict) else {})
        self._config = config

    def __missing__(self, name: str) -> Any:
        return getattr(self._config, name)


def _short(value: Any) -> str:
    text = (value if isinstance(value, str) else PLACE_OF_IMAGE).replace("\n", " ")
    return text if len(text) <= LONGEST_OBSERVATION else f"{text[:LONGEST_OBSERVATION]}..."


def _stacked(shown: list[Any]) -> Any:
    """Images of one shape as one array; others as a list."""
    shapes = {np.shape(one) for one in shown}
    return np.stack(shown) if len(shapes) == 1 else list(shown)


def _success(infos: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> float:
    for info, step in zip(reversed(infos), reversed(steps), strict=True):
        if step["active_masks"]:
            return next((float(info[key]) for key in SUCCESS_KEYS if key in info), 0.0)
    return 0.0
