"""Fresh processes: what they return, how they end, and that they always do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.testing.fresh import Ending, Job, Laboratory, Patience, Progress

HERE = "tests.testing.test_fresh"


def run(function: str, *, call_seconds: float = 20.0, seconds: float = 30.0, **arguments: Any) -> Ending:
    laboratory = Laboratory(Patience(call_seconds, time.monotonic() + seconds))
    (ending,) = laboratory.run([Job(f"{HERE}:{function}", arguments, hash_seed=5)])
    return ending


def answer(progress: Progress, number: int) -> dict[str, Any]:
    print("this goes nowhere")
    return {"number": number, "hash seed": os.environ["PYTHONHASHSEED"], "pid": os.getpid()}


def hang(progress: Progress, *, stubborn: bool = False) -> None:
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    progress.say("waiting for nothing")
    while True:
        time.sleep(0.01)


def leave(progress: Progress, code: int) -> None:
    progress.say("leaving")
    os._exit(code)


def crash(progress: Progress) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(progress: Progress) -> None:
    progress.say("failing")
    raise LookupError("nothing found")


def start_a_child(progress: Progress) -> int:
    if (child := os.fork()) == 0:
        time.sleep(600)
    return child


def test_an_answer_comes_back() -> None:
    ending = run("answer", number=3)
    assert ending.problem == ""
    assert (ending.result["number"], ending.result["hash seed"]) == (3, "5")
    assert ending.result["pid"] != os.getpid()


def test_answers_come_back_in_the_order_of_the_jobs() -> None:
    laboratory = Laboratory(Patience(20.0, time.monotonic() + 30.0), at_once=3)
    endings = laboratory.run([Job(f"{HERE}:answer", {"number": number}) for number in range(4)])
    assert [ending.result["number"] for ending in endings] == [0, 1, 2, 3]
    assert laboratory.run([]) == []


def test_a_call_that_hangs_is_ended_and_its_stack_is_kept() -> None:
    ending = run("hang", call_seconds=0.3)
    assert (ending.problem, ending.doing, ending.result) == ("call-too-slow", "waiting for nothing", None)
    assert "in hang" in ending.printed


def test_one_that_does_not_want_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.testing.fresh.GRACE_SECONDS", 0.2)
    ending = run("hang", seconds=1.5, stubborn=True)
    assert (ending.problem, ending.how) == ("all-too-slow", "it had to be killed")


@pytest.mark.parametrize(
    ("function", "arguments", "how"),
    [("leave", {"code": 0}, "exit code 0"), ("leave", {"code": 3}, "exit code 3"), ("crash", {}, "SIGSEGV")],
)
def test_a_death_is_named(function: str, arguments: dict[str, int], how: str) -> None:
    ending = run(function, **arguments)
    assert (ending.problem, ending.how) == ("died", how)


def test_a_fault_of_ours_comes_back_as_a_traceback() -> None:
    ending = run("fail")
    assert (ending.problem, ending.doing) == ("broken", "failing")
    assert "LookupError: nothing found" in ending.printed


def test_children_that_are_left_behind_are_ended() -> None:
    child = run("start_a_child").result
    deadline = time.monotonic() + 5.0
    while _runs(child):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
