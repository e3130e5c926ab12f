"""One trajectory while it is played: what is asked next, what is done with the answer, and when it ends.

::

    begin ─▶ see ─▶ ask ─▶ hear ─┬─▶ the world acts ─▶ see ─▶ ask ─▶ …
                          ▲      └─▶ nothing to do ─┐
                          └─────────────────────────┘
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from shoal.llm.context import Conversation
from shoal.llm.hosted import Begin
from shoal.llm.ledger import Ledger, Tokens
from shoal.llm.policies.requests import Generation, Play, Request, sampling_seed
from shoal.llm.records import TrajectoryRecord, TurnRecord, plain_json
from shoal.llm.rollout_settings import RolloutSettings
from shoal.llm.stage import Stage, as_state
from shoal.llm.status import Status
from shoal.llm.worlds import Shown

logger = logging.getLogger("shoal.llm.rollout")

STATUS_OF = {"overflow": Status.CONTEXT_OVERFLOW, "timeout": Status.TIMEOUT, "error": Status.POLICY_ERROR}


class Player:
    """Plays one trajectory. It waits for nothing: others tell it what has happened."""

    def __init__(
        self,
        stage: Stage,
        settings: RolloutSettings,
        tokens: Tokens | None,
        row: int,
        seed: int,
        round_: int,
        attempt: int,
    ) -> None:
        tag = stage.tags[row]
        self.row, self._stage, self._settings = row, stage, settings
        self.order: Begin = stage.order_of(row, seed)
        self.record = TrajectoryRecord(
            tag.env_type, tag.name, _own_config(tag.config), seed, self.order.options, self.order.mode,
            row // stage.group_size, row % stage.group_size, round_, attempt,
        )  # fmt: skip
        self.key = (seed, *self.record.key)
        self.has_ended = False
        self._play = Play(tag.maker, self.order, [])
        self._max_actions = settings.max_actions.get(tag.name)
        self._num_actions = 0
        self._ledger = None if tokens is None else Ledger(tokens)
        self._conversation = Conversation(settings.window, None if tokens is None else tokens.count)
        self._shown: Any = ""
        self._lookup: Mapping[Any, str] | None = None
        self._last_messages: list[dict[str, str]] = []
        self._request: Request | None = None
        self._prompt: Any = None
        stage.manager.buffers[row].clear()

    # -- what happens ----------------------------------------------------------------------------------------------------

    def see(self, shown: Shown) -> None:
        """The world has begun, or has carried out a turn."""
        record, turn = self.record, self.record.turns[-1] if self.record.turns else None
        if not isinstance(shown.lookup, str):
            self._lookup = shown.lookup
        if turn is not None:
            turn.reward, turn.info, turn.actions = shown.reward, plain_json(shown.info), turn.actions[: shown.executed]
            turn.status = shown.status if shown.status.is_failure else turn.status
            self._num_actions += shown.executed
            self._play.turns.append(turn.actions)
        if shown.status.is_failure:
            self._log()
            self._end(shown.status, shown.error)
            return
        self._shown = shown.state
        record.terminated, record.truncated = shown.terminated, shown.truncated
        self._log()
        if shown.has_ended:
            record.success = bool(shown.info.get("success", False)) and shown.terminated
            self._end(shown.status)
        else:
            self._end_at_limit()

    def ask(self) -> Request | None:
        """The next turn; ``None`` if the conversation has become too long, which ends the trajectory."""
        turn, settings = len(self.record.turns), self._settings
        whole = self._stage.prompt(self.row, self._shown, self._lookup, with_history=settings.window.kind == "single")
        if settings.separator is not None:
            most, separator = settings.max_actions_per_turn, settings.separator
            whole += f" You may give up to {most} actions at once, with {separator} between them."
        self._conversation.tell(whole, self._short(whole))
        messages = self._conversation.messages()
        ids = None
        if self._ledger is not None:
            self._prompt = self._ledger.read(messages)
            ids = self._prompt.ids
            if settings.max_prompt_length is not None and len(ids) > settings.max_prompt_length:
                self._end(
                    Status.CONTEXT_OVERFLOW,
                    f"turn {turn} begins with {len(ids)} tokens, and data.max_prompt_length is {settings.max_prompt_length}",
                )
                return None
        seed = sampling_seed(settings.seed, self.key, turn)
        self._request = Request(self.key, turn, messages, seed, ids, settings.max_response_length, self._play)
        return self._request

    def hear(self, generation: Generation) -> list[Any]:
        """The player has answered; returns what the world is to do, which may be nothing."""
        assert self._request is not None
        if generation.has_failed:
            self._end(STATUS_OF[generation.finish], generation.error)
            return []
        text, settings = generation.text, self._settings
        actions, is_valid, reason = self._stage.read(self.row, text, self._lookup, settings.separator)
        actions = actions[: settings.max_actions_per_turn]
        if self._max_actions is not None:
            actions = actions[: self._max_actions - self._num_actions]
        turn = self._turn_of(self._request, generation)
        turn.actions, turn.is_valid, turn.reason = actions, is_valid, reason
        if not is_valid:
            turn.penalty, turn.status = settings.format_penalty, Status.PARSE_ERROR
        self.record.turns.append(turn)
        self._conversation.note(text)
        names = [str((self._lookup or {}).get(action, action)) for action in actions]
        done = {
            "observation": self._shown,
            "action": settings.action_sep.join(names) or text,
            "step": len(self.record.turns),
        }
        self._stage.manager.buffers[self.row].append(done)
        if not actions:
            self._play.turns.append([])
            self._log()
            self._end_at_limit()
        return actions

    # -- how it is written down ------------------------------------------------------------------------------------------

    def _turn_of(self, request: Request, generation: Generation) -> TurnRecord:
        messages, before = [dict(one) for one in request.messages], self._last_messages
        goes_on = bool(before) and messages[: len(before)] == before
        turn = TurnRecord(as_state(self._shown), messages[len(before) :] if goes_on else messages, generation.text)
        self._last_messages = [*messages, {"role": "assistant", "content": generation.text}]
        if self._ledger is None:
            turn.continues = goes_on
            return turn
        length = self._ledger.length
        prompt, ids = self._ledger.said(
            messages, self._prompt, generation.text, generation.token_ids, generation.prompt_ids
        )
        turn.continues = prompt.continues
        if not turn.continues:
            turn.messages = messages
        turn.prompt_ids = list(prompt.ids[length:] if prompt.continues else prompt.ids)
        turn.completion_ids = list(ids)
        has_all = generation.logprobs is not None and len(generation.logprobs) == len(ids)
        turn.logprobs = list(generation.logprobs) if has_all and generation.logprobs is not None else None
        return turn

    def _short(self, whole: str) -> str:
        """A prompt that goes on: what the last turn was worth, and what the world shows."""
        if not self.record.turns:
            return whole
        last = self.record.turns[-1]
        lines = [f"Reward: {round(last.reward - last.penalty, 6):g}"]
        if not last.is_valid:
            lines.append(f"Not all of your answer was an action: {last.reason}.")
        shown = self._shown if isinstance(self._shown, str) else "<image>"
        return "\n\n".join(["\n".join(lines), f"Current Observation:\n{shown}", "What do you want to do?"])

    def _end_at_limit(self) -> None:
        is_at_end = self._max_actions is not None and self._num_actions >= self._max_actions
        if is_at_end or len(self.record.turns) >= self._settings.max_turns:
            self._end(Status.TRUNCATED)

    def _end(self, status: Status, error: str = "") -> None:
        self.has_ended, record = True, self.record
        record.status, record.error, record.final_state = status, error, as_state(self._shown)
        if self._ledger is not None:
            record.drift = dataclasses.asdict(self._ledger.drift)
        if error:
            logger.debug("environment %d, group %d: %s: %s", self.row, record.group, status.value, error)

    def _log(self) -> None:
        if self.record.turns and logger.isEnabledFor(logging.DEBUG):
            turn = self.record.turns[-1]
            logger.debug(
                "environment %d, group %d, turn %d: raw=%r action=%r reward=%g status=%s",
                *(self.row, self.record.group, len(self.record.turns) - 1, turn.completion, turn.actions),
                *(turn.reward - turn.penalty, turn.status.value),
            )


def _own_config(config: Any) -> dict[str, Any]:
    """What is not as it is by default: enough to make the world again."""
    if isinstance(config, Mapping):
        own: dict[str, Any] = plain_json(config)
        return own
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return {}
    found = {}
    for one in dataclasses.fields(config):
        value = getattr(config, one.name)
        usual = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        if value != usual:
            found[one.name] = plain_json(value)
    return found
