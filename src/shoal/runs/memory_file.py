"""What is too large to be kept with every checkpoint, such as a replay memory: a file of its own beside one, NumPy's ``.npz``.

It is written piece by piece from where it lies, without a copy of it in memory; and read back, it holds no code.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.runs.errors import CheckpointDamaged

if TYPE_CHECKING:
    import torch

MEMORY = "memory.npz"


def write_memory(path: Path, memory: Mapping[str, torch.Tensor]) -> None:
    """Make the file, on the disk when this returns."""
    with open(path / MEMORY, "xb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, tensor in memory.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, tensor.numpy(), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def read_memory(path: Path) -> dict[str, torch.Tensor]:
    """What was kept with the checkpoint; nothing if it is not there any more."""
    import torch

    try:
        with open(path / MEMORY, "rb") as file, np.load(file, allow_pickle=False) as saved:
            return {name: torch.from_numpy(saved[name]) for name in saved.files}
    except FileNotFoundError:
        return {}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointDamaged(
            f"the checkpoint {path} is damaged: {MEMORY} is not the file that was saved ({error})"
        ) from error
