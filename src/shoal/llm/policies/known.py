"""Policies that need no model: texts that are written down, and worlds that solve themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.llm.hosted import ERROR, HostedWorld
from shoal.llm.policies.policy import BatchPolicy
from shoal.llm.policies.requests import Generation, Key, Request
from shoal.vector.arguments import check_count
from shoal.vector.errors import ConfigurationError

Script = Sequence[str] | Callable[[Request], str]


class ScriptedPolicy(BatchPolicy):
    """Says what stands in a list, turn by turn and over again, or what a function makes of a request."""

    name = "scripted"

    def __init__(self, script: Script, batch_size: int | None = None) -> None:
        super().__init__(batch_size)
        if not callable(script) and (isinstance(script, str) or not script):
            raise ConfigurationError(f"script must be a list of texts, or a function of a request, got {script!r}")
        self._script = script

    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """What is written down for this turn."""
        script = self._script
        if callable(script):
            return [Generation(script(request)) for request in requests]
        return [Generation(script[request.turn % len(script)]) for request in requests]


class SolverPolicy(BatchPolicy):
    """Asks each world's own ``solve()``. What it writes is what a good player would.

    It plays a copy of the world along, here, so the world itself may be anywhere.

    Args:
        actions_per_turn: how many actions an answer has, at most.
        separator: what stands between them.
    """

    name = "solver"

    def __init__(self, actions_per_turn: int = 1, separator: str = " || ") -> None:
        super().__init__()
        check_count("actions_per_turn", actions_per_turn)
        self._actions_per_turn, self._separator = actions_per_turn, separator
        self._copies: dict[Key, tuple[HostedWorld, int]] = {}
        """The copy of each trajectory's world, and how many turns it has taken."""

    def answer(self, requests: Sequence[Request]) -> list[Generation]:
        """The next actions of a solution from where the world is."""
        return [Generation(self._text(request)) for request in requests]

    def _text(self, request: Request) -> str:
        solution = self._copy_of(request).ask(_solution)
        if not solution:
            return "<think>This cannot be solved any more.</think><answer></answer>"
        return f"<think></think><answer>{self._separator.join(solution[: self._actions_per_turn])}</answer>"

    def _copy_of(self, request: Request) -> HostedWorld:
        make, order, turns = request.play
        copy, taken = self._copies.get(request.key, (None, 0))
        if copy is None:
            copy = HostedWorld(make)
            _, _, _, _, info = copy.step(order)
            if ERROR in info:
                raise ConfigurationError(f"the solver's copy of a world could not begin: {info[ERROR]}")
        for actions in turns[taken:]:
            if actions:
                copy.step(actions)
        self._copies[request.key] = copy, len(turns)
        return copy

    def end(self, key: Key) -> None:
        """Close the copy of its world."""
        copy, _ = self._copies.pop(key, (None, 0))
        if copy is not None:
            copy.close()

    def close(self) -> None:
        """Close all copies."""
        for key in list(self._copies):
            self.end(key)


def _solution(world: Any) -> list[str] | None:
    """Actions by name that do the task from here on."""
    core = getattr(world, "unwrapped", world)
    solve = getattr(core, "solve", None)
    if solve is None:
        raise ConfigurationError(
            f"{type(core).__name__} has no solve(), which SolverPolicy asks: choose another policy"
        )
    actions = solve()
    if actions is None:
        return None
    lookup = getattr(core, "action_lookup", None) or getattr(getattr(core, "config", None), "action_lookup", None)
    names: Mapping[Any, str] = lookup or {}
    return [str(names.get(action, action)) for action in actions]
