"""One process at a time trains in a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.runs.claim import CLAIM, claimed
from tests.marked import MarkedProgram


def test_a_folder_is_claimed_by_one_and_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(tmp_path) as problem:
            assert problem is None
            with (
                pytest.raises(
                    shoal.StateError,
                    match=rf"is being trained by process {os.getpid()} on {platform.node()}: .*What to do: wait until",
                ),
                claimed(tmp_path),
            ):
                pass


def test_whoever_has_not_been_able_to_give_a_name_holds_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with claimed(tmp_path):
        with pytest.raises(shoal.StateError, match="is being trained by another process"), claimed(tmp_path):
            pass
        monkeypatch.setattr(os, "pread", refuse)
        with pytest.raises(shoal.StateError, match="is being trained by another process"), claimed(tmp_path):
            pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_ends_no_training(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with claimed(tmp_path) as problem:
        assert problem is not None
        assert problem.endswith(f"because it cannot be locked: {os.strerror(number)}")


def test_a_system_without_locks_ends_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.runs.claim.fcntl", None)
    with claimed(tmp_path) as problem:
        assert problem is not None
        assert problem.startswith(f"training goes on, but nobody is kept from resuming {tmp_path} meanwhile")


def test_a_disk_that_can_only_be_read_ends_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with claimed(tmp_path) as problem:
            assert problem is not None
            assert "Read-only file system" in problem
    assert not (tmp_path / CLAIM).exists()


@pytest.mark.parametrize("how", ["fork", "spawn", "exec"])
def test_a_child_that_outlives_its_parent_does_not_keep_the_folder(how: str, tmp_path: Path) -> None:
    code = """
        import multiprocessing, subprocess, sys, time
        from pathlib import Path
        from shoal.runs.claim import claimed

        if __name__ == "__main__":
            with claimed(Path(sys.argv[1])):
                if sys.argv[2] == "exec":
                    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
                else:
                    multiprocessing.get_context(sys.argv[2]).Process(target=time.sleep, args=(600,)).start()
                time.sleep(0.3)
                print("claimed", flush=True)
                time.sleep(600)
    """
    with MarkedProgram(code, [str(tmp_path), how]) as program:
        program.expect("claimed")
        with (
            pytest.raises(shoal.StateError, match=f"is being trained by process {program.process.pid}"),
            claimed(tmp_path),
        ):
            pass
        program.process.kill()
        program.process.wait()
        assert program.others(), "the child lives on"
        with claimed(tmp_path) as problem:
            assert problem is None
