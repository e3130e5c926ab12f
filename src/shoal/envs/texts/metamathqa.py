"""MetaMathQA: a question in words, and an answer, as often as it takes. ``shoal/MetaMathQA-v0``.

The first answer, if it is right, is worth 1, the second one half, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.envs.texts.math_answers import same_number, same_text
from shoal.envs.texts.math_judge import MathJudge
from shoal.envs.texts.math_rows import Row, answer_in, rows_from
from shoal.envs.texts.text_env import TextEnv
from shoal.envs.texts.word_problems import made_problem
from shoal.vector.arguments import check_count, time_limit
from shoal.vector.errors import ConfigurationError

WAYS = ("text", "number", "math")
LONGEST_ANSWER = 10_000
RIGHT, WRONG = "Correct!", "Incorrect. Please think again."

_TAG = re.compile(r"</?(?:answer|action|think)>")


@dataclass(frozen=True)
class MetaMathQAConfig:
    """Where questions come from, and how answers are compared."""

    dataset_path: str | None = None
    """A file (Parquet or JSON lines) with the columns ``query`` and ``response``, or a dataset of the Hugging Face hub such as
    ``"meta-math/MetaMathQA"``; ``None`` for problems that are made from the task's seed."""
    cache_dir: str = "./data"
    """Where what comes from the hub is kept."""
    split: str = "train"
    """Of the hub's dataset, or of the problems that are made. A file has none: all of its rows are taken."""
    max_instances: int = 400_000
    """So many rows are looked at."""
    compare: Sequence[str] = ("text", "number")
    """An answer is right if one of these says so: ``"text"``, ``"number"`` or ``"math"`` (``math-verify``)."""
    math_seconds: float = 5.0
    """For one comparison by ``math-verify``."""
    render_mode: str = "text"
    """What ``render()`` returns."""

    def __post_init__(self) -> None:
        check_count("max_instances", self.max_instances)
        time_limit("math_seconds", self.math_seconds)
        ways = (self.compare,) if isinstance(self.compare, str) else tuple(self.compare)
        if not ways or any(way not in WAYS for way in ways):
            known = ", ".join(map(repr, WAYS))
            raise ConfigurationError(f"compare must be one or more of {known}, got {self.compare!r}")
        object.__setattr__(self, "compare", ways)
        if not isinstance(self.split, str) or not self.split:
            raise ConfigurationError(f"split must be a name such as 'train', got {self.split!r}")


class MetaMathQAEnv(TextEnv):
    """Answer a question."""

    config_class = MetaMathQAConfig
    config: MetaMathQAConfig
    _MADE_WITH: ClassVar[frozenset[str]] = TextEnv._MADE_WITH | {"_judge"}

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        super().__init__(config, render_mode=render_mode, **settings)
        self._rows()  # a file that cannot be read is known before anything begins
        self._judge = MathJudge.shared() if "math" in self.config.compare else None

    def _rows(self) -> tuple[Row, ...]:
        config = self.config
        if config.dataset_path is None:
            return ()
        return rows_from(config.dataset_path, config.split, config.cache_dir, config.max_instances)

    def begin(self, task_seed: int) -> None:
        """Make a problem, or take one of the rows."""
        rows = self._rows()
        if rows:
            self.row = rows[task_seed % len(rows)]
        else:
            problem = made_problem(task_seed, self.config.split)
            self.row = Row(problem.query, answer_in(problem.response))
        self.num_tries = 0
        self._is_right = False
        self._unjudged = ""

    def action_of(self, action: Any) -> Any:
        """The answer, if it is one: a text without tags, and not too long."""
        if not isinstance(action, str) or len(action) > LONGEST_ANSWER or _TAG.search(action):
            return None
        return action.strip() or None

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Judge an answer."""
        if self._is_right:
            return 0.0, True, False
        self._is_right = self._agrees(action)
        self.num_tries += 1
        return 0.5 ** (self.num_tries - 1) if self._is_right else 0.0, self._is_right, True

    def _agrees(self, answer: str) -> bool:
        gold, ways = self.row.answer, self.config.compare
        self._unjudged = ""
        if ("text" in ways and same_text(answer, gold)) or ("number" in ways and same_number(answer, gold)):
            return True
        if "math" not in ways:
            return False
        self._judge = self._judge or MathJudge.shared()
        verdict = self._judge.same(answer, gold, self.config.math_seconds)
        self._unjudged = verdict if isinstance(verdict, str) else ""
        return verdict is True

    def _info(self, *, is_valid: bool, is_effective: bool) -> dict[str, Any]:
        info = super()._info(is_valid=is_valid, is_effective=is_effective)
        # An answer that could not be compared is not worth anything, but that is not to look like a wrong one.
        return {**info, "unjudged": self._unjudged} if is_valid and self._unjudged else info

    def text(self) -> str:
        """The question; afterwards, whether the last answer was right, too."""
        if not self.num_tries:
            return self.row.query
        return f"{self.row.query}\n\n{RIGHT if self._is_right else WRONG}"

    @property
    def success(self) -> bool:
        """Whether the right answer was given."""
        return self._is_right

    def solve(self) -> list[Any] | None:
        """The right answer."""
        return [] if self._is_right else [self.row.answer]

    def close(self) -> None:
        """Let the process go that compares formulas, if nobody else needs it."""
        self._judge = None
