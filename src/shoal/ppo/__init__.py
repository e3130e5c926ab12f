"""PPO on parallel environments. ``shoal train`` is the command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from shoal.ppo.config import PPOConfig
from shoal.ppo.report import Goal, Report
from shoal.runs.training.needs import check_that_training_is_installed

if TYPE_CHECKING:
    from shoal.ppo.evaluating import Evaluation
    from shoal.ppo.trainer import PPOTrainer

__all__ = ["Evaluation", "Goal", "PPOConfig", "PPOTrainer", "Report"]

# Loaded when they are asked for, because torch takes seconds, and who only asks for help may not have it.
_PLACES = {"Evaluation": "shoal.ppo.evaluating", "PPOTrainer": "shoal.ppo.trainer"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'shoal.ppo' has no attribute {name!r}")
    check_that_training_is_installed()
    return getattr(importlib.import_module(_PLACES[name]), name)
