"""What stops workers from starting is said with the limit or the module, and with what to do."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.scripts import run_script


def test_too_many_open_files_is_said_with_the_limit_and_the_remedy() -> None:
    done = run_script("""
        import os, resource, shoal
        from shoal.meta import make_parallel_env
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        before = os.listdir("/proc/self/fd")
        try:
            make_parallel_env("Wind-v0", 2, num_workers=32, backend="shm", num_processes=32)
        except shoal.ConfigurationError as error:
            print(error)
        print(os.listdir("/proc/self/fd") == before)
        make_parallel_env("Wind-v0", 2, num_workers=32).close()  # as many environments need no more files
    """)
    assert done.stdout.startswith("32 workers need about 1"), done.stderr
    assert (
        "open files, and this process may have 60: use fewer workers (num_processes=), or raise the limit (ulimit -n)"
        in (done.stdout)
    )
    assert done.stdout.endswith("Nothing was started.\nTrue\n")


def test_no_file_at_all_is_said_too() -> None:
    done = run_script("""
        import os, resource, shoal
        from shoal.meta import make_parallel_env
        make_parallel_env("Wind-v0", 2, 2, backend="shm", num_processes=2, start_method="fork").close()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        held = []
        try:
            while True: held.append(os.open(os.devnull, 0))
        except OSError: pass
        for descriptor in held[:3]: os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        try:
            make_parallel_env("Wind-v0", 2, num_workers=2, backend="shm", num_processes=2, start_method="fork")
        except (shoal.ConfigurationError, shoal.OutOfDescriptors) as error:
            print(error)
    """)
    assert "2 workers need about" in done.stdout, done.stderr
    assert "this process may have 200" in done.stdout
    assert "ulimit -n" in done.stdout


def test_a_module_that_a_worker_cannot_import_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium\ngymnasium.register('Mine-v0', entry_point='not_installed.at_all:Env')\n"
    )
    done = run_script(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import shoal
        from shoal.meta import make_parallel_env
        for backend in ("serial", "shm"):
            try:
                make_parallel_env("my_worlds:Mine-v0", 2, num_workers=2, backend=backend)
            except ModuleNotFoundError as error:
                print(isinstance(error, shoal.EnvError), "not_installed" in str(error))
                print(error)
    """)
    assert done.stdout.count("True True\nenvironment 0 ") == 2, done.stderr
    assert done.stdout.count("raised ModuleNotFoundError: No module named 'not_installed'") == 2
    assert (
        done.stdout.count(f"What to do: install what is missing for {sys.executable}. A module of yours must be") == 2
    )


def test_what_is_missing_of_shoals_own_is_said_once_and_with_its_own_words() -> None:
    done = run_script("""
        import sys
        import shoal
        from shoal.meta import make_parallel_env
        sys.modules["mujoco"] = None
        try:
            make_parallel_env("AntDir-v0", 2, num_workers=2, backend="serial")
        except ModuleNotFoundError as error:
            print(error)
    """)
    assert "pip install 'shoal[mujoco]'" in done.stdout, done.stderr
    assert "What to do" not in done.stdout
