"""The worlds, wrapped and not, are as Gymnasium and Shoal want environments to be."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from shoal.meta import VariBadWrapper
from shoal.testing import check_restorable

COMPILED = ["PointRobot-v0", "PointRobotSparse-v0", "Wind-v0", "GridNavi-v0"]
IN_MUJOCO = ["HalfCheetahVel-v0", "CheetahDir-v0", "AntDir-v0"]
ALL = [*COMPILED, *IN_MUJOCO]


def make(name: str, **keywords: Any) -> Any:
    if name in IN_MUJOCO:
        pytest.importorskip("mujoco")
    return gymnasium.make(f"shoal/{name}", **keywords)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too (low|high).*:UserWarning")
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space.*:UserWarning")
def test_it_is_as_gymnasium_wants_it(name: str) -> None:
    check_env(make(name).unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    "name", [name if name == "GridNavi-v0" else pytest.param(name, marks=pytest.mark.slow) for name in ALL]
)
def test_it_can_be_brought_back_in_every_way(name: str) -> None:
    """With a few episodes per task, all of them short, so that there are many."""
    make(name).close()

    def make_wrapped() -> VariBadWrapper:
        return VariBadWrapper(gymnasium.make(f"shoal/{name}", max_episode_steps=10), 3)

    found = check_restorable(make_wrapped)
    assert (found.replay, found.resets, found.captures) == ("", "", "")
