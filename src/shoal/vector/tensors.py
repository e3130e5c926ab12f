"""Results as torch tensors, over the same memory as the arrays: no further copy.

Where there is a GPU, the copy that the caller is given is made into pinned memory, from which it travels to the GPU
without another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

Duplicate = Callable[[Array], Array]
"""How a copy is made."""


def check_output(output: str) -> None:
    """Refuse what is no kind of output, or cannot be had."""
    if output not in ("numpy", "torch"):
        raise ConfigurationError(f'output must be "numpy" or "torch", got {output!r}')
    if output == "torch":
        try:
            import torch  # noqa: F401
        except ImportError:
            raise ConfigurationError(
                "output=\"torch\" needs PyTorch, which is not installed: pip install 'shoal[train]'"
            ) from None


def duplicate_for(output: str) -> Duplicate:
    """How to make the copies that the caller is given."""
    if output == "torch":
        import torch

        if torch.cuda.is_available():
            return _duplicate_pinned
    return np.ndarray.copy


def _duplicate_pinned(array: Array) -> Array:
    import torch

    # Through torch, because NumPy cannot allocate pinned memory.
    pinned: Array = torch.empty_like(torch.from_numpy(array), pin_memory=True).numpy()
    pinned[...] = array
    return pinned


def as_tensors(value: Any) -> Any:
    """The arrays in ``value`` as tensors over the same memory; what torch has no type for stays as it is."""
    import torch

    if isinstance(value, np.ndarray):
        return torch.from_numpy(value) if value.dtype.kind in "biuf" and value.flags.writeable else value
    if isinstance(value, dict):
        return {key: as_tensors(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(as_tensors(part) for part in value)
    return value
