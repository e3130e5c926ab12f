"""A batch is as many single games, on every backend, and compiled rules are the rules."""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode

import shoal
from shoal import ParallelEnv
from shoal.envs.cage2 import Cage2Env
from tests.comparing import difference, rollout
from tests.scripts import run_script

N = 5
CHOICES: list[dict[str, Any]] = [
    {"red": "B_line", "max_steps": 30},
    {"red": "Meander", "green": "Scan", "max_steps": 20, "actions": "reduced", "scan_memory": True},
]


@pytest.mark.parametrize("choice", CHOICES, ids=["B_line", "Meander"])
@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_a_batch_is_as_many_single_games(backend: str, mode: AutoresetMode, choice: dict[str, Any]) -> None:
    singles = [functools.partial(Cage2Env, **choice) for _ in range(N)]
    with ParallelEnv(singles, backend="serial", autoreset_mode=mode) as envs:
        expected = rollout(envs, 70)
    workers: dict[str, Any] = {} if backend == "serial" else {"num_workers": 2, "start_method": "fork"}
    with shoal.make("shoal/Cage2-v0", N, backend=backend, autoreset_mode=mode, **workers, **choice) as envs:
        found = rollout(envs, 70)
    assert sum(step[3].sum() for step in found[1:]) >= 2 * N, "episodes have ended"
    assert not difference(found, expected)


DIGEST = """
import hashlib, numpy as np, shoal
digest = hashlib.sha256()
for red, green in (("B_line", "Sleep"), ("Meander", "Scan")):
    with shoal.make("shoal/Cage2-v0", 4, red=red, green=green, max_steps=50, backend="serial") as envs:
        observation, _ = envs.reset(seed=5)
        random = np.random.default_rng(0)
        for _ in range(150):
            results = envs.step(random.integers(145, size=4))
            for array in results[:4]:
                digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_compiled_rules_are_the_rules() -> None:
    compiled = run_script(DIGEST)
    plain = run_script(DIGEST, env={**os.environ, "SHOAL_COMPILE": "0"})
    assert compiled.returncode == plain.returncode == 0, compiled.stderr + plain.stderr
    assert compiled.stdout == plain.stdout
    assert len(compiled.stdout) == 65


def test_a_killed_worker_loses_no_game(process_backend: str) -> None:
    import signal

    with shoal.make("shoal/Cage2-v0", 6, red="Meander", backend=process_backend, num_workers=2) as envs:
        expected = rollout(envs, 60)
    with shoal.make("shoal/Cage2-v0", 6, red="Meander", backend=process_backend, num_workers=2) as envs:
        envs.action_space.seed(7)
        found: list[Any] = [envs.reset(seed=7)]
        for step in range(60):
            if step == 30:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            found.append(envs.step(envs.action_space.sample()))
        assert envs.stats.restarts == 1
    assert not difference(found, expected)
