"""Fixtures that every test has: the backends, and the proof that nothing was left behind."""

from __future__ import annotations

import compileall
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, Phase, settings

from shoal import ParallelEnv

BACKENDS = ("serial", "threads", "pipes", "shm")
PROCESS_BACKENDS = ("pipes", "shm")
WAYS_TO_START = tuple((backend, method) for backend in PROCESS_BACKENDS for method in ("forkserver", "spawn", "fork"))
SELDOM = (("pipes", "forkserver"), ("shm", "spawn"))
"""Ways that ``make soak`` alone tries: without them, too, every backend and every start method has its turn."""

# Without shrinking: an example here starts processes, and a failing one is small enough to read.
settings.register_profile(
    "shoal",
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shoal")


LONG = (
    "tests/adapters/",
    "tests/testing/",
    "tests/test_documentation.py",
    "tests/cli/",
    "tests/vector/test_killed_often.py",
    "tests/vector/test_planned_restarts.py",
    "tests/vector/test_interrupts.py",
    "tests/vector/test_orphans.py",
    "tests/vector/test_odd_environments.py",
    "tests/vector/test_signals.py",
    "tests/vector/test_resources.py",
    "tests/vector/test_shortening.py",
    "tests/vector/test_fault_matrix.py",
    "tests/vector/test_fallback.py",
    "tests/vector/test_lost_episodes.py",
    "tests/vector/test_post_mortem.py",
)
"""Where tests are thorough rather than quick."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile once what hundreds of processes import, since Python may have been told not to keep what it compiles."""
    if not hasattr(config, "workerinput"):
        for folder in ("src/shoal", "tests"):
            compileall.compile_dir(config.rootpath / folder, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to ``make test`` what takes long and seldom fails alone: whole programs, and every further way to start."""
    for item in items:
        if item.nodeid.startswith(LONG) or "spawn" in item.name or "forkserver" in item.name:
            item.add_marker(pytest.mark.slow)
        if way_of(item) in SELDOM:
            item.add_marker(pytest.mark.soak)


def way_of(item: pytest.Item) -> tuple[object, ...]:
    """The backend and the start method of a test that is there for several of both."""
    values = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    both = values.get("way", (values.get("process_backend", values.get("name")), values.get("method")))
    return both if isinstance(both, tuple) else ()


def pytest_collection_finish() -> None:
    """What has been imported stays. Saying so makes the collections of garbage around every test ten times quicker."""
    keep_what_was_imported()


def keep_what_was_imported() -> None:
    """Leave out of every further collection what is there now."""
    global _num_kept
    gc.collect()
    gc.freeze()
    _num_kept = len(sys.modules)


_num_kept = 0
"""How many modules there were then."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Every backend."""
    name: str = request.param
    return name


@pytest.fixture(params=PROCESS_BACKENDS)
def process_backend(request: pytest.FixtureRequest) -> str:
    """Every backend with worker processes."""
    name: str = request.param
    return name


@pytest.fixture(
    params=[("serial", None), ("threads", None), *WAYS_TO_START], ids=lambda way: "-".join(filter(None, way))
)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every backend with every start method, as keywords."""
    name, method = request.param
    return {"backend": name, "start_method": method}


@pytest.fixture
def make(backend: str) -> Iterator[Callable[..., ParallelEnv]]:
    """A factory of environments on every backend, closed at the end. Forks, because that is the quickest start."""
    yield from _maker({"backend": backend, "num_workers": 2, "start_method": "fork"})


@pytest.fixture
def make_any_way(way: dict[str, Any]) -> Iterator[Callable[..., ParallelEnv]]:
    """A factory of environments on every backend and start method, closed at the end."""
    yield from _maker({**way, "num_workers": 2})


def _maker(defaults: dict[str, Any]) -> Iterator[Callable[..., ParallelEnv]]:
    made: list[ParallelEnv] = []

    def make(env_fns: Any, **keywords: Any) -> ParallelEnv:
        made.append(ParallelEnv(env_fns, **{**defaults, **keywords}))
        return made[-1]

    yield make
    for envs in made:
        envs.close(terminate=True) if envs._session.pending else envs.close()


class Belongings:
    """What this process holds: children, descriptors, threads, shared memory."""

    def __init__(self) -> None:
        gc.collect()
        self.children = {child.pid for child in psutil.Process().children(recursive=True)}
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.threads = set(threading.enumerate())
        self.files = {path for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob("*shoal-*")}

    def left_since(self, before: Belongings) -> list[str]:
        left = [f"child {pid}" for pid in self.children - before.children]
        left += [f"thread {thread.name}" for thread in self.threads - before.threads]
        left += [str(path) for path in self.files - before.files]
        if self.descriptors > before.descriptors:
            left.append(f"{self.descriptors - before.descriptors} descriptors")
        return left


@pytest.fixture(scope="session", autouse=True)
def kept_catalogues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Shops that tests make are not kept among the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_CACHE", str(tmp_path_factory.mktemp("catalogues")))
        yield


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Every test must leave this process as it found it."""
    before = Belongings()
    yield
    deadline = time.monotonic() + 5.0
    while (left := Belongings().left_since(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"left behind: {left}"
    if len(sys.modules) > _num_kept + 50:  # some tests are the first to need a large library
        keep_what_was_imported()
