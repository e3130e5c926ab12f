"""Whether waiting processes look around or sleep, found out by trying both.

Being woken takes longer than many short steps. So a process that waits can *look*: ask again and again, and stay on a
processor of its own. That is quickest as long as no other program wants the processors. Beside a busy process it is many
times slower: a process that has looked has used up its share of the processor, and when its work comes it has to wait for a
whole time slice, in every step. One that *sleeps* is let in at once.

Which of the two holds depends on the machine at this moment, and on what the caller does between steps. So both take turns
for a few rounds, and the quicker one is kept until the next such contest::

    sleep ─ contest ─ look ───────── contest ─ look ──── contest ─ sleep ───────── contest ─ ...
            S L S L S L       2 s    L S L S L S    ▲    L S L ...           2 s
                                                    └ rounds become much longer

A contest ends early when one of the two is clearly slower, so that trying costs little.
"""

from __future__ import annotations

import statistics

WARM_UP_ROUNDS = 16
BLOCK_ROUNDS = 12
NUM_BLOCKS = 6
SETTLING_ROUNDS = 1
"""At the beginning of a block: the other way of waiting is still in effect somewhere."""
FEW_ROUNDS = 3
"""After which it may be clear that one way is slower."""
PAUSE_SECONDS = 2.0
"""Between two contests."""
MUCH_LONGER = 2.0
"""Times the usual round: then other programs have come, perhaps."""
TYPICAL_SHARE = 0.9
"""Of all rounds. The longest of them say more about what the caller did in between."""
WORTH_LOOKING = 0.98
"""Of the time that a round takes with sleeping: only a gain is worth keeping processors busy."""


class WaitMode:
    """Whether to look, decided from how long rounds take: a step of all environments, with what the caller does in between."""

    def __init__(self, num_envs: int) -> None:
        self.looks = False
        self._num_envs = num_envs
        self._num_answered = 0
        self._round_began = 0.0
        self._num_rounds = 0
        self._usual = 0.0
        """How long a round took in the last contest, in the way that was kept."""
        self._num_long = 0
        """How many rounds in a row were much longer than that."""
        self._next_contest = 0.0
        self._contest: dict[bool, list[float]] | None = None
        """How long rounds took with looking and without, while both take turns."""
        self._num_blocks = self._num_in_block = 0

    def note(self, num_answered: int, now: float) -> bool:
        """So many environments have answered just now; returns whether ``looks`` has changed."""
        self._num_answered += num_answered
        if self._num_answered < self._num_envs:
            return False
        seconds = now - self._round_began
        self._round_began, self._num_answered = now, 0
        if self._contest is not None:
            return self._note_in_contest(self._contest, seconds, now)
        self._num_rounds += 1
        self._num_long = self._num_long + 1 if self._usual and seconds > MUCH_LONGER * self._usual else 0
        is_due = now >= self._next_contest and self._num_rounds >= WARM_UP_ROUNDS
        if is_due or (self.looks and self._num_long >= FEW_ROUNDS):
            self._contest = {True: [], False: []}
            self._num_blocks = self._num_in_block = 0
        return False

    def _note_in_contest(self, contest: dict[bool, list[float]], seconds: float, now: float) -> bool:
        self._num_in_block += 1
        if self._num_in_block <= 0:
            return False
        mine, theirs = contest[self.looks], contest[not self.looks]
        mine.append(seconds)
        if theirs and _is_clearly_slower(mine[-self._num_in_block :], theirs):
            return self._conclude(contest, not self.looks, now)
        if self._num_in_block < BLOCK_ROUNDS:
            return False
        self._num_blocks += 1
        if self._num_blocks < NUM_BLOCKS:
            self.looks, self._num_in_block = not self.looks, -SETTLING_ROUNDS
            return True
        return self._conclude(contest, _typical(contest[True]) < WORTH_LOOKING * _typical(contest[False]), now)

    def _conclude(self, contest: dict[bool, list[float]], looks: bool, now: float) -> bool:
        has_changed, self.looks = looks is not self.looks, looks
        self._usual, self._num_long = statistics.median(contest[looks]), 0
        self._contest, self._next_contest = None, now + PAUSE_SECONDS
        return has_changed


def _is_clearly_slower(rounds: list[float], others: list[float]) -> bool:
    """The fewer rounds there are, the larger the difference has to be."""
    if len(rounds) < FEW_ROUNDS:
        return False
    return statistics.median(rounds) > (1 + FEW_ROUNDS / len(rounds)) * statistics.median(others)


def _typical(rounds: list[float]) -> float:
    """Their mean, without the longest ones."""
    return statistics.fmean(sorted(rounds)[: max(1, round(TYPICAL_SHARE * len(rounds)))])
