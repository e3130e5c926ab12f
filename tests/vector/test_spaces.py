"""Every space on every backend: observations and actions arrive whole, and the backends cannot be told apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import ConfigurationError, ParallelEnv
from tests.comparing import difference, rollout
from tests.conftest import BACKENDS
from tests.envs import AnythingSpace, ReusingEnv, SpaceEnv, TextEnv

Make = Callable[..., ParallelEnv]
AnySpace = spaces.Space[Any]

NUMBER_TYPES = (
    np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
)  # fmt: skip


def graphs() -> AnySpace:
    return spaces.Graph(node_space=spaces.Box(-1, 1, (3,)), edge_space=spaces.Discrete(4))


NAMED_SPACES: dict[str, AnySpace] = {
    **{f"box-{np.dtype(kind).name}": spaces.Box(0, 100, (3, 2), kind) for kind in NUMBER_TYPES},
    "box-bool": spaces.Box(0, 1, (4,), np.bool_),
    "box-scalar": spaces.Box(-1, 1, (), np.float32),
    "box-empty": spaces.Box(0, 1, (0,), np.float32),
    "discrete": spaces.Discrete(3),
    "discrete-start": spaces.Discrete(5, start=-2),
    "multi-binary": spaces.MultiBinary([2, 3]),
    "multi-discrete": spaces.MultiDiscrete([3, 5, 2]),
    "multi-discrete-start": spaces.MultiDiscrete([3, 5], start=[-1, 10]),
    "text": spaces.Text(12, min_length=0),
    "sequence": spaces.Sequence(spaces.Box(0, 1, (2,))),
    "sequence-stacked": spaces.Sequence(spaces.Discrete(4), stack=True),
    "graph": graphs(),
    "one-of": spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,)), spaces.Text(4)]),
    "custom": AnythingSpace(),
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2,)), spaces.Text(5)]),
    "dict": spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(0, 255, (4, 4), np.uint8)}),
    "nested": spaces.Dict(
        {
            "position": spaces.Dict({"x": spaces.Discrete(29), "y": spaces.Box(0, 1, (2,))}),
            "said": spaces.Tuple([spaces.Text(6), spaces.MultiBinary(3), graphs()]),
            "custom": AnythingSpace(),
        }
    ),
}


def env_of(space: AnySpace) -> functools.partial[SpaceEnv]:
    return functools.partial(SpaceEnv, space, space)


@pytest.mark.parametrize("name", list(NAMED_SPACES))
def test_a_space_is_the_same_on_every_backend_as_in_gymnasium(backend: str, name: str) -> None:
    space = NAMED_SPACES[name]
    fns = [env_of(space)] * 5
    with ParallelEnv(fns, backend=backend, num_workers=2, start_method="fork") as ours:
        theirs = SyncVectorEnv(fns)
        assert ours.observation_space == theirs.observation_space
        assert ours.action_space == theirs.action_space
        got = rollout(ours, 7)
        assert got[0][0] in ours.observation_space
        expected = rollout(theirs, 7)
        # Infos hold the actions that environments were given; where Gymnasium cannot batch them we do not follow it.
        assert not difference([step[:-1] for step in got], [step[:-1] for step in expected])
        assert difference(got[1][-1]["kind"], expected[1][-1]["kind"]) == ""


def leaf_spaces() -> st.SearchStrategy[AnySpace]:
    shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
    return st.one_of(
        st.builds(lambda shape, kind: spaces.Box(0, 50, shape, kind), shapes, st.sampled_from(NUMBER_TYPES)),
        st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-5, 5)),
        st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
        st.builds(spaces.MultiBinary, st.integers(1, 5)),
        st.builds(lambda size: spaces.Text(size, min_length=0), st.integers(1, 20)),
        st.builds(AnythingSpace),
        st.builds(graphs),
        st.builds(lambda stack: spaces.Sequence(spaces.Box(0, 1, (2,)), stack=stack), st.booleans()),
    )


def any_space() -> st.SearchStrategy[AnySpace]:
    return st.recursive(
        leaf_spaces(),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
            st.dictionaries(st.text("abcxyz", min_size=1, max_size=3), inner, min_size=1, max_size=3).map(spaces.Dict),
        ),
        max_leaves=4,
    )


@settings(max_examples=12)
@given(
    observation_space=any_space(),
    action_space=any_space(),
    num_envs=st.integers(1, 12),
    num_workers=st.integers(1, 4),
    mode=st.sampled_from([AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]),
)
def test_backends_cannot_be_told_apart(
    observation_space: AnySpace, action_space: AnySpace, num_envs: int, num_workers: int, mode: AutoresetMode
) -> None:
    fns = [functools.partial(SpaceEnv, observation_space, action_space, 2 + index % 3) for index in range(num_envs)]
    results = []
    for backend in BACKENDS:
        keywords: dict[str, Any] = {"num_workers": num_workers, "start_method": "fork", "autoreset_mode": mode}
        with ParallelEnv(fns, backend=backend, **keywords) as envs:
            results.append(rollout(envs, 6))
    for backend, result in zip(BACKENDS[1:], results[1:], strict=True):
        assert not difference(results[0], result), backend


def test_text_observations_change_with_every_step(make_any_way: Make) -> None:
    """Gymnasium's AsyncVectorEnv returns the first text for ever."""
    envs = make_any_way([TextEnv] * 3)
    assert envs.reset()[0] == ("start",) * 3
    assert envs.step(("a", "bb", ""))[0] == ("starta", "startbb", "start")
    observation, reward, *_ = envs.step(("c", "d", "eee"))
    assert observation == ("startac", "startbbd", "starteee")
    assert reward.tolist() == [1, 1, 3]


def test_a_reset_mask_keeps_the_other_environments_texts(make: Make) -> None:
    envs = make([TextEnv] * 3, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset()
    envs.step(("a", "b", "c"))
    observation, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert observation == ("starta", "start", "startc")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_environment_that_reuses_its_buffers_does_no_harm(make: Make, mode: AutoresetMode) -> None:
    envs = make([ReusingEnv] * 3, autoreset_mode=mode)
    results = rollout(envs, 6)
    assert [len(result[-1]["trace"][0]) for result in results[:3]] == [1, 2, 3]
    assert [result[-1]["array"][0, 0] for result in results[:3]] == [0, 1, 2]
    with ParallelEnv([ReusingEnv] * 3, backend="shm", start_method="fork", autoreset_mode=mode) as others:
        assert not difference(results, rollout(others, 6))
    if mode is AutoresetMode.SAME_STEP:
        ended = results[3][-1]
        assert ended["final_obs"][0].tolist() == [3, 1]
        assert results[3][0][0].tolist() == [0, 2]


def test_large_observations_and_infos_pass_through(make: Make) -> None:
    """More than a socket takes at once, in both directions."""
    space = spaces.Box(0, 255, (1024, 1024), np.uint8)
    envs = make([env_of(spaces.Dict({"pixels": space, "text": AnythingSpace()}))] * 3)
    envs.action_space.seed(1)
    envs.reset(seed=1)
    actions = envs.action_space.sample()
    observation, *_, info = envs.step(actions)
    assert observation["pixels"].shape == (3, 1024, 1024)
    for row, (action,) in enumerate(info["given"]):
        assert np.array_equal(action["pixels"], actions["pixels"][row])
        assert action["text"] == actions["text"][row]


class OwnBox(spaces.Box):
    """A Box with an attribute of its own."""

    def __init__(self, label: str) -> None:
        super().__init__(-1, np.inf, (40_000,), np.float32)
        self.label = label


def large_spaces() -> list[AnySpace]:
    """Each of them would be too large for a message, if its bounds were sent as they are."""
    image = spaces.Box(0, 255, (200, 200, 3), np.uint8)
    return [
        image,
        spaces.Box(-np.inf, 3.5, (40_000,), np.float32),
        spaces.Box(-0.0, 1, (40_000,), np.float64),
        spaces.Dict({"image": image, "more": spaces.Tuple([image, spaces.Discrete(3), OwnBox("mine")])}),
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_large_space_with_the_same_bounds_everywhere_is_sent_as_two_numbers(
    process_backend: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.vector.backends.worker.MAX_PICKLED", 30_000)
    space = large_spaces()[number]
    space.seed(7)
    with ParallelEnv(
        [functools.partial(BoundsEnv, space)] * 2, backend=process_backend, num_workers=2, start_method="fork"
    ) as envs:
        arrived = envs.single_observation_space
        assert arrived == space
        assert type(arrived) is type(space)
        assert difference(everything_of(arrived), everything_of(space)) == ""
        observation, _ = envs.reset()
        assert observation in envs.observation_space


def everything_of(space: AnySpace) -> list[Any]:
    """The attributes of a space and of all spaces in it."""
    inner: list[Any] = list(getattr(space, "spaces", {}).values()) if isinstance(space, spaces.Dict) else []
    inner += list(space.spaces) if isinstance(space, spaces.Tuple) else []
    own = {name: value for name, value in vars(space).items() if name not in ("spaces", "_np_random")}
    if isinstance(space, spaces.Box):
        own["writeable"] = space.low.flags.writeable
    drawn = space.np_random.bit_generator.state["state"] if space._np_random is not None else None
    return [own, drawn, *map(everything_of, inner)]


class BoundsEnv(SpaceEnv):
    """Observes the bounds of its space."""

    def __init__(self, space: AnySpace) -> None:
        super().__init__(space, spaces.Discrete(2))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return lowest_of(self.observation_space), {}


def lowest_of(space: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: lowest_of(inner) for name, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(lowest_of, space))
    return space.low if isinstance(space, spaces.Box) else 0


def test_a_space_that_is_too_large_for_a_message_is_named(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.vector.backends.worker.MAX_PICKLED", 30_000)
    varied = spaces.Box(np.arange(10_000, dtype=np.float32), np.full(10_000, 1e6, np.float32))
    small = spaces.Box(0, 1, (2,))
    with pytest.raises(ConfigurationError) as caught:
        ParallelEnv(
            [functools.partial(BoundsEnv, small), functools.partial(BoundsEnv, varied)],
            backend=process_backend, num_workers=1, start_method="fork",
        )  # fmt: skip
    text = str(caught.value)
    assert re.search(r"the spaces of this worker's environments take 4\d,\d\d\d bytes in a message", text)
    assert "a message may have 30,000" in text
    assert re.search(
        r"The largest is the observation space of environment 1, of shape \(10000,\), with 4\d,\d\d\d bytes", text
    )
    assert "its bounds are not the same for every element" in text
    assert 'use backend="serial" or "threads"' in text
    assert "contract" not in text


@pytest.mark.slow
def test_an_observation_space_of_seventy_megabytes(process_backend: str) -> None:
    space = spaces.Box(0, 255, (70_000_000,), np.uint8)
    with ParallelEnv([functools.partial(BoundsEnv, space)], backend=process_backend) as envs:
        observation, _ = envs.reset()
        assert observation.shape == (1, 70_000_000)
