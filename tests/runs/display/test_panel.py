"""The panel of a training run: what is on it, that it fits, and that it stays in its place."""

from __future__ import annotations

import math
import threading

import pytest
from rich.cells import cell_len

from shoal.runs.display import open_display
from shoal.runs.display.panel import sparkline
from tests.runs.display.reports import (
    before_the_first_episode,
    course_of_reports,
    goal,
    log,
    report,
    shown,
    terminal,
    written,
)
from tests.runs.display.terminal import Screen


def test_shows_what_there_is_to_know() -> None:
    text = shown(report())
    for part in (
        "CartPole-v1 · 8 environments · shm · cpu",
        "Episode 10 of 1,000",
        "1%  0:01:40 left",
        "Mean(100)    120.12  ▁",
        "Last return  123.45   length 234",
        "n_completed_episodes: 3   n_envs: 8",
        "20,480   12,345/s   0:00:45 so far",
        "learning rate 3.00e-04",
        "policy      -0.0123",
        "explained    0.8710",
        "■ environments 61%  ■ policy 12%  ■ update 25%  ■ other 2%",
        "runs/first",
    ):
        assert part in text, f"{part} is missing:\n{text}"
    assert "Restarts" not in text


def test_goes_by_steps_or_counts() -> None:
    text = shown(report(), goal=goal(total_episodes=None, total_steps=40960))
    assert "Step 20,480 of 40,960" in text
    assert " 50%" in text
    text = shown(report(), goal=goal(total_episodes=None))
    assert "Episode 10, step 20,480" in text
    assert " left" not in text


def test_goes_by_what_ends_training_first() -> None:
    assert "Step 20,480 of 40,960" in shown(report(), goal=goal(total_steps=40960))


def test_is_not_at_a_hundred_percent_before_the_end() -> None:
    assert " 99%" in shown(report(episodes=9999), goal=goal(total_episodes=10_000))
    assert "100%" in shown(report(episodes=1003))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("kind", ["first", "usual", "huge"])
def test_fits(width: int, kind: str) -> None:
    huge = report(
        steps=10**12,
        episodes=10**9,
        last_return=-1.5e300,
        mean_return=1e15,
        restarts=12_345,
        losses={"policy_loss": -1e-300, "a_loss_of_a_very_long_name_that_somebody_made_up": 1e30},
        seconds=1e7,
        seconds_left=1e8,
    )
    reports = {"first": before_the_first_episode(), "usual": report(), "huge": huge}
    console = terminal(width)
    name = "a/very-long/EnvironmentName-v17" * 5 if kind == "huge" else "CartPole-v1"
    with open_display(goal(env=name, folder=name), "rich", console) as display:
        display.note("A note that is rather long. " * 10)
        display.update(reports[kind])
        running = Screen(written(console)).lines
        display.finish(None, "A sentence that is rather long. " * 10)
    lines = [*running, *Screen(written(console)).lines]
    assert max(map(cell_len, lines)) <= width


def test_nothing_is_cut_at_sixty_columns() -> None:
    assert "…" not in shown(report(), console=terminal(60))


def test_leaves_out_details_where_there_are_few_lines() -> None:
    text = shown(report(), console=terminal(height=12))
    assert len(text.strip().splitlines()) <= 12
    assert "Mean(100)" in text
    assert "Losses" not in text


def test_stays_in_its_place() -> None:
    once = shown(report(seconds=0.0))
    often = shown(*(report(seconds=float(second)) for second in range(100)))
    assert len(often.splitlines()) == len(once.splitlines())
    assert often.count("CartPole-v1") == 1


def test_is_drawn_at_most_four_times_a_second_and_ends_with_the_last_report() -> None:
    console = terminal()
    text = shown(*course_of_reports(1000, seconds=0.01), console=console)
    assert 38 <= written(console).count("CartPole-v1") <= 44
    assert "Episode 1,000 of 1,000" in text


def test_needs_no_thread() -> None:
    before = threading.active_count()
    with open_display(goal(), "rich", terminal()) as display:
        display.update(report())
        assert threading.active_count() == before


def test_highlights_losses_that_are_no_numbers_and_restarts() -> None:
    console = terminal()
    shown(report(losses={"policy_loss": math.nan}, restarts=1), console=console)
    assert "\x1b[1;31m      nan\x1b[0m" in written(console)
    assert "\x1b[1;33m1 worker was replaced" in written(console)


def test_tells_shares_apart_without_colours() -> None:
    text = shown(report(), console=terminal(no_color=True))
    assert "█ environments 61%  ▓ policy 12%  ▒ update 25%  ░ other 2%" in text
    assert "█▓▓▓" in text


def test_without_losses_and_shares() -> None:
    lines = shown(report(losses={}, shares={})).splitlines()
    for name in ("Losses", "Time"):
        assert [line.strip("│ ").split() for line in lines if name in line] == [[name, "-"]]


def test_notes_stay_above_it() -> None:
    console = terminal()
    with open_display(goal(), "rich", console) as display:
        display.update(report())
        display.note("Saved [a] checkpoint.")
        display.update(report(seconds=50.0))
        display.note("Evaluated: 200.")
    lines = Screen(written(console)).lines
    assert lines[:2] == ["Saved [a] checkpoint.", "Evaluated: 200."]
    assert lines[2].startswith("╭─ CartPole-v1")


def test_without_a_terminal_only_the_end_is_seen() -> None:
    console = log()
    with open_display(goal(), "rich", console) as display:
        display.update(report())
        assert written(console) == ""
        display.finish(None, "Training is complete.")
    assert "Training is complete." in written(console)
    assert "\x1b" not in written(console)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([3.0, 3.0], "▁▁"),
        ([0.0, 1.0, 7.0], "▁▂█"),
        ([0.0, math.nan, 7.0, math.inf], "▁!█!"),
        ([-1.7e308, 1.7e308], "▁▁"),
    ],
)
def test_sparkline(values: list[float], expected: str) -> None:
    assert sparkline(values, "▁▂▃▄▅▆▇█") == expected
