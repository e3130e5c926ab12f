"""Worlds are known by name, and what is assigned or installed is known from then on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from shoal import ConfigurationError
from shoal.envs.texts.bandit import BanditConfig, BanditEnv
from shoal.envs.texts.text_env import TextEnv
from shoal.llm import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType, registry
from tests.scripts import run_script


class MineConfig:
    pass


class MineEnv(BanditEnv):
    pass


@pytest.mark.parametrize("env_type", ["sokoban", "frozen_lake", "bandit", "countdown", "webshop", "metamathqa"])
def test_our_own_worlds_are_there_with_their_configs(env_type: str) -> None:
    world = REGISTERED_ENVS[env_type]
    assert issubclass(world, TextEnv)
    assert REGISTERED_ENV_CONFIGS[env_type] is world.config_class
    env = world(REGISTERED_ENV_CONFIGS[env_type]())
    assert env.reset(seed=1)[0]


def test_they_are_mappings() -> None:
    for mapping in (REGISTERED_ENVS, REGISTERED_ENV_CONFIGS):
        assert isinstance(mapping, MutableMapping)
        assert list(mapping)[:6] == ["sokoban", "frozen_lake", "bandit", "countdown", "webshop", "metamathqa"]
        assert len(mapping) == len(list(mapping)) >= 6
        assert "bandit" in mapping
        assert "bandid" not in mapping
        assert mapping.get("bandid") is None
    assert REGISTERED_ENVS.get("bandit") is BanditEnv
    assert REGISTERED_ENV_CONFIGS.get("bandit") is BanditConfig


def test_an_assignment_makes_a_world_known() -> None:
    REGISTERED_ENVS["mine"] = MineEnv
    try:
        assert REGISTERED_ENVS["mine"] is MineEnv
        configs: list[Any] = [REGISTERED_ENV_CONFIGS["mine"]]
        assert "mine" in REGISTERED_ENV_CONFIGS
        REGISTERED_ENV_CONFIGS["mine"] = MineConfig
        configs.append(REGISTERED_ENV_CONFIGS["mine"])
        del REGISTERED_ENV_CONFIGS["mine"]
        configs.append(REGISTERED_ENV_CONFIGS["mine"])
        assert configs == [BanditConfig, MineConfig, BanditConfig], "that of the class, if no other was assigned"
    finally:
        del REGISTERED_ENVS["mine"]
    assert "mine" not in REGISTERED_ENVS


def test_one_of_ours_can_be_replaced_and_comes_back() -> None:
    REGISTERED_ENVS["bandit"] = MineEnv
    assert REGISTERED_ENVS["bandit"] is MineEnv
    del REGISTERED_ENVS["bandit"]
    assert REGISTERED_ENVS["bandit"] is BanditEnv


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UnknownEnvType, match="^no world is registered as 'bandid'. Did you mean 'bandit'?"):
        REGISTERED_ENVS["bandid"]
    with pytest.raises(UnknownEnvType, match="There are sokoban, frozen_lake, bandit, countdown, webshop, metamathqa"):
        REGISTERED_ENV_CONFIGS["xyz"]
    assert issubclass(UnknownEnvType, KeyError)
    assert issubclass(UnknownEnvType, ConfigurationError)


@pytest.mark.parametrize(
    ("mapping", "name", "value", "message"),
    [
        (REGISTERED_ENVS, "mine", 4, r"REGISTERED_ENVS\['mine'\] must be a class of environments"),
        (REGISTERED_ENV_CONFIGS, "mine", 4, r"REGISTERED_ENV_CONFIGS\['mine'\] must be a class of configs"),
        (REGISTERED_ENVS, "", MineEnv, "a world is registered under a name, got ''"),
        (REGISTERED_ENV_CONFIGS, 3, MineConfig, "a world is registered under a name, got 3"),
    ],
)
def test_what_is_no_world_is_not_registered(mapping: Any, name: Any, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        mapping[name] = value


def test_nothing_is_taken_back_that_was_not_assigned() -> None:
    for mapping in (REGISTERED_ENVS, REGISTERED_ENV_CONFIGS):
        with pytest.raises(UnknownEnvType, match="assigned to 'bandit'"):
            del mapping["bandit"]


def test_a_world_without_a_config_says_so() -> None:
    REGISTERED_ENVS["plain"] = dict
    try:
        with pytest.raises(
            UnknownEnvType, match="dict, registered as 'plain', has no config_class: give it one, or assign"
        ):
            REGISTERED_ENV_CONFIGS["plain"]
    finally:
        del REGISTERED_ENVS["plain"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that brings two worlds, of which one cannot be imported."""
    (tmp_path / "brought.py").write_text(
        "from shoal.envs.texts.bandit import BanditEnv\nclass Brought(BanditEnv): pass\n"
    )
    (tmp_path / "brought-1.0.dist-info").mkdir()
    (tmp_path / "brought-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (tmp_path / "brought-1.0.dist-info" / "entry_points.txt").write_text(
        "[shoal.envs]\nbrought = brought:Brought\nbroken = brought:Missing\nbandit = brought:Brought\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry._points.cache_clear()
    yield
    monkeypatch.undo()
    registry._points.cache_clear()
    sys.modules.pop("brought", None)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_its_worlds() -> None:
    assert "brought" in REGISTERED_ENVS
    assert "brought" not in sys.modules, "nothing is imported before it is asked for"
    assert REGISTERED_ENVS["brought"].__name__ == "Brought"
    assert REGISTERED_ENV_CONFIGS["brought"] is BanditConfig
    assert REGISTERED_ENVS["bandit"] is BanditEnv, "ours are not replaced by accident"
    with pytest.raises(ConfigurationError, match="the world 'broken' cannot be imported from brought:Missing"):
        REGISTERED_ENVS["broken"]


def test_asking_for_the_registry_imports_neither_worlds_nor_anything_large() -> None:
    code = """
        import sys
        import shoal.llm
        print(sorted(shoal.llm.REGISTERED_ENVS))
        print([name for name in ("torch", "numba", "pyarrow", "shoal.envs.texts.bandit") if name in sys.modules])
    """
    done = run_script(code)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
