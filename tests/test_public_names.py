"""What is public is said in one place."""

from __future__ import annotations

import importlib
import importlib.metadata
import re

import pytest

import shoal


@pytest.mark.parametrize("name", ["shoal", "shoal.meta", "shoal.runs", "shoal.vector", "shoal.vector.backends"])
def test_all_names_what_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, one) for one in module.__all__)


def test_the_version_is_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.\w+)?", shoal.__version__)
    assert importlib.metadata.version("shoal") == shoal.__version__
