"""Hundreds of made-up accidents, thousands in ``make soak``: whatever happens, results are those of an undisturbed run."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from shoal import ParallelEnv
from shoal.vector import pool, shortening, supervisor, suspicion, upkeep, verdicts
from tests.comparing import difference
from tests.envs import SilentEnv, SpaceEnv, WalkingEnv
from tests.vector.simulation import ACCIDENTS, DEATHS, End, SimulatedBackend

pytestmark = pytest.mark.filterwarnings("error")


class DriftingEnv(WalkingEnv):
    """What it does depends on all of its episodes, so a reset is no point to begin from."""

    total = 0.0

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.total = 0.9 * self.total + float(observation[0])
        return observation, reward + self.total, *rest


class SilentPictureEnv(SpaceEnv):
    """The same, with results that are too large to be kept."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(0, 255, (12, 12, 3), np.uint8), spaces.Discrete(3))

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {}


SILENT_WORLDS = [SilentEnv, SilentPictureEnv]
NOTE_DEATH = suspicion.Suspicion.note_death
WORLDS: list[Any] = [
    WalkingEnv,
    DriftingEnv,
    functools.partial(SpaceEnv, spaces.Discrete(10**6), spaces.Discrete(3)),
    functools.partial(SpaceEnv, spaces.Text(8), spaces.Discrete(3)),
    functools.partial(SpaceEnv, spaces.Box(0, 255, (12, 12, 3), np.uint8), spaces.Discrete(3)),
]


def play(program: random.Random, envs: ParallelEnv) -> list[Any]:
    """Whatever a program may do with environments, in an order that its random numbers decide."""
    count = envs.num_envs
    results: list[Any] = [envs.reset(seed=program.randrange(100))]
    ended = np.zeros(count, np.bool_)
    for _ in range(program.randrange(5, 30)):
        some = sorted(program.sample(range(count), program.randint(1, count)))
        if envs.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            results.append(envs.reset(options={"reset_mask": ended}))
            ended[:] = False
        choice = program.random()
        if choice < 0.2 and count > 1:
            play_halves(program, envs, results, ended)
        elif choice < 0.75:
            step = envs.step([program.randrange(3) for _ in range(count)])
            results.append(step)
            ended = step[2] | step[3]
        elif choice < 0.85:
            envs.send([program.randrange(3) for _ in some], some)
            for _ in some:
                batch = envs.recv()
                row = int(batch.env_ids[0])
                results.append((row, *batch[1:]))
                ended[row] = batch.terminated[0] | batch.truncated[0]
            results[-len(some) :] = sorted(results[-len(some) :], key=lambda one: one[0])
        elif choice < 0.9:
            results.append(envs.reset(seed=[program.randrange(100) for _ in some], env_ids=some))
            ended[some] = False
        elif choice < 0.94:
            envs.set_attr("label", program.random())
        elif choice < 0.97:
            results.append(envs.get_attr("render_mode"))
        else:
            envs.reset_async(None)
            results.append(envs.reset_wait())
            ended[:] = False
    return results


def play_halves(program: random.Random, envs: ParallelEnv, results: list[Any], ended: Any) -> None:
    """Two halves, both of them under way nearly all the time."""
    parts, left = envs.split(2), [program.randint(1, 6) for _ in range(2)]
    for part in parts:
        part.step_async(np.array([program.randrange(3) for _ in part.env_ids]))
    while any(left):
        number = program.choice([number for number in range(2) if left[number]])
        part, left[number] = parts[number], left[number] - 1
        step = part.step_wait()
        results.append(step)
        ended[part.env_ids] = step[2] | step[3]
        if envs.autoreset_mode is AutoresetMode.DISABLED and ended[part.env_ids].any():
            left[number] = 0
        if left[number]:
            part.step_async(np.array([program.randrange(3) for _ in part.env_ids]))


def check_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """One schedule of accidents; returns what happened in it."""
    chance = random.Random(seed)
    num_envs = chance.randint(1, 6)
    # Nobody is in a hurry, and nobody is limited, where nothing but deaths can happen: then there are shorter ways.
    is_simple = chance.random() < 0.5
    world = chance.choice(SILENT_WORLDS if is_simple and chance.random() < 0.8 else WORLDS)
    mode = chance.choice(list(AutoresetMode))
    made: list[SimulatedBackend] = []

    def simulated(_: str, recipes: Any, *__: Any, **___: Any) -> SimulatedBackend:
        possible = DEATHS if is_simple else ACCIDENTS
        made.append(SimulatedBackend(recipes, seed, chance.choice([0.01, 0.05, 0.2]), possible))
        return made[-1]

    monkeypatch.setattr(supervisor, "MAINTENANCE", chance.choice([1, 3, 16, 64]))
    monkeypatch.setattr(upkeep, "REST_PAUSE", 0.0)
    monkeypatch.setattr(verdicts, "ALLOWANCE", 10**9)
    monkeypatch.setattr(suspicion, "SAME_STEP", chance.choice([1, 2, 10**9]))
    monkeypatch.setattr(suspicion, "MANY", chance.choice([1, 2, 10**9]))
    monkeypatch.setattr(suspicion, "OFTEN_LATE", 10**9)
    monkeypatch.setattr(suspicion, "LONGEST_PAUSE", 0.0)
    monkeypatch.setattr(suspicion.Suspicion, "note_death", lambda *args: NOTE_DEATH(*args) and False)  # it was chance
    monkeypatch.setattr(shortening, "WORTHWHILE_SECONDS", chance.choice([0.0, 0.2]))
    monkeypatch.setattr(shortening, "LONG_SECONDS", chance.choice([0.0, 0.5]))
    monkeypatch.setattr(shortening, "REHEARSED_STEPS", chance.choice([1, 4]))
    with monkeypatch.context() as patched:
        patched.setattr(pool, "make_backend", simulated)
        with ParallelEnv(
            [world] * num_envs,
            backend="shm",
            num_workers=chance.randint(1, num_envs),
            autoreset_mode=mode,
            on_fault="restore",
            step_timeout=None if is_simple else 5.0,
            timeouts=None if is_simple else {"reset": 5.0, "call": 5.0, "construct": 5.0},
            max_worker_episodes=None if is_simple else chance.choice([None, 3, 10]),
            max_worker_memory=None if is_simple else chance.choice([None, 98]),
            copy=True,
        ) as envs:
            found = play(random.Random(seed), envs)
            stats = envs.stats
            rounds = len(envs._pool.backend.journal.rounds)  # type: ignore[attr-defined]
    with ParallelEnv([world] * num_envs, backend="serial", autoreset_mode=mode) as plain:
        expected = play(random.Random(seed), plain)
    assert not difference(found, expected), f"schedule {seed}: {made[0].accidents}"
    return {
        "accidents": len(made[0].accidents),
        "restarts": stats.restarts,
        "rounds": rounds,
        "quick steps": made[0].steps_finished,
        "quick halves": made[0].halves_finished,
    }


class CursedEnv(WalkingEnv):
    """Ends its process in the second step of every episode."""

    def step(self, action: Any) -> Any:
        if self.steps == 1:
            raise End
        return super().step(action)


def check_cursed_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """One environment kills whoever steps it, and others die by accident; returns how many of its episodes were lost."""
    monkeypatch.setattr(suspicion, "LONGEST_PAUSE", 0.0)
    chance = random.Random(seed)
    num_envs = chance.randint(1, 6)
    cursed = chance.randrange(num_envs)
    others = [row for row in range(num_envs) if row != cursed]
    env_fns: list[Any] = [WalkingEnv] * num_envs
    mode = chance.choice([AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
    actions = [[chance.randrange(3) for _ in range(num_envs)] for _ in range(chance.randint(5, 20))]
    made: list[SimulatedBackend] = []

    def simulated(_: str, recipes: Any, *__: Any, **___: Any) -> SimulatedBackend:
        # Three accidents in one step of the same environment would make it look like the cursed one.
        made.append(SimulatedBackend(recipes, seed, danger=chance.choice([0.0, 0.02]), most_in_a_row=1))
        return made[-1]

    with ParallelEnv(env_fns, backend="serial", autoreset_mode=mode) as plain:
        expected = [plain.reset(seed=seed)[:1], *(plain.step(each)[:4] for each in actions)]
    env_fns[cursed] = CursedEnv
    with monkeypatch.context() as patched:
        patched.setattr(pool, "make_backend", simulated)
        with ParallelEnv(
            env_fns,
            backend="shm",
            num_workers=chance.randint(1, num_envs),
            autoreset_mode=mode,
            on_fault="truncate",
            step_timeout=5.0,
            timeouts={"reset": 5.0, "call": 5.0, "construct": 5.0},
        ) as envs:
            found: list[Any] = [envs.reset(seed=seed), *(envs.step(each) for each in actions)]
            assert envs.stats.lost_episodes == sum("fault" in step[-1] for step in found)
    for number, (step, (observation, *rest)) in enumerate(zip(found, expected, strict=True)):
        problem = f"schedule {seed}, step {number}: {made[0].accidents}"
        assert not difference(step[0][others], observation[others]), problem
        for mine, its in zip(step[1:-1], rest, strict=True):
            assert not difference(mine[others], its[others]), problem
        if "fault" in step[-1]:
            assert step[-1]["_fault"].nonzero()[0].tolist() == [cursed], problem
            assert step[3][cursed], problem
    return sum("fault" in step[-1] for step in found)


def test_an_environment_that_always_kills_costs_nobody_else_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [check_cursed_schedule(seed, monkeypatch) for seed in range(100)]
    assert min(lost) >= 1
    assert sum(lost) > 200


@pytest.mark.soak
def test_a_thousand_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100, 1100):
        check_cursed_schedule(seed, monkeypatch)


@pytest.mark.parametrize(
    "hundred", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.soak)]
)
def test_no_accident_changes_a_result(hundred: int, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = [check_schedule(seed, monkeypatch) for seed in range(100 * hundred, 100 * hundred + 100)]
    assert sum(one["accidents"] for one in happened) > 100, "the accidents have happened"
    assert sum(one["restarts"] for one in happened) > 100
    assert sum(one["quick steps"] for one in happened) > 50, "some steps have gone the short way"
    assert sum(one["quick halves"] for one in happened) > 50


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("thousand", range(1, 11))
def test_no_accident_of_ten_thousand_changes_a_result(thousand: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1000 * thousand, 1000 * thousand + 1000):
        check_schedule(seed, monkeypatch)
