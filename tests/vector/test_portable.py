"""The way that is taken where there is no memfd and no epoll."""

from __future__ import annotations

import os

import pytest

from tests.scripts import run_script


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
def test_the_portable_way_gives_the_same(method: str) -> None:
    done = run_script(
        f"""
        import shoal, tests.comparing as comparing
        from tests.envs import counting
        results = []
        for backend in ("serial", "pipes", "shm"):
            with shoal.ParallelEnv([counting(3)] * 5, backend=backend, num_workers=2, start_method={method!r}) as envs:
                results.append(comparing.rollout(envs, 9))
        assert not comparing.difference(results[0], results[1])
        assert not comparing.difference(results[0], results[2])
        """,
        env={**os.environ, "SHOAL_PORTABLE": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_worker_that_dies_is_noticed_the_portable_way_too() -> None:
    done = run_script(
        """
        import shoal
        from tests.envs import DyingEnv
        envs = shoal.ParallelEnv([DyingEnv] * 2, backend="shm", num_workers=2, on_fault="raise")
        envs.reset()
        try:
            envs.step([0, 4])
        except shoal.WorkerDied as error:
            print(str(error).splitlines()[0].split(")")[1])
        """,
        env={**os.environ, "SHOAL_PORTABLE": "1"},
    )
    assert (done.stdout, done.stderr) == (" was killed by SIGKILL while stepping environment 1.\n", "")
