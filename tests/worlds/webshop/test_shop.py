"""The shop, page by page: what is seen, what can be done, and what an episode comes to."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import ConfigurationError
from shoal.envs.webshop import WebShopConfig, WebShopEnv

SMALL = WebShopConfig(num_products=300)


def begun(seed: int = 1, **settings: Any) -> WebShopEnv:
    env = WebShopEnv(SMALL, **settings)
    env.reset(seed=seed)
    return env


def page(env: WebShopEnv) -> list[str]:
    """What stands on it."""
    return env.text().split("\n")[0].split(" [SEP] ")


def test_an_episode_as_it_is_seen() -> None:
    env = WebShopEnv(SMALL)
    text, info = env.reset(seed=4)
    goal, product = env.goal, env.catalogue.product(env.goal.product)
    assert page(env) == ["WebShop", "Instruction:", goal.instruction, "Search"]
    assert info == {"available_actions": ["search[<words>]"]}
    assert text.endswith("\nAvailable actions: search[<words>]")

    text, reward, terminated, truncated, info = env.step("search[easy to clean]")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert page(env)[:3] == ["Instruction:", goal.instruction, "Back to Search"]
    assert page(env)[3].startswith("Page 1 (Total results: ")
    assert len(page(env)) == 5 + 3 * 10
    assert info["available_actions"][:2] == ["click[back to search]", "click[next >]"]
    assert len(info["available_actions"]) == 12

    env.step("click[back to search]")
    env.step(f"Search[{product.title.upper()}]")
    place = page(env).index(product.asin)
    assert page(env)[place : place + 3] == [product.asin, product.title, product.price_tag]
    *_, info = env.step(f"click[{product.asin}]")
    assert f"Price: {product.price_tag}" in page(env)
    assert page(env)[-4:] == ["Description", "Features", "Reviews", "Buy Now"]

    env.step("click[Features]")
    assert page(env)[4:] == product.bullets
    assert env.available_actions == ["click[back to search]", "click[< prev]"]
    env.step("click[< prev]")
    for value in goal.options:
        env.step(f"click[{value}]")
        assert f"{value} (selected)" in page(env)
    text, reward, terminated, _, info = env.step("click[buy now]")
    assert (reward, terminated, info["success"], info["success_purchase"], info["success_find"]) == (1.0, *[True] * 4)
    assert page(env)[:4] == ["Thank you for shopping with us!", "Purchased", product.asin, product.title]
    assert page(env)[-2:] == ["Your score (min 0.0, max 1.0)", "1"]
    assert info["available_actions"] == []
    assert "Available" not in text
    assert env.step("click[buy now]")[1:3] == (0.0, False), "everything is over"


def test_pages_of_results_are_turned() -> None:
    env = begun()
    *_, info = env.step("search[easy to clean]")
    first = page(env)
    assert first[3] == "Page 1 (Total results: 50)"
    assert not info["end_of_page"]
    for number in range(2, 6):
        assert not info["end_of_page"]
        *_, info = env.step("click[next >]")
        assert page(env)[3:5] == [f"Page {number} (Total results: 50)", "< Prev"]
    assert info["end_of_page"]
    assert "click[next >]" not in info["available_actions"]
    assert not env.step("click[next >]")[4]["action_is_valid"]
    for _ in range(4):
        env.step("back")
    assert env.step("click[< prev]")[2:] is not None
    env = begun()
    *_, info = env.step("search[xyzzy]")
    assert page(env)[3:] == ["Page 1 (Total results: 0)"]
    assert info["end_of_page"]


def test_one_comes_back_to_where_one_was() -> None:
    env = begun(max_steps=50)
    env.step("search[easy to clean]")
    env.step("click[next >]")
    results = env.text()
    env.step(env.available_actions[-1])
    item = env.text()
    for name in ("description", "features", "reviews"):
        env.step(f"click[{name}]")
        env.step("back")
        assert env.text() == item
    env.step("back")
    assert env.text() == results
    env.step("click[back to search]")
    assert env.available_actions == ["search[<words>]"]


def test_choices_are_kept_while_one_reads_and_forgotten_when_one_leaves() -> None:
    env = begun(4)
    solution = env.solve() or []
    for action in solution[:-1]:
        env.step(action)
    chosen = env.text()
    assert "(selected)" in chosen
    env.step("click[reviews]")
    env.step("back")
    assert env.text() == chosen
    env.step("back")
    env.step(solution[1])
    assert "(selected)" not in env.text()


@pytest.mark.parametrize(
    "action",
    [
        None, 1, b"click[buy now]", object(), "", "search", "search[]", "search[ ]", "search[shoes", "search shoes]",
        "click[buy now]", "buy now", "back", "click[back to search]", "click[B000000000]", "click[search]", "go[home]",
        "click[<words>]", "search[a] click[b] or so", "x" * 10**6, "search[" + "x" * 10**6 + "]", "search[\ud800" * 10**5,
        "<action>search[shoes]</action>",
    ],
    ids=lambda value: str(value)[:20].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_what_cannot_be_done_leaves_everything_as_it_is(action: Any) -> None:
    env = begun()
    before, state = env.text(), env.get_state()
    started = time.process_time()
    for _ in range(20):
        text, reward, terminated, truncated, info = env.step(action)
        assert (text, reward, terminated, truncated) == (before, 0.0, False, False)
        assert not info["action_is_valid"]
        assert not info["action_is_effective"]
    assert time.process_time() - started < 5.0
    assert env.get_state().keys() == state.keys()
    assert env.solve()


def test_searching_is_for_the_first_page_and_buying_for_products() -> None:
    env = begun()
    env.step("search[shoes]")
    before = env.text()
    for action in ("search[boots]", "buy now", "click[description]", "click[< prev]"):
        assert not env.step(action)[4]["action_is_valid"]
    assert env.text() == before
    env.step(env.available_actions[-1])
    *_, info = env.step("Buy Now")
    assert info["success_purchase"]
    assert not info["success_find"]
    assert not info["success"]


def test_an_action_that_changes_nothing_is_valid_but_not_effective() -> None:
    env = begun(4)
    for action in (env.solve() or [])[:3]:
        *_, info = env.step(action)
        assert info["action_is_effective"]
    *_, info = env.step(action)
    assert (info["action_is_valid"], info["action_is_effective"]) == (True, False)


def test_an_episode_is_cut_after_its_actions() -> None:
    env = begun(max_steps=3)
    assert env.step("search[shoes]")[3] is False
    assert env.step(None)[3] is False
    assert env.step("back")[3] is False
    _, _, terminated, truncated, info = env.step("search[shoes]")
    assert (terminated, truncated, info["success"]) == (False, True, False)
    env = begun(4)
    solution = env.solve() or []
    env = begun(4, max_steps=len(solution))
    for action in solution:
        _, _, terminated, truncated, _ = env.step(action)
    assert (terminated, truncated) == (True, False)
    assert begun(4, max_steps=len(solution) - 1).solve() is None


def test_splits_are_told_by_the_config_or_at_reset() -> None:
    env = WebShopEnv(SMALL)
    texts = {split: env.reset(seed=3, options={"split": split})[0] for split in ("train", "val", "test")}
    assert len({*texts.values()}) == 3
    assert env.reset(seed=3, mode="val")[0] == texts["val"]
    assert env.reset(seed=3)[0] == texts["train"]
    assert WebShopEnv(SMALL, split="test").reset(seed=3, mode="train")[0] == texts["test"]
    with pytest.raises(ConfigurationError, match="split must be one of 'train', 'val', 'test', got 'tests'"):
        env.reset(seed=3, options={"split": "tests"})


def test_latency_is_waited_for() -> None:
    env = begun(latency=0.05)
    started = time.monotonic()
    env.step("search[shoes]")
    env.step("no action")
    assert time.monotonic() - started >= 0.05


@given(st.integers(0, 10**6), st.integers(0, 12))
def test_the_shopper_buys_the_right_thing_wherever_one_is(seed: int, num_before: int) -> None:
    """After any walk through the shop that buys nothing."""
    env = begun(seed, max_steps=100)
    random = np.random.default_rng(seed)
    for _ in range(num_before):
        actions = [one for one in env.available_actions if one != "click[buy now]"]
        action = actions[int(random.integers(len(actions)))]
        assert env.step("search[easy to clean]" if action == "search[<words>]" else action)[4]["action_is_valid"]
    for action in env.solve() or []:
        _, reward, terminated, _, info = env.step(action)
        assert info["action_is_valid"]
    assert (reward, terminated, info["success"], info["success_find"]) == (1.0, True, True, True)
    assert env.solve() == []


def test_a_wrong_purchase_cannot_be_made_good() -> None:
    env = begun()
    env.step("search[easy to clean]")
    env.step(env.available_actions[-1])
    env.step("buy now")
    assert not env.success
    assert env.solve() is None
