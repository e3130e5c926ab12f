"""Without torch, the command still works, and says what training needs."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import shoal
import shoal.ppo
from shoal.cli.main import main
from tests.scripts import run_script


def without(*missing: str) -> Any:
    found = importlib.util.find_spec
    return lambda name, *rest: None if name in missing else found(name, *rest)


@pytest.mark.parametrize("arguments", [["train", "--num-episodes", "3"], ["eval", "somewhere"]])
def test_what_is_missing_is_named(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without("torch", "numba"))
    assert main(arguments) == 1
    assert capsys.readouterr().err.split("\n")[0] == (
        "error: training needs torch, numba, which are not installed: pip install 'shoal[train]'"
    )


def test_the_trainer_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without("safetensors"))
    with pytest.raises(
        shoal.ConfigurationError, match="training needs safetensors, which is not installed: pip install"
    ):
        shoal.ppo.PPOTrainer  # noqa: B018


def test_what_is_not_there_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'shoal.ppo' has no attribute 'PPOTrainr'"):
        shoal.ppo.PPOTrainr  # noqa: B018


def test_the_demo_leaves_out_what_it_cannot_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    from shoal.cli.defence import defend

    monkeypatch.setattr(importlib.util, "find_spec", without("torch"))
    defend(Console(width=200), steps=10, seed=0, root=None)  # type: ignore[arg-type]
    assert (
        "The second part trains a policy, for which torch is missing: pip install 'shoal[train]'"
        in capsys.readouterr().out
    )


def test_the_command_is_there_without_torch() -> None:
    done = run_script("import shoal.cli.main, shoal.ppo, sys\nprint(sorted({'torch', 'numba'} & set(sys.modules)))")
    assert done.stdout.strip() == "[]"
