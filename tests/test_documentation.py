"""Every snippet and every example runs, as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(code, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(*command: str) -> str:
    without_screen = {**os.environ, "SDL_VIDEODRIVER": "dummy"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, env=without_screen)
    assert done.returncode == 0, done.stderr
    # What is compiled for the first time is announced.
    assert not [line for line in done.stderr.splitlines() if not line.startswith("compiling ")]
    return done.stdout


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet_runs(code: str) -> None:
    run(sys.executable, "-W", "error", "-c", code)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_says_something(path: Path) -> None:
    assert run(sys.executable, "-W", "error", str(path))


def test_examples_are_numbered_without_gaps() -> None:
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))


def test_the_proof_of_sameness_holds() -> None:
    lines = run(sys.executable, str(ROOT / "examples/03_the_same_everywhere.py")).splitlines()
    assert len({line.split()[-1] for line in lines}) == 1


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_that_are_promised_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    promised = {
        verb
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for verb in re.findall(r"`make ([a-z-]+)`", page.read_text())
    }
    assert promised >= {"setup", "check", "test", "bench", "demo"}
    assert all(f"\n{verb}:" in makefile for verb in promised)
