"""WebShop as an environment. ``shoal/WebShop-v0``."""

from __future__ import annotations

import re
import time
from typing import Any

from shoal.envs.texts.text_env import TextEnv
from shoal.envs.webshop import pages
from shoal.envs.webshop.catalogue import catalogue_of
from shoal.envs.webshop.config import SPLITS, WebShopConfig
from shoal.envs.webshop.index import LONGEST_QUERY
from shoal.envs.webshop.pages import ABOUT, BACK_TO_SEARCH, BUY, DONE, ITEM, NEXT, PREVIOUS, RESULTS, SEARCH
from shoal.envs.webshop.records import Goal, Product
from shoal.envs.webshop.reward import Score, matches, score_of
from shoal.vector.arguments import check_choice

_ACTION = re.compile(r"(search|click)\[(.*)\]", re.IGNORECASE | re.DOTALL)
LONGEST_ACTION = LONGEST_QUERY + len("search[]")


class WebShopEnv(TextEnv):
    """Buy what the instruction asks for.

    Actions are ``search[words]``, on the first page, and ``click[something]`` for what can be clicked on the page, in any
    case; and, for short, ``buy now`` and ``back``.
    """

    config_class = WebShopConfig
    config: WebShopConfig
    _MADE_WITH = TextEnv._MADE_WITH | {"catalogue"}

    def __init__(self, config: Any = None, *, render_mode: str | None = None, **settings: Any) -> None:
        super().__init__(config, render_mode=render_mode, **settings)
        self.catalogue = catalogue_of(self.config)
        """What is sold, shared with all environments of this process whose config has the same."""
        self._split = self.config.split or SPLITS[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, mode: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: as in every text world.
            options: ``split``, besides those of every text world: from which goals the task is.
            mode: the same, as RAGEN calls it. Where the config names a split, it is that one.
        """
        split = (options or {}).get("split") or self.config.split or mode or SPLITS[0]
        check_choice("split", split, SPLITS)
        self._split = split
        text, info = super().reset(seed=seed, options=options)
        return text, {**info, "available_actions": self.available_actions}

    def begin(self, task_seed: int) -> None:
        """Give the customer a goal, and show the first page."""
        self._goal_number = self.catalogue.goal_of(task_seed, self._split)
        self._num_steps = 0
        self._score: Score | None = None
        self._turn_to(pages.Visit())

    @property
    def goal(self) -> Goal:
        """What is to be bought."""
        return self.catalogue.goal(self._goal_number)

    @property
    def score(self) -> Score | None:
        """How the purchase was judged; ``None`` before it."""
        return self._score

    @property
    def available_actions(self) -> list[str]:
        """All actions that there are on this page; ``search[<words>]`` stands for every search."""
        searches = ["search[<words>]"] if self._visit.page == SEARCH else []
        return [*searches, *(f"click[{one}]" for one in self._page.clickables)]

    # -- acting ----------------------------------------------------------------------------------------------------------

    def action_of(self, action: Any) -> tuple[str, str] | None:
        """``("search", words)`` or ``("click", what)``; ``None`` for what cannot be done on this page."""
        if not isinstance(action, str) or len(action) > LONGEST_ACTION:
            return None
        said = action.strip().lower()
        clickables = self._page.clickables
        if said == "back":
            said = f"click[{PREVIOUS if PREVIOUS in clickables else BACK_TO_SEARCH}]"
        elif said == BUY:
            said = f"click[{BUY}]"
        found = _ACTION.fullmatch(said)
        if found is None:
            return None
        name, what = found[1], found[2].strip()
        is_possible = bool(what) and self._visit.page == SEARCH if name == "search" else what in clickables
        return (name, what) if is_possible else None

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Search or click. After ``max_steps`` actions the episode is truncated."""
        text, reward, terminated, _, info = super().step(action)
        truncated = not terminated and self._num_steps >= self.config.max_steps
        return text, reward, terminated, truncated, info

    def act(self, action: Any) -> tuple[float, bool, bool]:
        """Go to the next page."""
        if self.config.latency:
            time.sleep(self.config.latency)
        self._num_steps += 1
        name, what = action
        before = self._page
        if name == "search":
            self._turn_to(pages.Visit(RESULTS, self.catalogue.search(what)))
        elif what == BUY:
            self._buy()
        else:
            self._click(what)
        reward = 0.0 if self._score is None else self._score.total
        return reward, self._score is not None, self._page != before

    def _click(self, what: str) -> None:
        visit = self._visit
        if what == BACK_TO_SEARCH:
            visit = pages.Visit()
        elif what in (NEXT, PREVIOUS) and visit.page == RESULTS:
            visit.number += 1 if what == NEXT else -1
        elif what == PREVIOUS:
            visit.page = RESULTS if visit.page == ITEM else ITEM
        elif what in ABOUT:
            visit.page = what
        elif visit.page == RESULTS:
            visit.item = next(one for one in visit.shown if self.catalogue.product(one).asin.lower() == what)
            visit.page, visit.chosen = ITEM, {}
        else:
            options = self.catalogue.product(visit.item).options
            visit.chosen |= {name: what for name, values in options.items() if what in values}
        self._turn_to(visit)

    def _buy(self) -> None:
        visit, goal = self._visit, self.goal
        bought, wanted = self.catalogue.product(visit.item), self.catalogue.product(goal.product)
        self._score = score_of(bought, list(visit.chosen.values()), goal, wanted)
        visit.page = DONE
        self._turn_to(visit)

    # -- being seen ------------------------------------------------------------------------------------------------------

    def _turn_to(self, visit: pages.Visit) -> None:
        self._visit = visit
        self._page = self._shown()

    def _shown(self) -> pages.Page:
        visit, instruction = self._visit, self.goal.instruction
        if visit.page == SEARCH:
            return pages.search_page(instruction)
        if visit.page == RESULTS:
            return pages.results_page(instruction, visit, [self.catalogue.product(one) for one in visit.shown])
        product = self.catalogue.product(visit.item)
        if visit.page == ITEM:
            return pages.item_page(instruction, product, visit.chosen)
        if visit.page == DONE:
            return pages.done_page(product, visit.chosen, self._score.total if self._score else 0.0)
        return pages.about_page(instruction, product, visit.page)

    def text(self) -> str:
        """The page, and what can be done on it."""
        actions = self.available_actions
        return f"{self._page.text}\nAvailable actions: {', '.join(actions)}" if actions else self._page.text

    @property
    def success(self) -> bool:
        """Whether something was bought that is right in everything."""
        return self._score is not None and self._score.total >= 1.0

    def _info(self, *, is_valid: bool, is_effective: bool) -> dict[str, Any]:
        visit, has_bought = self._visit, self._score is not None
        return {
            **super()._info(is_valid=is_valid, is_effective=is_effective),
            "success_purchase": has_bought,
            "success_find": has_bought and visit.item == self.goal.product,
            "end_of_page": visit.page == RESULTS and visit.is_last_page,
            "available_actions": self.available_actions,
        }

    # -- shopping --------------------------------------------------------------------------------------------------------

    def solve(self) -> list[Any] | None:
        """The clicks that buy the goal's product, from here on; ``None`` if it cannot be had, or not in time."""
        if self._score is not None:
            return [] if self.success else None
        goal, visit = self.goal, self._visit
        wanted = self.catalogue.product(goal.product)
        choices = _choices(goal, wanted)
        if choices is None:
            return None
        if visit.page in (ITEM, *ABOUT) and visit.item == goal.product:
            plan = [] if visit.page == ITEM else [f"click[{PREVIOUS}]"]
            choices = [one for one in choices if one not in visit.chosen.values()]
        else:
            way = self._way_to(goal.product, wanted)
            if way is None:
                return None
            plan = way
        plan = [*plan, *(f"click[{value}]" for value in choices), f"click[{BUY}]"]
        return plan if self._num_steps + len(plan) <= self.config.max_steps else None

    def _way_to(self, number: int, product: Product) -> list[str] | None:
        """From here to the page of a product."""
        visit = self._visit
        if visit.page == RESULTS and number in visit.shown:
            return [f"click[{product.asin.lower()}]"]
        results = self.catalogue.search(product.title)
        if number not in results:
            return None
        start = [] if visit.page == SEARCH else [f"click[{BACK_TO_SEARCH}]"]
        turns = [f"click[{NEXT}]"] * (results.index(number) // pages.PER_PAGE)
        return [*start, f"search[{product.title}]", *turns, f"click[{product.asin.lower()}]"]


def _choices(goal: Goal, product: Product) -> list[str] | None:
    """The values that are to be chosen; ``None`` if the product is not what the goal asks for, whatever is chosen."""
    chosen: dict[str, str] = {}
    for wanted in goal.options:
        place = next(
            ((name, one) for name, values in product.options.items() for one in values
             if name not in chosen and matches(wanted, [one])), None,
        )  # fmt: skip
        if place is not None:
            chosen[place[0]] = place[1]
    values = list(chosen.values())
    return values if score_of(product, values, goal, product).total >= 1.0 else None
