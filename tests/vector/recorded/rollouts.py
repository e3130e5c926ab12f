"""What is recorded: programs that use everything the two faces offer, each with what it gave.

A scenario is a function of a :class:`Rollout`, which makes the environments in one of many ways and takes down what they
give. What is handed over first-ready is taken down environment by environment, because only its order depends on the machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array

import shoal
from shoal import EnvList, ParallelEnv
from shoal.testing import Fault, FaultPlan
from tests.vector.recorded.encoding import digest
from tests.vector.recorded.worlds import WORLDS, ArrayWorld, NestedWorld, TalkingWorld, World

NUM_ENVS = 5
STEPS = 14
MODES = tuple(AutoresetMode)
MIXED = (ArrayWorld, NestedWorld, TalkingWorld, ArrayWorld, TalkingWorld)


class Rollout:
    """How environments are run, and what they have given."""

    def __init__(self, keywords: dict[str, Any], plan: FaultPlan | None = None) -> None:
        self.events: list[str] = []
        self._keywords, self._plan = keywords, plan

    def note(self, name: str, given: Any) -> None:
        """Take down what was given. It may change afterwards."""
        self.events.append(f"{name} {digest(given)}")

    def parallel(self, world: Callable[[], World], num_envs: int = NUM_ENVS, **keywords: Any) -> ParallelEnv:
        return ParallelEnv(self._factories([world] * num_envs), **{**self._keywords, **keywords})

    def several(self, worlds: Sequence[Callable[[], World]] = MIXED, **keywords: Any) -> EnvList:
        return EnvList(self._factories(worlds), **{**self._keywords, **keywords})

    def _factories(self, worlds: Sequence[Callable[[], World]]) -> list[Any]:
        return list(worlds) if self._plan is None else self._plan.wrap(worlds)


Scenario = Callable[[Rollout], None]
SCENARIOS: dict[str, Scenario] = {}
LOSING: dict[str, Scenario] = {}
"""Those in which episodes are lost with the worker processes that they were in."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def add(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return add


def batch(envs: Any, world: type[World], step: int, rows: Sequence[int] | None = None) -> Any:
    """The actions of a step, arranged as :class:`ParallelEnv` takes them."""
    each = [world.action(7 * row + 3 * step) for row in (range(envs.num_envs) if rows is None else rows)]
    empty: Any = create_empty_array(envs.single_action_space, len(each))
    return concatenate(envs.single_action_space, each, empty)


def listed(step: int, rows: Sequence[int] = range(len(MIXED))) -> list[Any]:
    """The same, as :class:`EnvList` takes them."""
    return [MIXED[row].action(7 * row + 3 * step) for row in rows]


def own(infos: dict[str, Any], place: int) -> dict[str, Any]:
    """What a batch of infos says of one environment; how arrays are stored there depends on who else is in the batch."""
    names = sorted(name for name in infos if not name.startswith("_") and infos[f"_{name}"][place])
    return {
        name: own(infos[name], place) if isinstance(infos[name], dict) else plain(infos[name][place]) for name in names
    }


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def taken(values: Any, place: int) -> Any:
    """One environment's part of a batch of observations."""
    if isinstance(values, dict):
        return {name: taken(part, place) for name, part in values.items()}
    if isinstance(values, tuple) and not isinstance(values[0], str):
        return tuple(taken(part, place) for part in values)
    return values[place]


def ended(results: Any) -> Any:
    return np.array(results[2]) | np.array(results[3])


# -- ParallelEnv ---------------------------------------------------------------------------------------------------------


def lockstep(world: type[World], mode: AutoresetMode, **keywords: Any) -> Scenario:
    def run(rollout: Rollout) -> None:
        with rollout.parallel(world, autoreset_mode=mode, **keywords) as envs:
            rollout.note("reset", envs.reset(seed=7))
            go_on(rollout, envs, world, STEPS)

    return run


def go_on(rollout: Rollout, envs: ParallelEnv, world: type[World], steps: int, name: str = "step") -> None:
    for step in range(steps):
        results = envs.step(batch(envs, world, step))
        rollout.note(name, results)
        if envs.autoreset_mode is AutoresetMode.DISABLED and ended(results).any():
            rollout.note("reset mask", envs.reset(options={"reset_mask": ended(results), "from": step}))


def sent(world: type[World], mode: AutoresetMode) -> Scenario:
    """Whoever is back is sent off again."""

    def run(rollout: Rollout) -> None:
        with rollout.parallel(world, autoreset_mode=mode) as envs:
            given: list[list[Any]] = [[] for _ in range(NUM_ENVS)]
            envs.send_reset(seed=7)
            while envs.num_under_way:
                env_ids, observation, reward, terminated, truncated, info = envs.recv()
                for place, row in enumerate(env_ids.tolist()):
                    flags = bool(terminated[place]), bool(truncated[place])
                    its = given[row]
                    its.append((taken(observation, place), float(reward[place]), flags, own(info, place)))
                    if len(its) > STEPS:
                        continue
                    if mode is AutoresetMode.DISABLED and any(flags):
                        envs.send_reset([row], options={"from": len(its)})
                    else:
                        envs.send(batch(envs, world, len(its), [row]), [row])
            for row, its in enumerate(given):
                rollout.note(f"environment {row}", its)

    return run


def halves(world: type[World], num_parts: int) -> Scenario:
    """Parts are always under way."""

    def run(rollout: Rollout) -> None:
        with rollout.parallel(world) as envs:
            parts = envs.split(num_parts)
            for part in parts:
                rollout.note("part reset", part.reset(seed=7))
                part.step_async(batch(envs, world, 0, part.env_ids.tolist()))
            for step, part in itertools.product(range(1, STEPS), parts):
                rollout.note("part step", part.step_wait())
                part.step_async(batch(envs, world, step, part.env_ids.tolist()))
            for part in parts:
                rollout.note("part step", part.step_wait())

    return run


def partly(world: type[World]) -> Scenario:
    """Some of the environments begin anew, named in every way, and some are stepped."""

    def run(rollout: Rollout) -> None:
        with rollout.parallel(world) as envs:
            rollout.note("reset", envs.reset(seed=[3, 4, 5, 1, 3], options=[{"from": row} for row in range(NUM_ENVS)]))
            go_on(rollout, envs, world, 4)
            rollout.note("reset ids", envs.reset(seed=11, env_ids=[3, 1]))
            go_on(rollout, envs, world, 3)
            rollout.note("reset mask", envs.reset(env_ids=np.arange(NUM_ENVS) % 2 == 0, options={"from": 4}))
            go_on(rollout, envs, world, 3)
            envs.send_reset([4, 0], seed=[1, 2])
            rollout.note("exactly", envs.recv(env_ids=[0, 4]))
            envs.send(batch(envs, world, 1, [4, 2, 0]), [4, 2, 0])
            rollout.note("exactly", envs.recv(env_ids=[4, 2, 0]))
            go_on(rollout, envs, world, 3)

    return run


@scenario("parallel asynchronous, views")
def asynchronous(rollout: Rollout) -> None:
    with rollout.parallel(NestedWorld, copy=False, lease=2) as envs:
        envs.reset_async(seed=7)
        rollout.note("reset", envs.reset_wait())
        for step in range(STEPS):
            envs.step_async(batch(envs, NestedWorld, step))
            rollout.note("step", envs.step_wait())


@scenario("parallel recorded arrivals")
def arrivals(rollout: Rollout) -> None:
    with rollout.parallel(ArrayWorld) as envs:
        envs.replay_arrivals([[2, 0], [1], [4, 3], [2], [0, 1, 3]])
        envs.send_reset(seed=7)
        for _ in range(3):
            rollout.note("received", envs.recv())
        envs.send(batch(envs, ArrayWorld, 1))
        for _ in range(2):
            rollout.note("received", envs.recv())
        rollout.note("received", envs.recv())


def function_of_tasks(index: int, episode: int) -> Any:
    return shoal.Task(seed=100 * index + episode, options={"from": episode}, id=f"{index}/{episode}")


def by_tasks(tasks: Any, mode: AutoresetMode) -> Scenario:
    def run(rollout: Rollout) -> None:
        with rollout.parallel(ArrayWorld, tasks=tasks, autoreset_mode=mode) as envs:
            rollout.note("reset", envs.reset(seed=7))
            go_on(rollout, envs, ArrayWorld, STEPS)
            rollout.note("reset", envs.reset(env_ids=[2]))
            go_on(rollout, envs, ArrayWorld, 3)

    return run


@scenario("parallel groups")
def groups(rollout: Rollout) -> None:
    with rollout.parallel(TalkingWorld, 6, group_size=2) as envs:
        rollout.note("reset", envs.reset(seed=7))
        go_on(rollout, envs, TalkingWorld, 6)
        rollout.note("reset groups", envs.reset(seed=[4, 5], options=[{"from": 3}, {}], group_ids=[2, 0]))
        go_on(rollout, envs, TalkingWorld, 6)
        rollout.note("reset", envs.reset())
        first, second = envs.split(2)
        rollout.note("parts", (first.reset(seed=2), second.reset(seed=3)))
        go_on(rollout, envs, TalkingWorld, 3)


@scenario("parallel groups with tasks")
def groups_with_tasks(rollout: Rollout) -> None:
    tasks = [{"from": 5}, 17, shoal.Task(seed=3, id="three"), None]
    with rollout.parallel(ArrayWorld, 6, groups=3, tasks=tasks, autoreset_mode="SameStep") as envs:
        rollout.note("reset", envs.reset(seed=[1, 2, 3]))
        go_on(rollout, envs, ArrayWorld, STEPS)


def total_of(env: Any, plus: int) -> int:
    total: int = env.unwrapped.total
    return total + plus


@scenario("parallel calls")
def calls(rollout: Rollout) -> None:
    with rollout.parallel(ArrayWorld) as envs:
        rollout.note("reset", envs.reset(seed=7))
        for number in range(4):
            go_on(rollout, envs, ArrayWorld, 2)
            ask(rollout, envs, number)
        go_on(rollout, envs, ArrayWorld, 4)
        rollout.note("random", (envs.np_random_seed, envs.np_random))


def ask(rollout: Rollout, envs: Any, number: int) -> None:
    envs.set_attr("label", [f"{number}{row}" for row in range(NUM_ENVS)])
    envs.set_attr("label", "third", env_ids=[3])
    rollout.note("call", envs.call("describe", prefix="at "))
    rollout.note("call on", envs.call_on([4, 0], total_of, number))
    rollout.note("get", (envs.get_attr("label"), envs.get_attr("length", env_ids=[1])))
    envs.call_async("describe", "later ")
    rollout.note("call", envs.call_wait())


def saved(world: type[World], mode: AutoresetMode) -> Scenario:
    def run(rollout: Rollout) -> None:
        with rollout.parallel(world, autoreset_mode=mode) as envs:
            rollout.note("reset", envs.reset(seed=7))
            go_on(rollout, envs, world, 6)
            state = envs.state_dict()
            go_on(rollout, envs, world, 4)
            rollout.note("loaded", envs.load_state_dict(state))
            go_on(rollout, envs, world, 4)
        with rollout.parallel(world, autoreset_mode=mode) as envs:
            rollout.note("loaded elsewhere", envs.load_state_dict(state))
            go_on(rollout, envs, world, 6)

    return run


def forked(world: type[World]) -> Scenario:
    def run(rollout: Rollout) -> None:
        with rollout.parallel(world, on_fault="restore") as envs:
            rollout.note("reset", envs.reset(seed=7))
            go_on(rollout, envs, world, 5)
            envs.fork(3, [0, 4])
            go_on(rollout, envs, world, 5)
            envs.fork(0, [1])
            rollout.note("call", envs.call("describe"))
            go_on(rollout, envs, world, 3)

    return run


@scenario("parallel failures")
def failures(rollout: Rollout) -> None:
    worlds: list[Any] = [ArrayWorld, ArrayWorld, Failing(2), ArrayWorld, Failing(2)]
    with ParallelEnv(rollout._factories(worlds), **rollout._keywords) as envs:
        rollout.note("reset", envs.reset(seed=7))
        rollout.note("step", envs.step(batch(envs, ArrayWorld, 0)))
        note_failure(rollout, lambda: envs.step(batch(envs, ArrayWorld, 1)))
        note_failure(rollout, lambda: envs.step(batch(envs, ArrayWorld, 1)))
        rollout.note("reset failed", envs.reset(env_ids=[2, 4], seed=3))
        go_on(rollout, envs, ArrayWorld, 5)
        note_failure(rollout, lambda: envs.step([9] * NUM_ENVS))
        note_failure(rollout, lambda: envs.step(None))
        note_failure(rollout, lambda: envs.reset(env_ids=[7]))
        note_failure(rollout, lambda: envs.call("nothing"))
        go_on(rollout, envs, ArrayWorld, 3)
        envs.send(batch(envs, ArrayWorld, 1, [1]), [1])
        note_failure(rollout, lambda: envs.step(batch(envs, ArrayWorld, 1)))
        note_failure(rollout, lambda: envs.send(batch(envs, ArrayWorld, 1)))
        rollout.note("received", envs.recv())
        go_on(rollout, envs, ArrayWorld, 3)


class Failing:
    """A factory of worlds that raise in a step of their first episode."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self) -> World:
        return ArrayWorld(self.step)


def note_failure(rollout: Rollout, attempt: Callable[[], Any]) -> None:
    try:
        rollout.note("not refused", attempt())
    except Exception as error:
        shown = {name: getattr(error, name, None) for name in ("env_index", "phase", "episode", "step", "seed")}
        others = [other.env_index for other in getattr(error, "others", ())]
        kinds = sorted(kind.__name__ for kind in type(error).__mro__)
        rollout.note("failure", (kinds, shown, others))


# -- EnvList -------------------------------------------------------------------------------------------------------------


def listed_steps(mode: AutoresetMode) -> Scenario:
    def run(rollout: Rollout) -> None:
        with rollout.several(autoreset_mode=mode) as envs:
            rollout.note("reset", envs.reset(seed=7))
            list_on(rollout, envs, STEPS)

    return run


def list_on(rollout: Rollout, envs: EnvList, steps: int) -> None:
    for step in range(steps):
        results = envs.step(listed(step))
        rollout.note("step", results)
        over = np.flatnonzero(ended(results)).tolist()
        if envs.autoreset_mode is AutoresetMode.DISABLED and over:
            rollout.note("reset ended", envs.reset(env_ids=over, options={"from": step}))


@scenario("list some")
def some_of_a_list(rollout: Rollout) -> None:
    with rollout.several(autoreset_mode="NextStep") as envs:
        rollout.note("reset", envs.reset(seed=7, options=[{"from": row} for row in range(NUM_ENVS)]))
        for step in range(STEPS):
            rows = [row for row in (3, 0, 2, 4, 1) if (row + step) % 3]
            rollout.note("some", envs.step(listed(step, rows), env_ids=rows))
        rollout.note("reset some", envs.reset(env_ids=np.arange(NUM_ENVS) > 2, seed=[5, 6]))
        list_on(rollout, envs, 3)


@scenario("list turns")
def turns(rollout: Rollout) -> None:
    with rollout.several(turn=shoal.run_actions, autoreset_mode="SameStep") as envs:
        rollout.note("reset", envs.reset(seed=7))
        for step in range(6):
            rollout.note(
                "turn",
                envs.step([[world.action(step + k) for k in range(1 + row % 3)] for row, world in enumerate(MIXED)]),
            )


@scenario("list sent")
def list_sent(rollout: Rollout) -> None:
    with rollout.several() as envs:
        given: list[list[Any]] = [[] for _ in range(NUM_ENVS)]
        envs.send_reset(seed=7)
        while envs.num_under_way:
            received = envs.recv()
            for row, *result in zip(received.env_ids.tolist(), *received[1:], strict=True):
                given[row].append(result)
                if len(given[row]) > STEPS:
                    continue
                if result[2] or result[3]:
                    envs.send_reset([row])
                else:
                    envs.send(listed(len(given[row]), [row]), [row])
        for row, its in enumerate(given):
            rollout.note(f"environment {row}", its)


@scenario("list groups with tasks")
def list_groups(rollout: Rollout) -> None:
    worlds = [ArrayWorld, ArrayWorld, TalkingWorld, TalkingWorld]
    with rollout.several(worlds, group_size=2, tasks=function_of_tasks, autoreset_mode="NextStep") as envs:
        rollout.note("reset", envs.reset())
        for step in range(STEPS):
            rollout.note("step", envs.step([world.action(step) for world in worlds]))
        rollout.note("reset group", envs.reset(group_ids=[1], seed=[9]))
        rollout.note("step", envs.step([world.action(1) for world in worlds]))


@scenario("list calls")
def list_calls(rollout: Rollout) -> None:
    with rollout.several(autoreset_mode="NextStep") as envs:
        rollout.note("reset", envs.reset(seed=7))
        for number in range(3):
            list_on(rollout, envs, 3)
            ask(rollout, envs, number)
        list_on(rollout, envs, 3)


@scenario("list saved and forked")
def list_saved(rollout: Rollout) -> None:
    with rollout.several(autoreset_mode="NextStep") as envs:
        rollout.note("reset", envs.reset(seed=7))
        list_on(rollout, envs, 6)
        state = envs.state_dict()
        list_on(rollout, envs, 3)
        envs.fork(0, [3])
        list_on(rollout, envs, 3)
        rollout.note("loaded", envs.load_state_dict(state))
        list_on(rollout, envs, 3)
    with rollout.several(autoreset_mode="NextStep") as envs:
        rollout.note("loaded elsewhere", envs.load_state_dict(state))
        list_on(rollout, envs, 3)


@scenario("list failures")
def list_failures(rollout: Rollout) -> None:
    with rollout.several([ArrayWorld, TalkingWorld, Failing(2)], autoreset_mode="NextStep") as envs:
        note_failure(rollout, lambda: envs.step([0, "no", 0]))
        rollout.note("reset", envs.reset(seed=7))
        rollout.note("step", envs.step([1, "one", 1]))
        note_failure(rollout, lambda: envs.step([1, "two", 1]))
        note_failure(rollout, lambda: envs.step([1, "two", 1]))
        note_failure(rollout, lambda: envs.step([1]))
        rollout.note("others", envs.step([1, "two"], env_ids=[0, 1]))
        rollout.note("reset failed", envs.reset(env_ids=[2], seed=1))
        rollout.note("step", envs.step([1, "three", 1]))


# -- lost episodes -------------------------------------------------------------------------------------------------------


def losing(mode: AutoresetMode) -> Scenario:
    """Environments that cannot be repeated, of which some lose their workers. Tasks say how those go on that are made anew."""

    def run(rollout: Rollout) -> None:
        plan = FaultPlan([Fault("kill", env=2, step=2), Fault("kill", env=3, episode=1, phase="reset")])
        keywords = {**rollout._keywords, "num_workers": None, "replayable": False, "autoreset_mode": mode}
        keywords["tasks"] = function_of_tasks
        with ParallelEnv(plan.wrap([ArrayWorld] * NUM_ENVS), **keywords) as envs:
            rollout.note("reset", envs.reset(seed=7))
            for step in range(STEPS):
                results = envs.step(batch(envs, ArrayWorld, step))
                for info in (results[4], results[4].get("final_info", {})):
                    if "fault" in info:
                        info["fault"] = info["fault"]["kind"]  # the message names processes
                rollout.note("step", results)
                if mode is AutoresetMode.DISABLED and ended(results).any():
                    rollout.note("reset mask", envs.reset(options={"reset_mask": ended(results)}))
        plan.check_all_fired()

    return run


for each, mode in itertools.product(WORLDS, MODES):
    SCENARIOS[f"parallel steps, {each.kind}, {mode.value}"] = lockstep(each, mode)
    SCENARIOS[f"parallel sent, {each.kind}, {mode.value}"] = sent(each, mode)
for each in WORLDS:
    SCENARIOS[f"parallel halves, {each.kind}"] = halves(each, 2)
    SCENARIOS[f"parallel partly, {each.kind}"] = partly(each)
    SCENARIOS[f"parallel forked, {each.kind}"] = forked(each)
for mode in MODES:
    SCENARIOS[f"parallel tasks, {mode.value}"] = by_tasks(function_of_tasks, mode)
    SCENARIOS[f"parallel saved, {mode.value}"] = saved(NestedWorld, mode)
    SCENARIOS[f"list steps, {mode.value}"] = listed_steps(mode)
    LOSING[f"parallel losing, {mode.value}"] = losing(mode)
SCENARIOS["parallel thirds"] = halves(ArrayWorld, 3)
SCENARIOS["parallel list of tasks"] = by_tasks([3, {"from": 2}, shoal.Task(seed=5)], AutoresetMode.NEXT_STEP)
SCENARIOS["parallel steps, spaces batched as different"] = lockstep(
    ArrayWorld, AutoresetMode.NEXT_STEP, observation_mode="different"
)


def kills() -> FaultPlan:
    """Workers are killed before, in and after what every scenario does; who takes over must give the same."""
    return FaultPlan(
        [
            Fault("kill", env=1, step=1),
            Fault("kill", env=0, step=2, phase="after step"),
            Fault("kill", env=2, episode=1, phase="reset"),
            Fault("kill", env=0, episode=1, step=2),
        ]
    )
