"""Catalogues on disk: made once, in one process, and mapped into the memory of all that use them.

Records are JSON, one after the other in a file, with an array of where each begins. They are read one at a time, when a page
shows them, so a process holds only those that it has looked at lately; the pages of the file are the system's, and shared.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

NUM_KEPT = 128
"""So many records of a kind a process keeps."""


def cache_folder(cache_dir: str | None) -> Path:
    """Where catalogues are kept."""
    if cache_dir is not None:
        return Path(cache_dir).expanduser().absolute()
    if "SHOAL_CACHE" in os.environ:
        return Path(os.environ["SHOAL_CACHE"]).absolute() / "webshop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "webshop"


def stored(folder: Path, key: Sequence[Any], write: Callable[[Path], None]) -> Path:
    """The folder of what ``write`` makes for this key. If it is not there yet, it is made, by one process at a time."""
    name = hashlib.sha256(json.dumps([_digest_of_code(), *key]).encode()).hexdigest()[:24]
    place = folder / name
    if place.is_dir():
        return place
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of one that dies, the system lets go
            if not place.is_dir():
                begun = folder / f"{name}.begun"
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir(mode=0o700)
                write(begun)
                begun.rename(place)
    except OSError as error:
        raise ConfigurationError(
            f"WebShop: the catalogue cannot be kept in {folder}: {error}. Name another folder with cache_dir"
        ) from error
    return place


@functools.cache
def _digest_of_code() -> str:
    """What the code is that makes catalogues: another one makes others."""
    sources = sorted(one for one in Path(__file__).parent.iterdir() if one.suffix in (".py", ".json"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def write_records(path: Path, records: Iterable[Any]) -> int:
    """Write them; returns how many there were."""
    starts = [0]
    with path.open("wb") as file:
        for record in records:
            starts.append(starts[-1] + file.write(json.dumps(record, ensure_ascii=False).encode()))
    np.save(path.with_suffix(".npy"), np.array(starts, np.int64))
    return len(starts) - 1


class Records:
    """Reads records from where they were written, and keeps some of them."""

    def __init__(self, path: Path) -> None:
        starts: Array = np.load(path.with_suffix(".npy"), mmap_mode="r").view(np.ndarray)
        self._num = len(starts) - 1
        self._read = functools.lru_cache(NUM_KEPT)(functools.partial(_record, starts, np.memmap(path, np.uint8, "r")))

    def __len__(self) -> int:
        return self._num

    def __getitem__(self, number: int) -> Any:
        return self._read(number)


def _record(starts: Array, file: Array, number: int) -> Any:
    return json.loads(file[starts[number] : starts[number + 1]].tobytes())


one_at_a_time = threading.Lock()
"""Threads make a catalogue one after the other: the second finds it."""
