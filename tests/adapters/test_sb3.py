"""Shoal behind Stable-Baselines3's interface: what comes back is what its own DummyVecEnv gives."""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecEnv,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    VecVideoRecorder,
)

import shoal
from shoal.adapters.sb3 import ShoalVecEnv, make_vec_env
from tests.adapters.rollouts import actions_for, rollout
from tests.adapters.worlds import WORLDS, Fancy, LabelledTwice, Plain, world, wrapped
from tests.comparing import difference
from tests.envs import GrumpyEnv, Maker, counting

NUM_ENVS = 5
Make = Callable[..., ShoalVecEnv]


@pytest.fixture
def make_ours(backend: str) -> Iterator[Make]:
    """A factory on every backend, closed at the end."""
    made: list[ShoalVecEnv] = []

    def make(env_fns: list[Maker], **keywords: Any) -> ShoalVecEnv:
        settings = {"backend": backend, "num_workers": 2, "start_method": "fork", "autoreset_mode": "SameStep"}
        made.append(ShoalVecEnv(shoal.make(env_fns, **{**settings, **keywords})))
        return made[-1]

    yield make
    for env in made:
        env.close()


# -- the same as DummyVecEnv -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_everything_is_what_dummy_vec_env_gives(make_ours: Make, name: str) -> None:
    env_fns = [world(name)] * NUM_ENVS
    theirs, ours = DummyVecEnv(env_fns), make_ours(env_fns)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert difference(theirs.metadata, ours.metadata) == ""
    expected, got = rollout(theirs), rollout(ours)
    assert difference(expected, got) == ""
    dones = np.array([step[2] for step in expected if isinstance(step, tuple) and len(step) == 4])
    assert 0.1 < dones.mean() < 0.9


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Taxi-v4"])
def test_gymnasiums_environments_are_what_dummy_vec_env_gives(make_ours: Make, env_id: str) -> None:
    env_fns: list[Maker] = [functools.partial(gymnasium.make, env_id, max_episode_steps=9)] * 30
    assert difference(rollout(DummyVecEnv(env_fns), 25), rollout(make_ours(env_fns), 25)) == ""


VEC_WRAPPERS: dict[str, tuple[str, Callable[[VecEnv], VecEnv]]] = {
    "VecNormalize": ("box", VecNormalize),
    "VecFrameStack": ("image", functools.partial(VecFrameStack, n_stack=3)),
    "VecFrameStack of a Dict": ("dict", lambda env: VecFrameStack(VecExtractDictObs(env, "c"), 2, "last")),
    "VecTransposeImage": ("image", VecTransposeImage),
    "VecCheckNan": ("box", functools.partial(VecCheckNan, raise_exception=True)),
    "VecExtractDictObs": ("dict", functools.partial(VecExtractDictObs, key="b")),
    "all": ("image", lambda env: VecTransposeImage(VecFrameStack(VecNormalize(VecCheckNan(env), norm_obs=False), 2))),
}


@pytest.mark.parametrize("name", VEC_WRAPPERS)
def test_vec_env_wrappers_work_on_top(make_ours: Make, name: str) -> None:
    kind, wrap = VEC_WRAPPERS[name]
    env_fns = [world(kind)] * NUM_ENVS
    theirs, ours = wrap(DummyVecEnv(env_fns)), wrap(make_ours(env_fns))
    assert isinstance(ours.unwrapped, ShoalVecEnv)
    assert difference(rollout(theirs), rollout(ours)) == ""


def test_vec_monitor_reports_episodes(make_ours: Make) -> None:
    def episodes(env: VecEnv) -> list[tuple[float, int]]:
        steps = [result for result in rollout(VecMonitor(env)) if isinstance(result, tuple) and len(result) == 4]
        found = [info["episode"] for _, _, _, infos in steps for info in infos if "episode" in info]
        return [(episode["r"], episode["l"]) for episode in found]

    expected = episodes(DummyVecEnv([world("box")] * 3))
    assert len(expected) > 10
    assert episodes(make_ours([world("box")] * 3)) == expected


def test_vec_monitor_knows_a_monitor_below(make_ours: Make) -> None:
    env = make_ours([functools.partial(wrapped, world("box"), Monitor)] * 2)
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor` wrapper"):
        VecMonitor(env)


def test_videos_have_the_frames_and_the_speed(make_ours: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clips: list[tuple[list[Any], int]] = []

    class Clip:
        def __init__(self, frames: list[Any], fps: int) -> None:
            clips.append((list(frames), fps))

        def write_videofile(self, path: str) -> None:
            assert path.endswith(".mp4")

    # Only what is recorded matters here, so the encoder need not be installed.
    module = types.ModuleType("moviepy.video.io.ImageSequenceClip")
    module.ImageSequenceClip = Clip  # type: ignore[attr-defined]
    for name in ("moviepy", "moviepy.video", "moviepy.video.io", module.__name__):
        monkeypatch.setitem(sys.modules, name, module)
    env_fns = [world("box", render_mode="rgb_array")] * 3
    for env in (DummyVecEnv(env_fns), make_ours(env_fns)):
        recorder = VecVideoRecorder(env, str(tmp_path), lambda step: step == 0, video_length=4)
        recorder.seed(0)
        recorder.reset()
        for actions in actions_for(env, 6):
            recorder.step(actions)
    theirs, ours = clips
    assert len(theirs[0]) == 5
    assert ours[1] == 12
    assert difference(theirs, ours) == ""


# -- stepping and resetting --------------------------------------------------------------------------------------


def test_an_info_is_yours(make_ours: Make) -> None:
    env = make_ours([counting()] * 2)
    env.reset()
    before = copy.deepcopy(env.reset_infos)
    _, _, _, infos = env.step(np.zeros(2, np.int64))
    infos[0]["count"] = -1
    assert env.step(np.zeros(2, np.int64))[3][0]["count"] == 2
    assert env.reset_infos == before


def test_reset_drops_a_step_under_way(make_ours: Make) -> None:
    env = make_ours([counting()] * 2)
    env.reset()
    env.step_async(np.zeros(2, np.int64))
    assert np.asarray(env.reset())[:, 0].tolist() == [0, 0]
    assert np.asarray(env.step(np.zeros(2, np.int64))[0])[:, 0].tolist() == [1, 1]


def test_reset_drops_a_step_that_raises(make_ours: Make) -> None:
    env = make_ours([functools.partial(GrumpyEnv, at=1)] * 2)
    env.reset()
    env.step_async(np.zeros(2, np.int64))
    assert np.asarray(env.reset())[:, 0].tolist() == [0, 0]


def test_an_environment_that_raises_can_be_reset(make_ours: Make) -> None:
    env = make_ours([counting(), functools.partial(GrumpyEnv, at=1)])
    env.reset()
    with pytest.raises(ValueError, match=r"environment 1 .*in step\(\) raised ValueError"):
        env.step(np.zeros(2, np.int64))
    assert np.asarray(env.reset())[:, 0].tolist() == [0, 0]


def test_seeds_and_options_stay_until_a_reset_succeeds(make_ours: Make) -> None:
    env = make_ours([world("box")] * 3)
    env.seed(5)
    env.set_options([{"start": 1}, {"start": 2}])
    with pytest.raises(shoal.ConfigurationError, match="2 options were given for 3 environments"):
        env.reset()
    env.set_options({"start": 1})
    env.reset()
    assert env.get_attr("np_random_seed") == [5, 6, 7]
    assert env.get_attr("start") == [1, 1, 1]
    env.reset()
    assert env.get_attr("start") == [0, 0, 0]


def test_multi_binary_actions_may_be_floats_as_policies_give_them(make_ours: Make) -> None:
    env = make_ours([world("multi-binary")] * 2)
    env.reset()
    _, _, _, infos = env.step(np.array([[0, 1, 1], [1, 0, 0]], np.float32))
    assert [info["action"] for info in infos] == [[0, 1, 1], [1, 0, 0]]
    for wrong in (0.5, np.nan):
        with pytest.raises(shoal.InvalidAction, match="cannot become the action space's int8"):
            env.step(np.full((2, 3), wrong, np.float32))


# -- asking environments -----------------------------------------------------------------------------------------


INDICES: list[Any] = [None, 0, 2, -1, [1], [2, 0], (0, 0, 1), range(1, 3), [], np.array([2, 1]), [-2]]


@pytest.mark.parametrize("indices", INDICES, ids=str)
def test_indices_are_understood_as_by_dummy_vec_env(make_ours: Make, indices: Any) -> None:
    env_fns: list[Maker] = [functools.partial(wrapped, world("box"), LabelledTwice, Fancy), *[world("box")] * 2]
    theirs, ours = DummyVecEnv(env_fns), make_ours(env_fns)
    answers = []
    for env in (theirs, ours):
        env.seed(0)
        env.reset()
        env.set_attr("label", ["a", "list"], indices=indices)
        env.set_attr("count", 7)
        answers.append(
            [
                env.get_attr("label", indices),
                env.get_attr("label"),
                env.env_method("describe", "<", suffix=">", indices=indices),
                env.env_is_wrapped(Plain, indices),
            ]
        )
    assert difference(answers[0], answers[1]) == ""


def test_indices_from_an_iterator_or_numpy_work(make_ours: Make) -> None:
    env = make_ours([world("box")] * 3)
    env.set_attr("label", "new", indices=iter([0, 2]))
    assert env.get_attr("label") == ["new", "plain", "new"]
    assert env.get_attr("label", np.int64(1)) == ["plain"]  # type: ignore[arg-type]


def test_an_index_beyond_the_last_is_refused(make_ours: Make) -> None:
    env = make_ours([world("box")] * 3)
    with pytest.raises(IndexError, match=r"indices=\[3\] names an environment that is not there: there are 3"):
        env.get_attr("label", [3])


def test_asking_for_a_method_does_not_call_it(make_ours: Make) -> None:
    env = make_ours([world("box", render_mode="human")] * 2)
    assert env.has_attr("render")
    assert not env.has_attr("missing")
    assert all(callable(method) for method in env.get_attr("render"))
    assert env.get_attr("renders") == [0, 0]
    with pytest.raises(AttributeError, match="missing"):
        env.get_attr("missing")


@pytest.mark.parametrize("start_method", ["forkserver", "spawn", "fork"])
def test_wrappers_are_found_wherever_the_environments_are(make_ours: Make, start_method: str) -> None:
    class Local(Fancy):
        pass

    env_fns: list[Maker] = [
        functools.partial(wrapped, world("box"), Plain),
        functools.partial(wrapped, world("box"), LabelledTwice, Local, gymnasium.wrappers.OrderEnforcing),
        world("box"),
    ]
    env = make_ours(env_fns, start_method=start_method)
    asked = [Plain, Fancy, Local, LabelledTwice, gymnasium.wrappers.OrderEnforcing, gymnasium.Wrapper, Monitor]
    for wrapper_class in asked:
        assert env.env_is_wrapped(wrapper_class) == DummyVecEnv(env_fns).env_is_wrapped(wrapper_class)


def test_asking_for_a_monitor_does_not_load_torch_into_workers() -> None:
    env = ShoalVecEnv(shoal.make(world("box"), 2, backend="shm", autoreset_mode="SameStep"))
    assert env.env_is_wrapped(Monitor) == [False, False]
    assert env.env_method("has_loaded", "torch") == [False, False]
    env.close()


# -- rendering and closing ---------------------------------------------------------------------------------------


def test_pictures_are_tiled(make_ours: Make) -> None:
    env_fns = [world("box", render_mode="rgb_array")] * 3
    theirs, ours = DummyVecEnv(env_fns), make_ours(env_fns)
    for env in (theirs, ours):
        env.seed(0)
        env.reset()
        env.step(np.zeros(3, np.int64))
    assert ours.render_mode == "rgb_array"
    assert difference(list(theirs.get_images()), list(ours.get_images())) == ""
    picture = ours.render()
    assert picture is not None
    assert picture.shape == (8, 12, 3)
    assert difference(theirs.render("rgb_array"), picture) == ""


def test_rendering_for_humans_returns_nothing(make_ours: Make) -> None:
    env = make_ours([world("box", render_mode="human")] * 2)
    assert env.render() is None
    assert env.get_attr("renders") == [1, 1]
    with pytest.warns(UserWarning, match="The render mode is human, but this method assumes it is `rgb_array`"):
        assert list(env.get_images()) == [None, None]


def test_close_may_be_called_twice_and_during_a_step(make_ours: Make) -> None:
    env = make_ours([counting()] * 2)
    env.reset()
    env.step_async(np.zeros(2, np.int64))
    env.close()
    env.close()
    with pytest.raises(shoal.Closed):
        env.reset()


def test_the_environments_are_at_hand_where_they_live_in_this_process() -> None:
    with shoal.make(world("box"), 2, backend="serial", autoreset_mode="SameStep") as serial:
        assert [env.unwrapped.label for env in ShoalVecEnv(serial).envs] == ["plain", "plain"]  # type: ignore[attr-defined]
    with shoal.make(world("box"), 2, backend="shm", autoreset_mode="SameStep") as shm:
        with pytest.raises(AttributeError, match="live in other processes"):
            _ = ShoalVecEnv(shm).envs


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, r'made with autoreset_mode=.*NEXT_STEP.*: pass autoreset_mode="SameStep" to shoal.make\(\)'),
        ({"autoreset_mode": "Disabled"}, 'DISABLED.*: pass autoreset_mode="SameStep"'),
        ({"autoreset_mode": "SameStep", "copy": False}, "made with copy=False.*: pass copy=True"),
        ({"autoreset_mode": "SameStep", "output": "torch"}, 'made with output="torch": pass output="numpy"'),
    ],
)
def test_environments_that_sb3_would_misunderstand_are_refused(keywords: dict[str, Any], message: str) -> None:
    with shoal.make(counting(), 2, backend="serial", **keywords) as envs:
        with pytest.raises(shoal.ConfigurationError, match=message):
            ShoalVecEnv(envs)


def test_only_a_parallel_env_can_be_wrapped() -> None:
    with pytest.raises(shoal.ConfigurationError, match=r"needs a shoal.ParallelEnv, got 'CartPole-v1'; make_vec_env"):
        ShoalVecEnv("CartPole-v1")  # type: ignore[arg-type]


def test_the_wrapped_parallel_env_stays_as_it_is() -> None:
    with shoal.make(counting(), 2, backend="serial", autoreset_mode="SameStep") as envs:
        vec_env = ShoalVecEnv(envs)
        vec_env.reset()
        vec_env.step(np.zeros(2, np.int64))
        del vec_env
        _, _, _, _, info = envs.step(np.zeros(2, np.int64))
        assert info["count"].tolist() == [2, 2]


class OldFashionedEnv(gymnasium.Env[Any, Any]):
    """Its reset knows of no options, which SB3 allows."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.ones(2, np.float32), 1.0, True, False, {}


@pytest.mark.parametrize("wrapper", [None, gymnasium.Wrapper])
def test_an_environment_need_not_know_of_options_until_there_are_any(wrapper: Any) -> None:
    env = make_vec_env(OldFashionedEnv, 2, seed=1, backend="serial", wrapper_class=wrapper)
    env.reset()
    env.step(np.array([0, 1]))
    env.set_options({"start": 3})
    with pytest.raises(TypeError, match="unexpected keyword argument 'options'"):
        env.reset()
    env.close()


def test_one_environment_for_all_is_refused_as_in_sb3() -> None:
    one = gymnasium.make("CartPole-v1")
    with pytest.raises(ValueError, match="the same object as that of environment 0, in another wrapper"):
        make_vec_env(lambda: one, 2, backend="serial")
