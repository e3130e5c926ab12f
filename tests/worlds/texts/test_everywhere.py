"""Text worlds come to the same wherever they run, and whatever happens to their workers."""

from __future__ import annotations

import os
import pickle
import signal
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import EnvList, ResetNeeded
from shoal.llm import GroupTasks, member_options
from shoal.testing import Fault, FaultPlan, check_restorable
from shoal.vector.making import factories_of
from tests.comparing import difference, rollout
from tests.worlds.texts.worlds import IDS, play

N = 6
SHORT_IDS = {env_id: env_id.removeprefix("shoal/").removesuffix("-v0") for env_id in IDS}


def short(value: Any) -> str | None:
    return SHORT_IDS.get(value) if isinstance(value, str) else None


def any_ids(count: int) -> list[str]:
    """All worlds, mixed."""
    return [IDS[number % len(IDS)] for number in range(count)]


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_a_single_one_is_an_environment_as_gymnasium_wants_it(env_id: str) -> None:
    made = gymnasium.make(env_id)
    check_env(made.unwrapped, skip_render_check=True)
    made.reset(seed=1)
    assert made.render() == made.unwrapped.render() == made.unwrapped.text()  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_a_step_before_the_first_reset_is_refused(env_id: str) -> None:
    env = gymnasium.make(env_id).unwrapped
    with pytest.raises(ResetNeeded, match="no episode has begun, call reset"):
        env.step(1)
    with pytest.raises(ResetNeeded, match="no episode has begun, call reset"):
        env.render()


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_what_is_no_action_leaves_a_world_as_it_is(env_id: str) -> None:
    env: Any = gymnasium.make(env_id)
    before, _ = env.reset(seed=4)
    for nothing in (None, "", "<answer>1</answer>", "x" * 10**6, object(), b"1", 10**30):
        after, reward, terminated, truncated, info = env.step(nothing)
        assert (after, reward, terminated, truncated) == (before, 0.0, False, False)
        assert info == {"action_is_valid": False, "action_is_effective": False, "success": False}
    actions = env.unwrapped.solve()
    assert actions
    if env_id != IDS[0]:  # on ice one may slip
        assert env.step(actions[0])[4]["success"]


@settings(max_examples=12)
@given(st.sampled_from([1, 2, 3]), st.integers(1, 8), st.sampled_from(["threads", "pipes", "shm"]), st.booleans())
def test_a_list_of_worlds_is_the_same_everywhere(seed: int, num_workers: int, backend: str, is_killed: bool) -> None:
    check_sameness(seed, num_workers, backend, is_killed)


@pytest.mark.soak
@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "killed"])
@pytest.mark.parametrize("num_workers", range(1, 9))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_list_of_worlds_is_the_same_with_any_number_of_workers(
    process_backend: str, seed: int, num_workers: int, is_killed: bool
) -> None:
    check_sameness(seed, num_workers, process_backend, is_killed)


def check_sameness(seed: int, num_workers: int, backend: str, is_killed: bool) -> None:
    ids = any_ids(8)
    with EnvList(ids, backend="serial") as envs:
        expected = play(envs, ids, 25, seed, {"seed": seed})

    def kill(number: int) -> None:
        if is_killed and backend != "threads" and number in (3, 14):
            os.kill(envs.worker_pids[number % len(envs.worker_pids)], signal.SIGKILL)

    with EnvList(ids, backend=backend, num_workers=num_workers, **_quick(backend)) as envs:
        found = play(envs, ids, 25, seed, {"seed": seed}, kill)
        if is_killed and backend != "threads":
            assert envs.stats.restarts == 2
    assert not difference(found, expected)
    assert any(results[2] != [False] * 8 for results in found if len(results) == 5), "episodes have ended"


@pytest.mark.parametrize("env_id", IDS, ids=short)
@pytest.mark.parametrize("noise", ["common", "independent", "antithetic"])
def test_groups_that_are_made_by_id_are_the_same_everywhere(backend: str, env_id: str, noise: str) -> None:
    """With autoreset, tasks and a worker that is killed in the middle."""
    tasks, anything = GroupTasks(2, 3, seed=5, noise=noise), "1" if env_id in IDS[2:] else 1

    def seen(name: str, **keywords: Any) -> list[Any]:
        with shoal.make(env_id, groups=2, group_size=3, tasks=tasks, backend=name, **keywords) as envs:
            steps: list[Any] = [envs.reset()]
            for number in range(12):
                if "start_method" in keywords and number == 5:
                    os.kill(envs.worker_pids[1], signal.SIGKILL)
                actions: Any = envs.call("solve")
                steps.append(envs.step([(action or [anything])[0] for action in actions]))
            assert envs.stats.group_comparisons == 4
            return steps

    expected = seen("serial")
    assert not difference(
        seen(backend, **({"num_workers": 2} | _quick(backend) if backend != "serial" else {})), expected
    )
    first = expected[0][0]
    assert first[0] != first[3] or env_id == IDS[1]  # of which there are two
    assert len({*first[:3]}) == len({*first[3:]}) == 1


def _quick(backend: str) -> dict[str, Any]:
    return {"start_method": "fork"} if backend in ("pipes", "shm") else {}


@pytest.mark.parametrize("env_id", IDS[:2], ids=short)
def test_random_steps_without_a_seed_survive_a_killed_worker(process_backend: str, env_id: str) -> None:
    with shoal.make(env_id, N, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        for number in range(20):
            if number in (4, 11):
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            envs.step(envs.action_space.sample())
        assert envs.stats.restarts == 2


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_the_same_seed_is_the_same_rollout(env_id: str, backend: str) -> None:
    def seen() -> list[Any]:
        with shoal.make(env_id, 3, backend=backend, **_quick(backend)) as envs:
            return rollout(envs, 10)

    assert not difference(seen(), seen())


def test_a_plan_of_faults_changes_nothing_that_is_seen(process_backend: str) -> None:
    ids = any_ids(N)
    with EnvList(ids, backend="serial") as envs:
        expected = play(envs, ids, 15, 2, {"seed": 2})
    plan = FaultPlan([Fault("kill", env=1, step=1), Fault("exit", env=4, step=3, episode=0)])
    made = [factory for env_id in ids for factory in factories_of(env_id, 1, {})[0]]
    with EnvList(plan.wrap(made), backend=process_backend, num_workers=3, start_method="fork") as envs:
        found = play(envs, ids, 15, 2, {"seed": 2})
    plan.check_all_fired()
    assert not difference(found, expected)


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_a_world_can_be_brought_back(env_id: str) -> None:
    report = check_restorable(env_id)
    assert report.is_bounded, report


@pytest.mark.parametrize("env_id", IDS, ids=short)
def test_a_state_is_a_copy_and_leads_to_the_same(env_id: str) -> None:
    env: Any = gymnasium.make(env_id).unwrapped
    env.reset(seed=8)
    if env_id == IDS[0]:
        env.step("Down")
    state = env.get_state()
    kept = pickle.dumps(state)
    action = (env.solve() or ["Up"])[0]
    expected = [env.step(action), env.text()]
    assert pickle.dumps(state) == kept or pickle.loads(kept).keys() == state.keys()
    other: Any = gymnasium.make(env_id).unwrapped
    other.set_state(state)
    assert [other.step(action), other.text()] == expected
    env.set_state(state)
    assert [env.step(action), env.text()] == expected


def test_a_forked_episode_goes_on_from_where_the_other_is(backend: str) -> None:
    with shoal.make(IDS[0], 4, backend=backend, on_fault="restore", **_quick(backend)) as envs:
        envs.reset(seed=1)
        envs.step([3, 3, 2, 2])
        envs.fork(0, [1, 2, 3])
        for _ in range(4):
            observation, *_ = envs.step([2] * 4)
            assert len({*observation}) == 1, "with the same noise, too"


def test_a_run_is_saved_and_resumed(backend: str) -> None:
    keywords: dict[str, Any] = {"backend": backend, "on_fault": "restore", **_quick(backend)}
    with shoal.make(IDS[0], 4, **keywords) as envs:
        rollout(envs, 10)
        saved = envs.state_dict()
        expected = [envs.step([1, 2, 3, 4]) for _ in range(10)]
    with shoal.make(IDS[0], 4, **keywords) as envs:
        envs.load_state_dict(saved)
        assert not difference([envs.step([1, 2, 3, 4]) for _ in range(10)], expected)


def test_fresh_noise_leads_to_other_slips() -> None:
    env: Any = gymnasium.make(IDS[0], size=8, p=1.0, success_rate=0.4).unwrapped
    env.reset(seed=1)
    state, ends = env.get_state(), set()
    for seed in range(20):
        env.set_state(state)
        env.seed_stream(seed)
        for _ in range(4):
            env.step("Down")
        ends.add(env.position)
    assert len(ends) > 3


def test_a_group_shares_its_prompt_and_may_still_be_paid_differently(backend: str) -> None:
    keywords: dict[str, Any] = {"group_size": 8, "backend": backend, **_quick(backend)}
    settings: dict[str, Any] = {"hi_arm_hiscore_prob": 0.5}
    made = [("shoal/Bandit-v0", settings)] * 16
    paid = {}
    with EnvList(made, **keywords) as envs:
        for noise in ("common", "independent", "antithetic"):
            options = [one for seed in (3, 4) for one in member_options(seed, 8, noise)]
            texts, _ = envs.reset(options=options)
            assert len({*texts[:8]}) == len({*texts[8:]}) == 1
            paid[noise] = envs.step(["dragon"] * 16).rewards
    assert {len({*paid["common"][:8]}), len({*paid["common"][8:]})} == {1}
    assert {*paid["independent"]} == {0.0, 1.0}
    pairs = np.reshape(paid["antithetic"], (8, 2))
    assert (pairs.sum(axis=1) == 1).all()
    assert len({*paid["antithetic"][::2]}) == 2


def test_answers_of_any_kind_reach_a_list_of_worlds(backend: str) -> None:
    ids = [*IDS, IDS[0]]
    hostile = ["((((", "\ud800", "x" * 300_000, "y" * 300_000, None]
    with EnvList(ids, backend=backend, **_quick(backend)) as envs:
        before, _ = envs.reset(seed=3)
        after = envs.step(hostile)
    assert after.observations == before
    assert [info["action_is_valid"] for info in after.infos] == [False] * 5
