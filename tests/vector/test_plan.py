"""What is chosen when the choice is ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import BackendUnavailable, ParallelEnv
from shoal.vector import backends, cpus, plan
from shoal.vector.engine import Engine
from tests.envs import counting


def test_auto_is_serial_where_processes_gain_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan.make_plan(1, Engine(backend="auto")).backend == "serial"
    monkeypatch.setattr(plan, "usable_cpus", lambda: 1)
    assert plan.make_plan(64, Engine(backend="auto")).reason == "there is one processor, which a plain loop uses best"


def test_auto_uses_every_processor_but_no_more_workers_than_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "usable_cpus", lambda: 8)
    chosen = plan.make_plan(64, Engine(backend="auto"))
    assert (chosen.backend, chosen.num_workers) == ("shm", 8)
    assert plan.make_plan(3, Engine(backend="shm")).num_workers == 3
    assert plan.make_plan(3, Engine(backend="shm", num_workers=50)).num_workers == 3
    assert plan.make_plan(3, Engine(backend="serial", num_workers=50)).num_workers == 1


def test_without_processes_auto_is_serial_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "processes_unavailable", lambda: "no processes here")
    monkeypatch.setattr(plan, "processes_unavailable", lambda: "no processes here")
    with ParallelEnv([counting()] * 4) as envs:
        assert (envs.plan.backend, envs.plan.reason) == ("serial", "no processes here")
    with pytest.raises(BackendUnavailable, match='backend="shm" cannot run here: no processes here. Use "serial"'):
        ParallelEnv([counting()] * 4, backend="shm")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
        ({"cpu.max": "nonsense"}, None),
    ],
)
def test_the_control_groups_quota_is_read(tmp_path: Path, files: dict[str, str], expected: float | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpus._cgroup_quota(tmp_path, tmp_path / "none") == expected


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/pod/job\n", {"pod/job/cpu.max": "max 100000", "pod/cpu.max": "250000 100000"}, 2.5),
        ("0::/pod/job\n", {"pod/job/cpu.max": "50000 100000", "pod/cpu.max": "250000 100000"}, 0.5),
        ("0::/pod/job\n", {"other/cpu.max": "50000 100000"}, None),
        ("0::/../outside\n", {"cpu.max": "150000 100000"}, 1.5),
        (
            "4:cpu,cpuacct:/box\n2:memory:/elsewhere\n0::/\n",
            {"cpu/box/cpu.cfs_quota_us": "300000", "cpu/box/cpu.cfs_period_us": "100000"},
            3.0,
        ),
    ],
)
def test_quotas_of_nested_groups_count(tmp_path: Path, own: str, files: dict[str, str], expected: float | None) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    assert cpus._cgroup_quota(tmp_path / "groups", tmp_path / "own") == expected


def test_a_quota_limits_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(cpus, "_cgroup_quota", lambda: 2.5)
    assert cpus.usable_cpus() == 3
    monkeypatch.setattr(cpus, "_cgroup_quota", lambda: None)
    assert cpus.usable_cpus() == 16
