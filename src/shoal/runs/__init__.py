"""What a training run leaves behind: its settings, its metrics, its checkpoints and a picture.

    folder = RunFolder.create("runs", "shoal/CartPole-v0", "ppo", seed=1, config={"learning_rate": 3e-4})
    checkpoints = Checkpoints(folder, keep_last=3)
    with MetricsLog(folder) as log:
        log.write(2048, {"charts/episodic_return": 21.5})
        checkpoints.save(2048, model.state_dict(), {"updates": 1}, score=21.5)
    draw_learning_curve(read_metrics(folder), folder.path / "learning_curve.png", "CartPole")

A training that is killed, or finds the disk full, leaves everything readable. Importing this loads neither torch nor
matplotlib.
"""

from __future__ import annotations

from shoal.runs.checkpoint_files import Checkpoint
from shoal.runs.checkpoints import Checkpoints
from shoal.runs.curve import draw_learning_curve
from shoal.runs.errors import CheckpointDamaged, CheckpointNotSaved
from shoal.runs.folder import RunFolder
from shoal.runs.metrics import MetricsLog, read_metrics

__all__ = [
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointNotSaved",
    "Checkpoints",
    "MetricsLog",
    "RunFolder",
    "draw_learning_curve",
    "read_metrics",
]
