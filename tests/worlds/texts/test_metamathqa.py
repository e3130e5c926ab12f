"""MetaMathQA: problems have right answers, answers are compared as they are meant, and hostile ones end in time."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import shoal
from shoal import ConfigurationError, EnvList
from shoal.envs.texts import math_judge
from shoal.envs.texts.math_answers import number_in, quantity_of, same_number, same_text
from shoal.envs.texts.math_judge import MathJudge
from shoal.envs.texts.math_rows import Row, answer_in
from shoal.envs.texts.metamathqa import MetaMathQAEnv
from shoal.envs.texts.word_problems import TEMPLATES, made_problem

RIGHT, WRONG = "Correct!", "Incorrect. Please think again."


def judged(gold: str, answer: Any, **settings: Any) -> tuple[float, bool, bool]:
    """Reward, end and success."""
    env = MetaMathQAEnv(**settings)
    env.reset(seed=0)
    env.row = Row("How many?", gold)
    _, reward, terminated, _, info = env.step(answer)
    env.close()
    return reward, terminated, info["success"]


# -- an episode ----------------------------------------------------------------------------------------------------------


def test_an_episode_as_it_is_seen() -> None:
    env = MetaMathQAEnv()
    question, _ = env.reset(seed=5)
    (answer,) = env.solve() or []
    for _ in range(2):
        seen, reward, terminated, _, info = env.step("-1")
        assert (seen, reward, terminated) == (f"{question}\n\n{WRONG}", 0.0, False)
        assert info == {"action_is_valid": True, "action_is_effective": True, "success": False}
    assert env.step(None)[1:3] == (0.0, False), "what is no answer is no try"
    seen, reward, terminated, _, info = env.step(answer)
    assert (seen, reward, terminated) == (f"{question}\n\n{RIGHT}", 0.25, True)
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": True}
    assert env.solve() == []
    assert env.step(answer)[1:3] == (0.0, True)


def test_the_first_answer_is_worth_one() -> None:
    assert judged("12", "12") == (1.0, True, True)


# -- comparing -----------------------------------------------------------------------------------------------------------

ALIKE = [
    ("1234", "1,234"),
    ("5", "$5"),
    ("$5", "5 dollars"),
    (r"\$5", "5"),
    ("50", "50%"),
    ("50%", "1/2"),
    ("0.5", "50 %"),
    ("3/4", "0.75"),
    ("3/4", "6/8"),
    (r"\frac{3}{4}", ".75"),
    ("1 1/2", "1.5"),
    ("-3", "-3.0"),
    ("5 apples", "5"),
    ("5 apples", "5 apple"),
    ("12 cm", "12cm."),
    ("$42$", "42"),
    ("1,000,000", "1000000"),
]
DIFFERENT = [
    ("5", "6"),
    ("5", "-5"),
    ("1/3", "0.3333"),
    ("5 apples", "5 pears"),
    ("5 dollars", "€5"),
    ("5", "5 million"),
    ("5", "5x"),
    ("1.5", "1 3/2"),
    ("50", "0.5"),
    ("12", "1,2"),
    ("0", "1/0"),
    ("5", "5 or 6"),
    ("1", "١"),
    ("2", "²"),
    ("7", "7 hundred"),
]


@pytest.mark.parametrize(("gold", "answer"), ALIKE)
def test_numbers_that_are_the_same(gold: str, answer: str) -> None:
    assert same_number(answer, gold)
    assert same_number(gold, answer)
    assert judged(gold, answer, compare="number") == (1.0, True, True)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_numbers_that_are_not_or_not_for_certain(gold: str, answer: str) -> None:
    assert not same_number(answer, gold)
    assert not same_number(gold, answer)


def test_texts_are_compared_without_blanks_and_in_small_letters() -> None:
    assert same_text(" X + 1\n", "x+1")
    assert not same_text("x-1", "x+1")
    assert judged("3/4", "0.75", compare=("text",)) == (0.0, False, False)
    assert judged("x + 1", "X+1", compare=("text",)) == (1.0, True, True)


@settings(max_examples=200)
@given(st.fractions(max_denominator=10**6).filter(lambda value: abs(value) < 10**9), st.sampled_from(["", " ", "\n"]))
def test_a_fraction_is_read_as_itself(value: Any, blank: str) -> None:
    found = quantity_of(f"{blank}{value}{blank}")
    assert found is not None
    assert found.value == value
    assert quantity_of(number_in(f"The answer is {value}.")) == found


@settings(max_examples=300)
@given(st.text(max_size=200) | st.text("0123456789,./-%$ \\frac{}ab^*", max_size=200))
def test_any_text_can_be_compared(text: str) -> None:
    assert same_text(text, text)
    same_number(text, "1/2")
    assert number_in(text) in text


@pytest.mark.parametrize("piece", ["9", "1,", "9 ", "1/", "$", "-", "a ", ".", "=", "answer is ", "\\frac{1}{1}"])
def test_long_texts_are_compared_at_once(piece: str) -> None:
    begin = time.thread_time()
    for length in (90, 1000, 10_000):
        text = piece * (length // len(piece))
        same_text(text, "1")
        same_number(text, "1")
        number_in(text)
    assert time.thread_time() - begin < 1.0


# -- by math-verify --------------------------------------------------------------------------------------------------------


def test_formulas_that_mean_the_same() -> None:
    env = MetaMathQAEnv(compare="math", math_seconds=20.0)
    for gold, answer, is_right in (
        ("x + 1", "1 + x", True),
        (r"\frac{1}{2}", "0.5", True),
        (r"\sqrt{8}", r"2\sqrt{2}", True),
        ("(1, 2)", "(1,2)", True),
        ("x + 1", "x - 1", False),
        (r"\sqrt{8}", "3", False),
        ("3", "three apples", False),
    ):
        env.reset(seed=0)
        env.row = Row("What is it?", gold)
        assert env.step(answer)[4]["success"] == is_right, (gold, answer)
    env.close()


@pytest.mark.parametrize(
    "answer", ["9^{9^{9^{9}}}", "(10^{10^{10}})!", "9**9**9**9", "99999999999999!" * 3, "(" * 1900]
)
def test_a_hostile_formula_ends_in_time_and_is_not_just_wrong(answer: str) -> None:
    env = MetaMathQAEnv(compare=("number", "math"), math_seconds=0.5)
    env.reset(seed=0)
    env.row = Row("What is it?", "x + 1")
    env.step("x")
    begin = time.monotonic()
    _, reward, terminated, _, info = env.step(answer)
    assert (reward, terminated, info["success"]) == (0.0, False, False)
    assert time.monotonic() - begin < 30
    assert env.step("1 + x")[4]["success"], "the next comparison has a new process"
    env.close()


HOSTILE = [
    "__import__('os').system('touch {path}')",
    "().__class__.__base__.__subclasses__()",
    "open('{path}', 'w')",
    r"\boxed{__import__('os').system('touch {path}')}",
    r"\operatorname{open}('{path}', 'w')",
    r"\text{eval}(\text{open})",
    r"\input{{path}}",
    "1 + __import__('os').system('touch {path}')",
    "$1$; import os; os.mkdir('{path}')",
    "exec(\"open('{path}', 'w')\")",
    "\ud800",
    "\0",
    "\n\n",
    "$$$",
    "{" * 500,
    r"\frac{" * 200,
]


def test_hostile_answers_are_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "written"
    judge = MathJudge.shared()
    for text in HOSTILE:
        assert judge.same(text.replace("{path}", str(path)), "x + 1", 10.0) is not True, text
    dice = random.Random(3)
    for _ in range(60):
        text = "".join(dice.choices([*HOSTILE[:12], *"0123456789+-*/^(){}\\$x "], k=6)).replace("{path}", str(path))
        assert judge.same(text, "x + 1", 10.0) is not True, text
    assert judge.same("1 + x", "x + 1", 20.0) is True
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("event", "arguments", "is_refused"),
    [
        ("open", ("x", "w", os.O_WRONLY | os.O_CREAT), True),
        ("open", ("x", "r", os.O_RDONLY), False),
        ("os.system", ("reboot",), True),
        ("subprocess.Popen", ("reboot", [], None, None), True),
        ("socket.connect", (None, None), True),
        ("os.listdir", (".",), False),
        ("import", ("sympy",), False),
    ],
)
def test_who_compares_may_do_nothing_else(event: str, arguments: tuple[Any, ...], is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(PermissionError, match=f"{event} is not for those who compare answers"):
            math_judge._refuse(event, arguments)
    else:
        math_judge._refuse(event, arguments)


def test_what_could_not_be_compared_says_why() -> None:
    env = MetaMathQAEnv(compare="math", math_seconds=0.5)
    env.reset(seed=0)
    env.row = Row("What is it?", "x + 1")
    info = env.step("9^{9^{9^{9}}}")[4]
    assert "longer than 0.5 s" in info["unjudged"]
    assert "has 3000 characters, and may have 2000" in env.step("x" * 3000)[4]["unjudged"]
    assert "unjudged" not in env.step("1 + x")[4]
    env.close()


def test_one_process_compares_for_all_environments_and_goes_with_them() -> None:
    envs = [MetaMathQAEnv(compare="math") for _ in range(3)]
    before = set(psutil.Process().children(recursive=True))
    for env in envs:
        env.reset(seed=0)
        env.step("x")
    (process,) = set(psutil.Process().children(recursive=True)) - before
    for env in envs:
        env.close()
    process.wait(10)
    assert envs[0].step("x")[4]["success"] is False, "it comes back if it is needed"
    envs[0].close()


def test_math_verify_that_is_not_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.envs.texts.math_judge.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=re.escape("not installed: pip install 'shoal[text]'")):
        MetaMathQAEnv(compare=["text", "math"])


def test_math_verify_that_cannot_be_used_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(ConfigurationError, match=re.escape("pip install 'math-verify[antlr4_13_2]'")):
        MathJudge().same("1", "2", 1.0)


# -- made problems -----------------------------------------------------------------------------------------------------------

BY_HAND = [
    ("has 10 marbles. Ada gives Bo 5 more, and then Bo loses 3", 12),
    ("holds 10 pears. There are 5 full boxes, and 3 pears lie", 53),
    ("shares 10 pears equally among 5 friends and keeps none. Each friend already had 3", 5),
    ("costs 10 dollars for an adult and 5 dollars for a child. 3 adults and 2 children", 40),
    ("walks 10 kilometres every day for 5 days, and Ada walks 3 kilometres every day for 2", 44),
    ("costs 40 dollars. Its price is lowered by 5 percent, and Bo has a voucher for another 3", 35),
    ("10 kilometres per hour and travels for 5 hours. After a stop it goes on at 3 kilometres per hour for 2 h", 56),
    ("open 10 hours a day. In each hour 5 visitors come, and every visitor buys 3", 150),
    ("reads 10 pages of a book on Monday and twice as many on Tuesday. The book has 80 pages", 50),
    ("mean of three numbers is 10. Two of them are 5 and 3", 22),
    ("is 10 metres long and 5 metres wide. Bo puts a fence around it and leaves a gate of 3", 27),
    ("have 11 marbles. Bo has 5 more", 3),
    ("5 workers need 6 days for a wall. If everybody works equally fast, how many days do 10", 3),
    ("holds 10 litres and is full. 5 litres run out every minute, and 3 litres run in", 5),
]


@pytest.mark.parametrize(("template", "by_hand"), list(zip(TEMPLATES, BY_HAND, strict=True)))
def test_every_template_comes_to_what_was_worked_out_by_hand(template: Any, by_hand: tuple[str, int]) -> None:
    part, expected = by_hand
    numbers = [int(number) for number in re.findall(r"\d+", part)]
    names = re.findall(r"\{([abcd])\}", template.text)
    values = dict(zip(names, numbers, strict=True))
    text = template.text.format(name="Bo", other="Ada", things="marbles", place="bakery", **values)
    assert part.replace("pears", "marbles") in text
    allowed = {"a", "b", "c", "d"}
    assert set(re.findall(r"\{(\w)\}", template.expression)) == set(names) <= allowed
    assert eval(template.expression.format(**values)) == expected


@settings(max_examples=200)
@given(st.integers(0, 2**62), st.sampled_from(["train", "test"]))
def test_what_is_made_has_a_whole_answer_that_is_right(seed: int, split: str) -> None:
    problem = made_problem(seed, split)
    expression = problem.response.removeprefix("This comes to ").partition(" = ")[0]
    answer = answer_in(problem.response)
    assert answer == str(int(answer))
    assert int(answer) > 0
    assert eval(expression) == int(answer)
    assert set(re.findall(r"\d+", expression)) - {"2", "3", "100"} <= set(re.findall(r"\d+", problem.query))
    assert "{" not in problem.query


def test_problems_vary_and_splits_differ() -> None:
    train, test = ({made_problem(seed, split).query for seed in range(300)} for split in ("train", "test"))
    assert len(train) > 295
    assert not train & test


# -- rows ------------------------------------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [
    {"query": "What is 1 + 1?", "response": "One and one. The answer is: 2", "type": "GSM_Rephrased"},
    {"query": "Nothing?", "response": "There is none.", "type": "x"},
    {"query": "Half?", "response": "The answer is: 3, no. The answer is: \\frac{1}{2} ", "type": "x"},
    {"query": None, "response": "The answer is: 2", "type": "x"},
    {"query": "Empty?", "response": "The answer is:  ", "type": "x"},
]


def written(path: Path, rows: list[dict[str, Any]] = ROWS) -> str:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    else:
        path.write_text(json.dumps(rows))
    return str(path)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl", "rows.json"])
def test_rows_are_read_from_a_file(tmp_path: Path, name: str) -> None:
    env = MetaMathQAEnv(dataset_path=written(tmp_path / name))
    assert [env.reset(seed=seed)[0] for seed in range(3)] == ["What is 1 + 1?", "Half?", "What is 1 + 1?"]
    env.reset(seed=1)
    assert env.solve() == [r"\frac{1}{2}"]
    assert env.step("0.5")[1] == 1.0
    written(tmp_path / name, ROWS[:1])
    os.utime(tmp_path / name, ns=(1, 1))
    assert env.reset(seed=1)[0] == "What is 1 + 1?", "a file that changes is read again"
    assert MetaMathQAEnv(dataset_path=str(tmp_path / name), max_instances=1).reset(seed=1)[0] == "What is 1 + 1?"


def test_a_file_without_rows_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            MetaMathQAEnv(dataset_path=path)

    refused(str(tmp_path / "none.parquet"), "dataset_path: there is no file .*none.parquet. Leave dataset_path out")
    refused(
        written(tmp_path / "a.parquet", [{"question": "x", "response": "y"}]), "no column 'query'; it has question, r"
    )
    refused(written(tmp_path / "a.jsonl", [{"query": "x"}]), "has no column 'response'; it has query")
    refused(written(tmp_path / "b.jsonl", ROWS[1:2]), "none of the first 1 rows of .* has a query and a response with")
    (tmp_path / "c.parquet").write_text("no such thing")
    refused(str(tmp_path / "c.parquet"), "cannot be read as a Parquet file")
    (tmp_path / "c.jsonl").write_text("{no such thing")
    refused(str(tmp_path / "c.jsonl"), "cannot be read as JSON lines")
    refused(str(tmp_path), "there is no file")
    path = written(tmp_path / "fine.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(path, re.escape("not installed: pip install 'shoal[llm]'"))


def test_a_hub_that_cannot_be_reached_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigurationError, match=re.escape("not installed: pip install 'shoal[hf]'")):
        MetaMathQAEnv(dataset_path="meta-math/MetaMathQA")

    def load_dataset(path: str, split: str, cache_dir: str) -> None:
        raise ConnectionError(f"no route to {path} for {split}, nor in {cache_dir}")

    hub = ModuleType("datasets")
    hub.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    with pytest.raises(
        ConfigurationError,
        match="split='train' cannot be had from the Hugging Face hub: ConnectionError: no route to meta-math/MetaMathQA "
        "for train, nor in /.*/data.\n?.*What to do: give the path of a Parquet",
    ):
        MetaMathQAEnv(dataset_path="meta-math/MetaMathQA")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compare": ()}, r"compare must be one or more of 'text', 'number', 'math', got \(\)"),
        ({"compare": "maths"}, "compare must be one or more of 'text', 'number', 'math', got 'maths'"),
        ({"max_instances": 0}, "max_instances must be a whole number of at least 1, got 0"),
        ({"math_seconds": 0}, "math_seconds must be"),
        ({"split": ""}, "split must be a name such as 'train', got ''"),
        ({"dataset": "x"}, "MetaMathQAConfig has no field 'dataset'. Did you mean 'dataset_path'?"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MetaMathQAEnv(**settings)


# -- in workers --------------------------------------------------------------------------------------------------------------


def test_formulas_are_compared_in_workers_too(process_backend: str) -> None:
    ids: Any = [("shoal/MetaMathQA-v0", {"compare": ("text", "math"), "math_seconds": 10.0})] * 2
    with EnvList(ids, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=3)
        answers = [f"{answer} + 0" for (answer,) in envs.call("solve")]
        assert envs.step(answers).rewards == [1.0, 1.0]


def test_asking_for_the_world_imports_nothing_large() -> None:
    code = (
        "import sys, shoal; envs = shoal.make('shoal/MetaMathQA-v0', 2, backend='serial'); envs.reset(); envs.close(); "
        "print([name for name in ('sympy', 'math_verify', 'datasets', 'pyarrow', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
    assert shoal.__version__
