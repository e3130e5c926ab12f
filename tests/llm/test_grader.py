"""A grader that hangs, dies or raises is a failure that can be seen, and nobody waits for it."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from shoal import Closed, ConfigurationError, StateError
from shoal.llm import Grader, Status, Verdict
from shoal.vector.backends import worker
from tests.scripts import run_script

LIMIT = 1.0
MEGABYTE = 2**20
hoard: list[bytearray] = []


class Unreadable:
    """Pickles well, and cannot be read."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise ValueError("not readable")


class Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it cannot even be written down")


def grade(item: Any) -> Any:
    """Does what it is told."""
    kind, _, value = item.partition(":") if isinstance(item, str) else ("give", "", item)
    if kind == "tower":
        return 9**9**9**9  # native code, which holds the interpreter's lock
    if kind == "sleep":
        time.sleep(float(value))
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leave":
        os._exit(int(value))
    if kind == "raise":
        raise {
            "value": ValueError("no luck"),
            "interrupt": KeyboardInterrupt(),
            "exit": SystemExit(3),
            "odd": Untellable(),
        }[value]
    if kind == "hog":
        return len(bytearray(int(value) * MEGABYTE))
    if kind == "keep":
        hoard.append(bytearray(int(value) * MEGABYTE))
    gifts: dict[str, Callable[[], Any]] = {"pid": os.getpid, "lock": threading.Lock, "unreadable": Unreadable}
    return gifts[kind]() if kind in gifts else None if kind == "none" else value


@contextmanager
def failing_quietly() -> Iterator[None]:
    """Deaths are logged, and that is not what is tested here."""
    names = ("shoal.vector", "shoal.llm.feeder")
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def grader() -> Iterator[Grader]:
    with failing_quietly(), Grader(grade, limit=LIMIT, max_memory="300 MB", num_workers=2) as made:
        yield made


def test_verdicts_are_in_the_order_of_the_items(grader: Grader) -> None:
    items = [0, 1.5, "x:y", None, [1, 2], np.arange(3), "none:"]
    verdicts = grader([*items, *range(50)])
    assert [str(verdict.value) for verdict in verdicts] == [
        *map(str, [0, 1.5, "y", None, [1, 2], np.arange(3), None]),
        *map(str, range(50)),
    ]
    assert {verdict.status for verdict in verdicts} == {Status.OK}
    assert not any(verdict.is_failure or verdict.error for verdict in verdicts)
    assert grader.stats.ok == 57
    assert grader.stats.failures == 0
    assert grader([]) == []


@pytest.mark.parametrize(
    ("item", "status", "error"),
    [
        ("tower:", Status.TIMEOUT, r"it took longer than 1 s, and its worker \(pid \d+\) was ended"),
        ("sleep:60", Status.TIMEOUT, "it took longer than 1 s"),
        ("kill:", Status.WORKER_DIED, "SIGKILL"),
        ("leave:7", Status.WORKER_DIED, "7"),
        ("leave:86", Status.WORKER_DIED, "86"),
        ("raise:value", Status.ENV_ERROR, "ValueError: no luck"),
        ("raise:interrupt", Status.ENV_ERROR, "KeyboardInterrupt"),
        ("raise:exit", Status.ENV_ERROR, "SystemExit: 3"),
        ("raise:odd", Status.ENV_ERROR, "Untellable"),
        ("hog:2000", Status.ENV_ERROR, "it took more memory than max_memory=300000000 bytes"),
        ("lock:", Status.ENV_ERROR, "cannot pickle '_thread.lock' object"),
        ("unreadable:", Status.ENV_ERROR, "what the function returned cannot be read: ValueError: not readable"),
        (threading.Lock(), Status.ENV_ERROR, "the item cannot be sent to a worker: TypeError: cannot pickle"),
        (Unreadable(), Status.ENV_ERROR, "ValueError: not readable"),
    ],
    ids=lambda value: value.strip(":") if isinstance(value, str) and ":" in value and len(value) < 20 else "",
)
def test_a_failure_has_a_status_and_no_value(grader: Grader, item: Any, status: Status, error: str) -> None:
    before = grade_all(grader, [1, item, 2])
    assert [verdict.value for verdict in before] == [1, None, 2]
    failed = before[1]
    assert (failed.status, failed.is_failure) == (status, True)
    with pytest.raises(AssertionError, match=error):
        raise AssertionError(failed.error)
    stats = grader.stats
    assert (stats.ok, stats.failures, getattr(stats, status.value)) == (2, 1, 1)
    assert [verdict.value for verdict in grader(range(10))] == list(range(10)), "others are graded as before"


def grade_all(grader: Grader, items: list[Any]) -> list[Verdict]:
    return [future.result(60) for future in [grader.submit(item) for item in items]]


def test_workers_are_replaced_as_often_as_it_takes() -> None:
    with failing_quietly(), Grader(grade, limit=20.0, num_workers=1) as grader:
        verdicts = grader(["kill:"] * 14)
        assert {verdict.status for verdict in verdicts} == {Status.WORKER_DIED}
        assert grader.grade(1).value == 1


def test_nobody_waits_for_one_that_hangs(grader: Grader) -> None:
    hung = grader.submit("sleep:60")
    others = grader(range(200))
    assert not hung.done(), "all others were graded meanwhile"
    assert [verdict.value for verdict in others] == list(range(200))
    verdict = hung.result(60)
    assert verdict.status is Status.TIMEOUT
    assert verdict.seconds >= LIMIT


def test_time_in_the_queue_does_not_count() -> None:
    with Grader(grade, limit=LIMIT, num_workers=1) as grader:
        verdicts = grader(["sleep:0.3"] * 6)
    assert {verdict.status for verdict in verdicts} == {Status.OK}


def test_one_that_dies_shortly_before_its_time_is_over_has_died() -> None:
    """Its replacement comes after that."""
    with failing_quietly(), Grader(die_late, limit=0.3, num_workers=1) as grader:
        assert grader.grade(0.2).status is Status.WORKER_DIED


def die_late(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(1)


def test_what_others_have_left_behind_is_not_held_against_an_item() -> None:
    with failing_quietly(), Grader(grade, limit=20.0, max_memory="300 MB", num_workers=1) as grader:
        first = grader.grade("pid:").value
        assert not any(verdict.is_failure for verdict in grader([f"keep:{100}"] * 5))
        assert grader.grade("pid:").value != first
        assert grader.stats.begun_again >= 1
        assert grader.grade("keep:400").status is Status.ENV_ERROR, "this is too much for a new worker, too"


def test_it_works_from_threads(grader: Grader) -> None:
    seen: dict[int, list[Any]] = {}

    def ask(number: int) -> None:
        seen[number] = [verdict.value for verdict in grader(range(number, number + 20))]

    threads = [threading.Thread(target=ask, args=(100 * number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == {100 * number: list(range(100 * number, 100 * number + 20)) for number in range(5)}


def test_it_can_be_made_and_used_in_a_thread_that_ends() -> None:
    made: list[Grader] = []

    def make() -> None:
        made.append(Grader(grade, limit=LIMIT, num_workers=1))
        assert made[0].grade(1).value == 1

    thread = threading.Thread(target=make)
    thread.start()
    thread.join(60)
    with made[0] as grader:
        assert grader.grade(2).value == 2


def test_a_worker_that_is_killed_from_outside_is_replaced(grader: Grader) -> None:
    for pid in grader.worker_pids:
        os.kill(pid, signal.SIGKILL)
    verdicts = grader(range(20))
    assert sum(verdict.is_failure for verdict in verdicts) <= 2
    assert all(verdict.value == number or verdict.is_failure for number, verdict in enumerate(verdicts))
    assert [verdict.value for verdict in grader(range(20))] == list(range(20))


def return_too_much(item: str) -> str:
    """More than can be sent; here that is little."""
    vars(worker)["MAX_PICKLED"] = 10_000
    return item * 20_000 if item == "x" else item


def test_a_value_that_is_too_large_is_a_failure_of_its_own() -> None:
    with failing_quietly(), Grader(return_too_much, limit=20.0, num_workers=1) as grader:
        verdicts = grader(["a", "x", "b"])
    assert [verdict.value for verdict in verdicts] == ["a", None, "b"]
    assert verdicts[1].status is Status.ENV_ERROR
    assert "cannot be sent to the caller's process" in verdicts[1].error


def test_an_item_that_is_too_large_is_a_failure_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.llm.grader.MAX_PICKLED", 10_000)
    with failing_quietly(), Grader(grade, limit=20.0, num_workers=1) as grader:
        verdicts = grader(["a:b", "x" * 20_000])
    assert [verdict.status for verdict in verdicts] == [Status.OK, Status.ENV_ERROR]
    assert "the item cannot be sent to a worker: ValueError: it has 20," in verdicts[1].error


def test_a_closure_is_sent_as_it_is() -> None:
    factor = 3
    with Grader(lambda item: factor * item, limit=LIMIT, num_workers=1, backend="pipes") as grader:
        assert grader.grade(2).value == 6


def test_a_script_can_grade_with_its_own_functions_and_classes() -> None:
    done = run_script(
        """
        from dataclasses import dataclass
        from shoal.llm import Grader

        @dataclass
        class Answer:
            text: str

        def reward(answer):
            return Answer(answer.text * 2)

        with Grader(reward, limit=20.0, num_workers=1) as grader:
            print(grader.grade(Answer("x")).value.text)
        """
    )
    assert done.stdout == "xx\n", done.stderr


def verified(pair: tuple[str, str]) -> bool:
    from math_verify import parse, verify

    return bool(verify(parse(f"${pair[0]}$"), parse(f"${pair[1]}$")))


def test_a_library_that_sets_alarms_can_grade() -> None:
    with Grader(verified, limit=60.0, num_workers=1) as grader:
        assert [verdict.value for verdict in grader([("x + 1", "1 + x"), ("x", "y")])] == [True, False]


def test_a_failure_is_logged_once_for_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    with Grader(grade, limit=LIMIT, num_workers=1) as grader:
        grader(["raise:value"] * 3)
    said = [record.getMessage() for record in caplog.records if record.name == "shoal.llm.feeder"]
    assert len(said) == 1
    assert said[0].startswith("a grading has failed (env_error); others will only be counted:\nTraceback")


# -- ending ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", ["sleep:60", "tower:"])
def test_closing_does_not_wait_and_tells_all_who_do(item: str) -> None:
    grader = Grader(grade, limit=60.0, num_workers=1)
    futures = [grader.submit(item) for _ in range(3)]
    time.sleep(0.2)
    begin = time.monotonic()
    grader.close()
    grader.close()
    assert time.monotonic() - begin < 20
    for future in futures:
        with pytest.raises(Closed, match="the grader was closed before this was graded"):
            future.result(0)
    with pytest.raises(Closed, match="the grader was closed"):
        grader.submit(1)


def test_ctrl_c_gives_up_what_has_not_begun() -> None:
    with failing_quietly(), Grader(grade, limit=LIMIT, num_workers=1) as grader:
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            grader(["sleep:0.8", *range(100)])
        timer.join()
        assert grader.grade(5).value == 5
        assert grader.stats.ok < 50


def test_what_is_cancelled_is_not_graded() -> None:
    with Grader(grade, limit=20.0, num_workers=1) as grader:
        first, second = grader.submit("sleep:0.3"), grader.submit(1)
        assert second.cancel()
        assert first.result(60).status is Status.OK
        with pytest.raises(CancelledError):
            second.result(0)
        assert grader.grade(2).value == 2
        assert grader.stats.ok == 2


def test_a_forked_process_has_to_make_its_own() -> None:
    with Grader(grade, limit=LIMIT, num_workers=1) as grader:
        pid = os.fork()
        if not pid:
            try:
                grader.close()  # not its own
                grader.grade(1)
            except StateError as error:
                os._exit(0 if "make another one in this process" in str(error) else 2)
            except BaseException:
                os._exit(3)
            os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert grader.grade(1).value == 1


def test_a_program_that_forgets_to_close_ends() -> None:
    done = run_script(
        """
        from shoal.llm import Grader
        grader = Grader(len, limit=20.0, num_workers=1)
        print(grader.grade("abc").value)
        """
    )
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


# -- what cannot work --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "settings", "message"),
    [
        (3, {}, "a Grader needs a function of one item, got 3"),
        (len, {"limit": None}, "limit must be a positive number of seconds, got None"),
        (len, {"limit": 0}, "limit must be a positive number of seconds"),
        (len, {"num_workers": 0}, "num_workers must be a whole number of at least 1, got 0"),
        (len, {"max_memory": "much"}, 'max_memory must be a number of bytes or a text such as "2 GB"'),
        (len, {"backend": "serial"}, "backend must be one of 'shm', 'pipes', got 'serial'"),
        (threading.Lock().acquire, {}, "the function cannot be sent to a worker: TypeError: cannot pickle"),
    ],
)
def test_what_cannot_work_is_refused(function: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Grader(function, **settings)


def test_a_function_that_workers_cannot_load_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the function cannot be loaded in a worker:\n(.*\n)*.*only here"):
        Grader(OnlyHere(os.getpid()), num_workers=1)


class OnlyHere:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __call__(self, item: Any) -> None:
        """Nothing."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        if os.getpid() != state["pid"]:
            raise RuntimeError("it can be loaded only here")
        self.__dict__.update(state)


# -- many --------------------------------------------------------------------------------------------------------------------


def check_many(
    count: int, limit: float, is_in_time: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], bool]
) -> None:
    items: list[Any] = ["tower:" if number % 100 == 50 else number for number in range(count)]
    results: list[Verdict] = []
    with failing_quietly(), Grader(grade, limit=limit, num_workers=2) as grader:
        thread = threading.Thread(target=lambda: results.extend(grader(items)))
        thread.start()
        thread.join(1500)
        assert not thread.is_alive()
        stats = grader.stats
    assert len(results) == count
    for item, verdict in zip(items, results, strict=True):
        expected = (None, Status.TIMEOUT) if item == "tower:" else (item, Status.OK)
        assert (verdict.value, verdict.status) == expected
    hung = np.array([verdict.seconds for verdict in results if verdict.is_failure])
    every = np.array([verdict.seconds for verdict in results])
    assert (stats.ok, stats.timeout, stats.failures) == (count - len(hung), len(hung), len(hung))
    assert len(hung) == count // 100
    of_all, of_hung = np.percentile(every, 99), np.percentile(hung, 99)
    print(f"99th percentile {of_all:.4f} s; of those that hung {of_hung:.4f} s, at most {hung.max():.4f} s")
    assert is_in_time(every, hung)


def test_many_gradings_of_which_some_hang() -> None:
    check_many(400, 2.0, lambda every, hung: bool((hung >= 2.0).all()))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_thousand_gradings_of_which_one_in_a_hundred_hangs() -> None:
    check_many(10_000, 0.5, lambda every, hung: bool(np.percentile(every, 99) <= 0.6 and (hung >= 0.5).all()))
