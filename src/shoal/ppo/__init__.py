"""PPO on parallel environments. ``shoal train`` is the command."""

from shoal.ppo.config import PPOConfig
from shoal.ppo.evaluating import Evaluation
from shoal.ppo.report import Goal, Report
from shoal.ppo.trainer import PPOTrainer

__all__ = ["Evaluation", "Goal", "PPOConfig", "PPOTrainer", "Report"]
