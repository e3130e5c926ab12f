"""One checkpoint: a folder with files that prove that they belong together and are what was saved.

    step_000012345/
      tensors.safetensors     all tensors
      state.json              everything else; the checksum of the tensors; and, first, a checksum of all this
      memory.npz              in the last one alone: what is too large for every one (memory_file.py)

Reading one never runs anything: neither format can hold code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.runs import state_json, tensor_bytes
from shoal.runs.durable import reason_of, sync_folder, write_new
from shoal.runs.errors import CheckpointDamaged
from shoal.runs.memory_file import read_memory, write_memory

if TYPE_CHECKING:
    import torch

TENSORS, STATE = "tensors.safetensors", "state.json"
FORMAT = 1


class Checkpoint(NamedTuple):
    """What was saved."""

    tensors: dict[str, torch.Tensor]
    """On the CPU."""
    state: dict[str, Any]
    step: int


class Heading(NamedTuple):
    """What can be known of a checkpoint without its tensors."""

    number: int
    """Checkpoints of a run are counted as they are saved: a run that was resumed may save an earlier step after a later one."""
    step: int
    score: float | None


class Contents(NamedTuple):
    """What the files hold."""

    tensors: bytes
    state: bytes
    memory: Mapping[str, torch.Tensor]

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.tensors) + len(self.state) + sum(one.nbytes for one in self.memory.values())


def contents_of(
    heading: Heading,
    tensors: Mapping[str, torch.Tensor],
    state: Mapping[str, Any],
    memory: Mapping[str, torch.Tensor],
) -> Contents:
    """Put a checkpoint into bytes, all but its memory, before anything is written."""
    data = tensor_bytes.as_bytes(tensors)
    document = {
        "format": FORMAT,
        "number": heading.number,
        "step": heading.step,
        "score": state_json.encode(heading.score),
        "tensors_sha256": _digest(data),
        "state": state_json.encode(state),
    }
    text = json.dumps({"sha256": _digest_of_document(document), **document}, allow_nan=False)
    return Contents(data, text.encode(), memory)


def write_contents(path: Path, contents: Contents) -> None:
    """Make the folder with the files, on the disk when this returns."""
    os.mkdir(path)
    if contents.memory:
        write_memory(path, contents.memory)
    write_new(path / TENSORS, contents.tensors)
    write_new(path / STATE, contents.state)
    sync_folder(path)


def read_heading(path: Path) -> Heading:
    """Of the checkpoint in this folder, if its ``state.json`` is whole."""
    document = _read_document(path)
    return Heading(document["number"], document["step"], state_json.decode(document["score"]))


def read_checkpoint(path: Path) -> Checkpoint:
    """All of it. Raises :class:`CheckpointDamaged` if it is not exactly what was saved."""
    document = _read_document(path)
    data = _read(path, TENSORS)
    if _digest(data) != document["tensors_sha256"]:
        raise CheckpointDamaged(
            f"the checkpoint {path} is damaged: {TENSORS} ({len(data):,} bytes) is not the file that was saved"
        )
    try:
        tensors = {**tensor_bytes.from_bytes(data), **read_memory(path)}
        return Checkpoint(tensors, state_json.decode(document["state"]), document["step"])
    except (tensor_bytes.NotTensors, state_json.NotEncoded) as error:
        raise CheckpointDamaged(f"the checkpoint {path} is damaged: {error}") from error


def _read_document(path: Path) -> dict[str, Any]:
    text = _read(path, STATE)
    try:
        document = json.loads(text)
        digest = document.pop("sha256")
        is_whole = _digest_of_document(document) == digest
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CheckpointDamaged(
            f"the checkpoint {path} is damaged: {STATE} ({len(text):,} bytes) is not the file that was saved"
        ) from error
    if not is_whole:
        raise CheckpointDamaged(f"the checkpoint {path} is damaged: {STATE} was changed after it was saved")
    if document["format"] != FORMAT:
        raise CheckpointDamaged(
            f"the checkpoint {path} was saved in version {document['format']} of the format, "
            f"and this Shoal reads version {FORMAT}"
        )
    whole: dict[str, Any] = document
    return whole


def _read(path: Path, name: str) -> bytes:
    try:
        return (path / name).read_bytes()
    except FileNotFoundError:
        raise CheckpointDamaged(f"the checkpoint {path} is damaged: it has no {name}") from None
    except OSError as error:
        raise CheckpointDamaged(f"the checkpoint {path} cannot be read: {name}: {reason_of(error)}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of_document(document: Mapping[str, Any]) -> str:
    """Of the values, however they are laid out."""
    return _digest(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
