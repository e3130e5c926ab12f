"""Other places that metrics can go to: TensorBoard's event files, and Weights & Biases.

Each is a package that need not be installed, and is imported when the first metrics are written. Whatever goes wrong in
them is caught by :class:`shoal.runs.MetricsLog`, which guards them.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from shoal.runs.installed import is_installed
from shoal.vector.errors import ConfigurationError

WANDB_ID = "wandb_id.txt"


class EventWriter(Protocol):
    """Takes metrics somewhere else. Any of its methods may raise anything."""

    name: str
    """What users call it."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Take these there."""

    def resume_at(self, step: int) -> None:
        """What was written after this step is void."""

    def close(self) -> None:
        """Write what is still underway."""


class TensorBoardWriter:
    """Event files in the folder of the run, for ``tensorboard --logdir``."""

    name = "TensorBoard"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_step: int | None = None
        self._writer: Any = None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add a scalar for each."""
        if self._writer is None:
            self._writer = self._open()
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def _open(self) -> Any:
        for package, extra in (("tensorboard", "tensorboard"), ("torch", "train")):
            if not is_installed(package):
                raise ConfigurationError(f"{package} is not installed: pip install 'shoal[{extra}]'")
        module: Any = importlib.import_module("torch.utils.tensorboard")
        return module.SummaryWriter(log_dir=str(self._path), purge_step=self._first_step, flush_secs=10)

    def resume_at(self, step: int) -> None:
        """Begin another file, which tells TensorBoard to leave out what others say of later steps."""
        self.close()
        self._first_step = step + 1

    def close(self) -> None:
        """End its thread, which writes what is left."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class WandbWriter:
    """A run of Weights & Biases. A run that is resumed here is resumed there, because its id is kept in the folder."""

    name = "Weights & Biases"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._run: Any = None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Log all of them at once."""
        if self._run is None:
            self._run = self._start()
        self._run.log(dict(values), step=step)

    def _start(self) -> Any:
        if not is_installed("wandb"):
            raise ConfigurationError("wandb is not installed: pip install 'shoal[wandb]'")
        wandb: Any = importlib.import_module("wandb")
        return wandb.init(project="shoal", name=self._path.name, id=self._id(), resume="allow", dir=str(self._path))

    def _id(self) -> str:
        file = self._path / WANDB_ID
        if not file.exists():
            file.write_text(f"{uuid.uuid4().hex[:12]}\n", encoding="utf-8")
        return file.read_text(encoding="utf-8").strip()

    def resume_at(self, step: int) -> None:
        """Nothing: steps that it has seen are ignored there."""

    def close(self) -> None:
        """Upload what is left."""
        run, self._run = self._run, None
        if run is not None:
            run.finish()
