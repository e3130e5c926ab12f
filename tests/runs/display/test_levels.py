"""What a person sees of a training run: on a terminal, in a log, and at its end."""

from __future__ import annotations

import io
import math
import sys
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from shoal.runs.display import Display, PanelDisplay, PlainDisplay, open_display
from shoal.vector.errors import ConfigurationError
from tests.runs.display.reports import (
    Terminal,
    before_the_first_episode,
    course_of_reports,
    goal,
    log,
    logged,
    report,
    shown,
    terminal,
    written,
)
from tests.runs.display.terminal import Screen


class TestLog:
    def test_has_the_lines_of_the_guide(self) -> None:
        lines = logged(report(), goal=goal(folder=None)).splitlines()
        assert lines == [
            "🚀 Using 8 parallel environments for training",
            "   Start method: default",
            "   Environment: CartPole-v1  |  Backend: shm  |  Device: cpu",
            "Parallel mode: 8 environments",
            "Episode 10/1000",
            "  Reward:   123.45  |  Length:  234  |  Mean(100):   120.12",
            "  n_completed_episodes: 3  |  n_envs: 8",
            "  Steps: 20480  |  Steps/s: 12345  |  Left: 0:01:40",
            "  Time: 0:00:45 (environments 61%, policy 12%, update 25%, other 2%)",
            "  Losses: policy -0.0123, value 0.4567, entropy 0.6931, KL 0.0081",
        ]

    def test_one_environment_is_sequential(self) -> None:
        lines = logged(report(n_envs=1), goal=goal(n_envs=1, backend="serial")).splitlines()
        assert lines[0] == "🚀 Using 1 environment for training"
        assert "Sequential mode: 1 environment" in lines
        assert not any("Parallel" in line or "Start method" in line for line in lines)

    def test_names_the_start_method(self) -> None:
        assert "   Start method: spawn\n" in logged(goal=goal(start_method="spawn"))

    @pytest.mark.parametrize(
        ("ends", "expected"),
        [
            ({"total_episodes": 1000}, ["Episode 10/1000", "  Steps: 20480  |"]),
            ({"total_episodes": None, "total_steps": 10**6}, ["Episode 10\n", "  Steps: 20480/1000000  |"]),
            ({"total_episodes": None}, ["Episode 10\n", "  Steps: 20480  |"]),
        ],
        ids=["episodes", "steps", "no end"],
    )
    def test_says_how_far_it_is(self, ends: dict[str, Any], expected: list[str]) -> None:
        text = logged(report(), goal=goal(**ends))
        assert all(part in text for part in expected), text

    def test_writes_the_first_ten_reports_then_one_in_ten_seconds_and_the_last(self) -> None:
        text = logged(*course_of_reports(400, seconds=0.1))
        episodes = [int(line.split()[1].split("/")[0]) for line in text.splitlines() if line.startswith("Episode ")]
        assert episodes == [*range(1, 11), 110, 210, 310, 400]

    def test_does_not_write_a_report_twice(self) -> None:
        console = log()
        with open_display(goal(), "plain", console) as display:
            display.update(report())
            display.finish(report(), "Training is complete.")
        assert written(console).count("Episode 10/1000") == 1

    def test_has_the_last_report_before_an_exception(self) -> None:
        console = log()
        with pytest.raises(RuntimeError, match="out of luck"), open_display(goal(), "plain", console) as display:
            for one in course_of_reports(15, seconds=0.1):
                display.update(one)
            raise RuntimeError("out of luck")
        assert "Episode 15/1000" in written(console)

    def test_marks_losses_that_are_no_numbers(self) -> None:
        line = "  Losses: policy nan (!), value 0.3000, explained inf (!)\n"
        losses = {"policy_loss": math.nan, "value_loss": 0.3, "explained_variance": math.inf, "clipfrac": 0.1}
        assert line in logged(report(losses=losses))

    def test_tells_of_restarts_only_if_there_were_any(self) -> None:
        assert "Restarts" not in logged(report())
        assert "  Restarts: 2\n" in logged(report(restarts=2))

    def test_lines_fit_and_long_notes_stay_whole(self) -> None:
        console = log()
        sentence = "Saved " + "a/long/path/" * 20
        with open_display(goal(total_steps=10**9), "plain", console) as display:
            display.update(report(steps=123_456_789, seconds=2e5, seconds_left=1e6, steps_per_second=123_456.0))
            display.note(sentence)
        *lines, last = written(console).splitlines()
        assert last == sentence
        assert max(map(cell_len, lines)) <= 80


@pytest.mark.parametrize("show", [shown, logged], ids=["rich", "plain"])
class TestBeforeTheFirstEpisode:
    def test_returns_are_dashes(self, show: Any) -> None:
        text = show(before_the_first_episode())
        assert "nan" not in text.lower()
        assert "None" not in text
        lines = text.splitlines()
        if show is shown:
            assert any(line.startswith("│ Mean(100)    -  ") for line in lines)
            assert any("Last return  -   length -" in line for line in lines)
        else:
            assert "  Reward:        -  |  Length:    -  |  Mean(100):        -" in lines

    def test_there_is_something_to_see_before_the_first_report(self, show: Any) -> None:
        assert "CartPole-v1" in show()


class TestLevels:
    def test_auto_is_a_panel_on_a_terminal(self) -> None:
        assert isinstance(open_display(goal(), console=terminal()), PanelDisplay)

    def test_auto_is_plain_in_a_log(self) -> None:
        assert isinstance(open_display(goal(), console=log()), PlainDisplay)

    def test_auto_is_plain_on_a_dumb_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(open_display(goal(), console=terminal()), PlainDisplay)

    @pytest.mark.parametrize("forced", [False, True], ids=["", "FORCE_COLOR"])
    def test_auto_is_plain_where_output_is_redirected(self, monkeypatch: pytest.MonkeyPatch, forced: bool) -> None:
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        if forced:
            monkeypatch.setenv("FORCE_COLOR", "1")
        assert isinstance(open_display(goal()), PlainDisplay)

    def test_auto_goes_by_standard_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", Terminal())
        assert isinstance(open_display(goal()), PanelDisplay)
        monkeypatch.setenv("CI", "true")
        assert isinstance(open_display(goal()), PlainDisplay)

    def test_plain_on_a_terminal_draws_nothing(self) -> None:
        console = terminal()
        logged(report(), console=console)
        assert "\x1b[" not in written(console)

    def test_none_is_silent(self, capfd: pytest.CaptureFixture[str]) -> None:
        console = terminal()
        with open_display(goal(), "none", console) as display:
            assert type(display) is Display
            display.update(report())
            display.note("Saved a checkpoint.")
            display.finish(report(), "Training is complete.")
        assert written(console) == ""
        assert capfd.readouterr() == ("", "")

    def test_others_are_refused(self) -> None:
        with pytest.raises(ConfigurationError) as caught:
            open_display(goal(), "plane")
        message = "display must be one of 'auto', 'rich', 'plain', 'none', got 'plane'. Did you mean 'plain'?"
        assert str(caught.value) == message
        with pytest.raises(ConfigurationError, match="got '123'.$"):
            open_display(goal(), "123")


class TestSummary:
    ROWS = (
        ("Steps", "20,480"),
        ("Episodes", "10"),
        ("Time", "0:00:45"),
        ("Steps per second", "455"),
        ("Final mean return", "120.12"),
        ("Best mean return", "130.00"),
        ("Restarts", "2"),
        ("Folder", "runs/first"),
    )

    @pytest.mark.parametrize("level", ["rich", "plain"])
    def test_sums_up_once(self, level: str) -> None:
        console = terminal() if level == "rich" else log()
        with open_display(goal(), level, console) as display:
            display.update(report(steps=2048, seconds=4.5, steps_per_second=455.0, mean_return=130.0))
            display.finish(report(restarts=2), "Training is complete.")
            display.finish(report(restarts=2), "Training is complete.")
            display.note("Saved [the] policy.")
        text = Screen(written(console)).text
        lines = [line.strip("│ ").replace(":  ", "  ").replace(": ", "  ") for line in text.splitlines()]
        end = lines[lines.index("Training is complete.") + 1 :]
        rows = [tuple(part.strip() for part in line.split("  ", 1)) for line in end if "  " in line]
        assert rows == list(self.ROWS)
        assert text.count("Training is complete.") == 1
        assert text.rstrip().endswith("Saved [the] policy.")
        assert level == "plain" or "Losses" not in text, "the summary takes the panel's place"

    @pytest.mark.parametrize("level", ["rich", "plain"])
    def test_of_a_run_without_reports_is_the_sentence(self, level: str) -> None:
        console = terminal() if level == "rich" else log()
        with open_display(goal(folder=None), level, console) as display:
            display.finish(None, "Interrupted before the first update.")
        text = Screen(written(console)).text
        assert "Interrupted before the first update." in text
        assert "Steps" not in text


@pytest.mark.parametrize("level", ["rich", "plain"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("width", [80, 30], ids=["wide", "narrow"])
def test_any_encoding_will_do(level: str, encoding: str, width: int) -> None:
    file = io.TextIOWrapper(raw := io.BytesIO(), encoding=encoding)
    console = Console(file=file, force_terminal=level == "rich", width=width)
    odd = "fische-🐟-\udcff"  # as the name of a file that is no UTF-8
    with open_display(goal(env=odd, folder=odd), level, console) as display:
        for one in course_of_reports(5, seconds=1.0):
            display.update(one)
        display.note(f"Saved {odd}.")
        display.finish(report(), f"Complete: {odd}.")
    text = raw.getvalue().decode(encoding)
    assert width == 30 or "\\udcff" in text
    assert ("🐟" in text) == (encoding == "utf-8")
    if level == "plain":
        assert text.startswith("🚀 Using" if encoding == "utf-8" else "Using")
