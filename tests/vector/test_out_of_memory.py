"""The system's own end of a process that takes too much: a control group that is out of memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marked import MarkedProgram

LIMIT = 600 * 2**20

PROGRAM = """
    import logging, os, sys
    from pathlib import Path
    Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))

    import numpy as np
    import shoal
    from tests.comparing import difference
    from tests.envs import WalkingEnv

    class GreedyEnv(WalkingEnv):
        eaten = []

        def __init__(self, marker):
            super().__init__()
            self.marker = marker

        def step(self, action):
            if self.marker and self.steps == 3 and not os.path.exists(self.marker):
                open(self.marker, "x").close()
                while True:
                    self.eaten.append(np.ones(2**20))
            return super().step(action)

    def roll_out(marker, **keywords):
        env_fns = [lambda marker=marker if row == 3 else "": GreedyEnv(marker) for row in range(4)]
        with shoal.ParallelEnv(env_fns, **keywords) as envs:
            results = [envs.reset(seed=5), *(envs.step([row % 3 for row in range(4)]) for _ in range(20))]
            return results, envs.stats.restarts

    logging.basicConfig(stream=sys.stdout)
    print("ready", flush=True)
    found, restarts = roll_out(sys.argv[2], backend="shm", num_workers=2, start_method={method!r})
    expected, _ = roll_out("", backend="serial")
    print(restarts, difference(found, expected))
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of processes that together may take only so much memory."""
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(parent) / f"shoal-test-{uuid.uuid4().hex}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():
            (group / limit).write_text(str(LIMIT))
            break
        group.rmdir()
    else:
        pytest.skip("control groups of memory cannot be made here")
    yield group
    group.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_worker_that_the_system_ends_for_its_memory_is_replaced(
    small_group: Path, tmp_path: Path, method: str
) -> None:
    with MarkedProgram(PROGRAM.format(method=method), arguments=[str(small_group), str(tmp_path / "m")]) as program:
        program.expect("ready")
        code, output, errors = program.end()
    assert (tmp_path / "m").exists(), "it did happen"
    assert (code, errors) == (0, ""), output
    report, _, last = output.rstrip().rpartition("\n")
    assert last.strip() == "1"
    assert "was killed by SIGKILL" in report
    assert "memory" in report
