"""Tensors as the bytes of a safetensors file, and back. Torch and safetensors are imported here alone, and when needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.runs.installed import is_installed
from shoal.vector.errors import ConfigurationError

if TYPE_CHECKING:
    import torch


RESERVED = "__metadata__"


class NotTensors(ValueError):
    """These bytes are no safetensors file."""


def check_installed() -> None:
    """Say so at once if checkpoints cannot be written here, and not after an hour of training."""
    missing = [package for package in ("torch", "safetensors") if not is_installed(package)]
    if missing:
        raise ConfigurationError(
            f"checkpoints need {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'} not installed: "
            "pip install 'shoal[train]'"
        )


def as_bytes(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """A safetensors file of these, wherever they are and whatever memory they share."""
    import torch
    from safetensors.torch import save

    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ConfigurationError(f"tensors[{name!r}] must be a tensor under a string, got {type(tensor)}")
        if name == RESERVED:
            raise ConfigurationError(
                f"the format of safetensors keeps the name {name!r} for itself: call the tensor otherwise"
            )
    try:
        # Tensors that share memory are refused by the format; these have each their own.
        own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        return bytes(save(own))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"these tensors cannot be saved as safetensors: {type(error).__name__}: {error}"
        ) from error


def from_bytes(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, on the CPU. Raises :class:`NotTensors` if it is none."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(load(data))
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise NotTensors(str(error)) from error
