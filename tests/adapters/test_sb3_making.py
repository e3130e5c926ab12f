"""``make_vec_env``: what it makes is what Stable-Baselines3's own makes, and what happens without Stable-Baselines3."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env as make_dummy_vec_env
from stable_baselines3.common.monitor import Monitor

import shoal
from shoal.adapters.sb3 import make_vec_env
from tests.adapters.rollouts import rollout
from tests.adapters.worlds import world
from tests.comparing import difference
from tests.envs import counting


def without_times(results: list[Any]) -> list[Any]:
    """A rollout without what Monitor says of the clock."""
    for result in results:
        if isinstance(result, tuple) and len(result) == 4:
            for info in result[3]:
                info.get("episode", {}).pop("t", None)
    return results


@pytest.mark.parametrize(
    ("env", "keywords"),
    [
        ("CartPole-v1", {"env_kwargs": {"max_episode_steps": 7}}),
        (world("dict"), {"env_kwargs": {"render_mode": "human"}, "monitor_kwargs": {"info_keywords": ("kind",)}}),
        (world("box"), {"wrapper_class": gymnasium.wrappers.TimeLimit, "wrapper_kwargs": {"max_episode_steps": 2}}),
    ],
    ids=["id", "callable", "wrapper"],
)
def test_what_is_made_is_what_sb3_makes(env: Any, keywords: dict[str, Any], backend: str) -> None:
    theirs = make_dummy_vec_env(env, 3, seed=8, **keywords)
    ours = make_vec_env(env, 3, seed=8, backend=backend, num_workers=2, start_method="fork", **keywords)
    assert ours.render_mode == theirs.render_mode
    assert ours.env_is_wrapped(Monitor) == [True] * 3
    samples = [[env.action_space.sample() for _ in range(5)] for env in (theirs, ours)]
    assert difference(samples[0], samples[1]) == ""
    assert difference(without_times(rollout(theirs)), without_times(rollout(ours))) == ""
    ours.close()


def test_a_list_has_one_environment_each() -> None:
    env = make_vec_env([counting(1), counting(2)], backend="serial")
    assert env.num_envs == 2
    env.reset()
    assert env.step(np.zeros(2, np.int64))[2].tolist() == [True, False]
    env.close()


def test_without_a_seed_the_first_reset_is_seeded_from_numpys_random_numbers() -> None:
    observations = []
    for _ in range(2):
        np.random.seed(1)
        env = make_vec_env("CartPole-v1", 2, backend="serial")
        observations.append(env.reset())
        env.close()
    assert difference(observations[0], observations[1]) == ""


def test_an_environment_without_a_render_mode_can_be_made() -> None:
    spec = gymnasium.envs.registration.EnvSpec("Counting-v0", entry_point="tests.envs:CountingEnv")
    with pytest.warns(UserWarning, match="not in the possible render_modes"):  # as with SB3's own
        env = make_vec_env(spec, 2, backend="serial", env_kwargs={"length": 2})
    assert env.render_mode is None
    assert env.get_attr("length") == [2, 2]
    env.close()


def test_monitors_write_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    env = make_vec_env(counting(), 2, monitor_dir=str(folder), backend="shm", start_method="fork")
    env.reset()
    for _ in range(3):
        env.step(np.ones(2, np.int64))
    env.close()
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["0.monitor.csv", "1.monitor.csv"]
    assert all(file.read_text().splitlines()[2].startswith("3.0,3,") for file in files)


@pytest.mark.parametrize(
    ("keyword", "message"),
    [
        ("n_envs", "no keyword 'n_envs': did you mean 'num_envs'"),
        ("start_methode", "no keyword 'start_methode': did you mean 'start_method'"),
        ("autoreset_mode", r"no keyword 'autoreset_mode'\. Keywords for the environment go into env_kwargs"),
    ],
)
def test_unknown_keywords_are_refused(keyword: str, message: str) -> None:
    with pytest.raises(shoal.ConfigurationError, match=message):
        make_vec_env("CartPole-v1", 2, **{keyword: 2})  # type: ignore[arg-type]


def test_nothing_is_left_if_environments_cannot_be_wrapped() -> None:
    env_fns = [world("box", render_mode=mode) for mode in ("human", None)]
    with pytest.raises(AssertionError, match="render_mode mode should be the same"):
        make_vec_env(env_fns, backend="shm", start_method="fork")


# -- the extra ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["stable_baselines3", "torch"])
def test_a_missing_extra_says_how_to_install_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("stable_baselines3")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "shoal.adapters.sb3")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError) as caught:
        importlib.import_module("shoal.adapters.sb3")
    assert str(caught.value) == (
        f"shoal.adapters.sb3 needs {missing}, which is not installed: pip install 'shoal[sb3]'"
    )


def test_another_missing_module_is_named_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "stable_baselines3.py").write_text("import something_else")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import shoal.adapters.sb3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'something_else'\n")


def test_shoal_itself_loads_neither_sb3_nor_torch() -> None:
    code = "import shoal, sys; sys.exit(bool({'stable_baselines3', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
