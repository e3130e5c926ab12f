"""The manager: environments one by one as at the ends of pipes, and many together."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import shoal
from shoal.meta import ParallelEnvManager, make_env, make_parallel_env
from tests.comparing import difference
from tests.meta.envs import Counting, Meeting, OldTasks
from tests.scripts import run_script

STILL = np.zeros(2, np.float32)
Make = Callable[..., ParallelEnvManager]


@pytest.fixture
def make(backend: str) -> Iterator[Make]:
    """Managers on every backend, closed at the end."""
    made = []

    def make(env: Any, episodes: int = 2, num_workers: int = 3, **keywords: Any) -> ParallelEnvManager:
        workers = {} if backend == "serial" else {"num_processes": 2, "start_method": "fork"}
        made.append(make_parallel_env(env, episodes, num_workers, **{"backend": backend, **workers, **keywords}))
        return made[-1]

    yield make
    for manager in made:
        manager.close()


# -- one by one --------------------------------------------------------------------------------------------------------


def test_every_environment_has_a_task_of_its_own_and_ends_when_it_does(make: Make) -> None:
    """As the collection of rollouts goes: who is done is reset with another task, while the others go on."""
    remotes = make(Counting).remotes
    for number, remote in enumerate(remotes):
        remote.send(("reset", {"task": number}))
    assert [remote.recv().tolist() for remote in remotes] == [[0, 0, 0]] * 3
    lengths = [0, 0, 0]
    for _ in range(6):
        for remote in remotes:
            remote.send(("step", STILL))
        for number, remote in enumerate(remotes):
            observation, reward, done, info = remote.recv()
            lengths[number] += 1
            assert (type(reward), type(done), type(info)) == (float, bool, dict)
            assert reward == 0.5
            assert info["steps"] == (lengths[number] - 1) % (3 + number) + 1
            assert done == (number == 0 and lengths[0] == 6)
    remotes[0].send(("reset", {"task": 5}))
    assert remotes[0].recv().tolist() == [2, 0, 0]
    remotes[0].send(("step", STILL))
    remotes[1].send(("step", STILL))
    assert remotes[0].recv()[0].tolist() == [2, 1, 0]
    assert remotes[1].recv()[0].tolist() == [1, 3, 0]
    for remote, task in zip(remotes, (5, 1, 2), strict=True):
        remote.send(("get_task", None))
        assert remote.recv().tolist() == [task, -task]


def test_infos_are_those_of_each(make: Make) -> None:
    remotes = make(Counting).remotes
    for number, remote in enumerate(remotes):
        remote.send(("reset", {"task": number}))
        remote.recv()
    told = []
    for _ in range(3):
        for remote in remotes:
            remote.send(("step", STILL))
        told = [remote.recv()[3] for remote in remotes]
    assert told[0].pop("start_state").tolist() == [1, 0, 0]
    assert told == [{"steps": 3, "done_mdp": number == 0} for number in range(3)]
    assert type(told[0]["done_mdp"]) is bool
    assert type(told[0]["steps"]) is int


@pytest.mark.parametrize("name", ["Wind-v0", "PointRobotSparse-v0", "GridNavi-v0"])
def test_environment_i_is_what_make_env_makes_with_seed_plus_i(make: Make, name: str) -> None:
    manager = make(name, seed=7)
    singles = [make_env(name, 2, seed=7 + number) for number in range(3)]
    for single, remote in zip(singles, manager.remotes, strict=True):
        remote.send(("reset", {"task": None}))
        assert remote.recv().tolist() == single.reset(task=None)[0].tolist()
    for _ in range(5):
        action = manager.action_space.sample()
        for single, remote in zip(singles, manager.remotes, strict=True):
            remote.send(("step", action))
            observation, reward, done, info = remote.recv()
            expected = single.step(action)
            assert not difference([observation, reward, done, False, info], list(expected))


def test_without_a_seed_everybody_draws_another_task(make: Make) -> None:
    manager = make("PointRobot-v0", num_workers=8)
    manager.reset()
    assert len({tuple(task) for task in manager.envs.call("get_current_task")}) == 8


def test_a_reset_may_have_a_seed_and_nothing_at_all_draws_a_task(make: Make) -> None:
    remotes = make("GridNavi-v0", n_tasks=21).remotes
    tasks = []
    for payload in ({"task": 3, "seed": 5}, {"seed": 11}, {"seed": 11}, None, {}):
        remotes[1].send(("reset", payload))
        remotes[1].recv()
        remotes[1].send("get_task")
        tasks.append(remotes[1].recv().tolist())
    env = make_env("GridNavi-v0", 2, n_tasks=21)
    known: list[dict[str, Any]] = [{"task": 3}, {"seed": 11}, {"seed": 11}]
    for task, reset in zip(tasks, known, strict=False):
        env.reset(**reset)
        assert task == env.get_current_task().tolist()


def test_an_answer_that_was_not_asked_for_is_refused_and_nobody_hangs(make: Make) -> None:
    remotes = make(Counting).remotes
    with pytest.raises(shoal.NothingPending, match="nothing was sent to environment 0.*every send has one recv"):
        remotes[0].recv()
    remotes[0].send(("reset", {"task": 0}))
    with pytest.raises(shoal.NothingPending, match="nothing was sent to environment 1"):
        remotes[1].recv()
    remotes[0].recv()
    with pytest.raises(shoal.NothingPending):
        remotes[0].recv()


def test_a_second_question_before_the_answer_is_refused_and_the_first_goes_on(make: Make) -> None:
    remotes = make(Counting).remotes
    remotes[2].send(("reset", {"task": 0}))
    with pytest.raises(shoal.AlreadyPending, match="environment 2 was sent 'step' before its answer to 'reset'"):
        remotes[2].send(("step", STILL))
    assert remotes[2].recv().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (("rest", None), "no command 'rest', only 'reset', 'step'.*Did you mean 'reset'"),
        ("fly", "there is no command 'fly'"),
        (7, r"a message is a command and what belongs to it, such as \('reset', \{'task': 7\}\), got 7"),
        (("reset", 7), "a reset is told a dictionary with 'task', 'seed', both or none of them, got 7"),
        (("reset", {"tasks": 7}), "a reset is told a dictionary"),
    ],
)
def test_a_message_that_is_none_is_refused_and_nothing_is_pending(make: Make, message: Any, said: str) -> None:
    remote = make(Counting).remotes[0]
    with pytest.raises(shoal.ConfigurationError, match=said):
        remote.send(message)
    assert not remote.is_pending


def test_a_step_before_the_reset_and_after_the_end_is_refused(make: Make) -> None:
    manager = make(Counting, episodes=1)
    with pytest.raises(shoal.ResetNeeded, match="environment 0 must be reset before the first step"):
        manager.remotes[0].send(("step", STILL))
    manager.reset([0, 1, 1])
    dones = [manager.step([STILL] * 3).dones.tolist() for _ in range(3)]
    assert dones == [[False] * 3] * 2 + [[True, False, False]]
    with pytest.raises(shoal.ResetNeeded, match="the episode of environment 0 has ended"):
        manager.remotes[0].send(("step", STILL))
    manager.remotes[1].send(("step", STILL))
    assert manager.remotes[1].recv()[2]


def test_an_action_that_does_not_fit_is_refused_and_nothing_is_pending(make: Make) -> None:
    manager = make("GridNavi-v0")
    manager.reset()
    with pytest.raises(shoal.InvalidAction):
        manager.remotes[0].send(("step", 9))
    assert not manager.remotes[0].is_pending
    manager.remotes[0].send(("step", 1))
    manager.remotes[0].recv()


def test_what_an_environment_raises_is_raised_where_its_answer_is_received(make: Make) -> None:
    remotes = make("GridNavi-v0", n_tasks=5).remotes
    remotes[0].send(("reset", {"task": 9}))
    remotes[1].send(("reset", {"task": 4}))
    assert remotes[0].poll(10)
    with pytest.raises(shoal.ConfigurationError, match="a task is a number from 0 to 4") as caught:
        remotes[0].recv()
    assert isinstance(caught.value, shoal.EnvError)
    assert remotes[1].recv().tolist() == [0, 0, 0]
    remotes[0].send(("reset", {"task": 1}))
    remotes[0].recv()


def test_asking_for_the_task_or_another_episode_disturbs_nobody_under_way(make: Make) -> None:
    manager = make(Counting)
    manager.reset([0, 1, 2])
    manager.remotes[1].send(("step", STILL))
    manager.remotes[0].send(("get_task", None))
    manager.remotes[2].send(("reset_mdp", None))
    assert manager.remotes[0].recv().tolist() == [0, 0]
    assert manager.remotes[2].recv().tolist() == [1, 0, 0]
    assert manager.remotes[1].recv()[0].tolist() == [0, 1, 0]
    manager.remotes[2].send(("step", STILL))
    assert manager.remotes[2].recv()[0].tolist() == [1, 1, 0]


def test_spaces_can_be_asked_for(make: Make) -> None:
    manager = make(Counting)
    manager.remotes[0].send(("get_spaces", None))
    assert manager.remotes[0].recv() == (manager.observation_space, manager.action_space)


def test_poll_says_whether_an_answer_is_there(process_backend: str, tmp_path: Path) -> None:
    with make_parallel_env(
        Meeting, 2, 2, backend=process_backend, num_processes=2, start_method="fork", actions="varibad", folder=tmp_path
    ) as manager:
        slow, quick = manager.remotes
        manager.reset([0, 0])
        assert not slow.poll()
        slow.send(("step", np.array([0, 3], np.float32)))
        quick.send(("step", STILL))
        assert quick.poll(30)
        assert quick.poll()
        assert not slow.poll()
        assert not slow.poll(0.01)
        assert quick.recv()[0].tolist() == [0, 1, 0]
        (tmp_path / "third").touch()
        assert slow.poll(None)
        assert slow.recv()[0].tolist() == [0, 1, 0]


def test_environments_compute_at_the_same_time_and_sending_does_not_wait(process_backend: str, tmp_path: Path) -> None:
    with make_parallel_env(
        Meeting, 2, 2, backend=process_backend, num_processes=2, start_method="fork", actions="varibad", folder=tmp_path
    ) as manager:
        manager.reset([0, 0])
        for remote in manager.remotes:
            remote.send(("step", np.array([0, 2], np.float32)))
        assert [remote.recv()[0].tolist() for remote in manager.remotes] == [[0, 1, 0]] * 2


# -- together ----------------------------------------------------------------------------------------------------------


def test_some_are_stepped_and_reset_together_in_the_order_in_which_they_are_named(make: Make) -> None:
    manager = make(Counting, num_workers=5)
    observations, infos = manager.reset([4, 3, 2, 1, 0], seeds=3)
    assert observations.shape == (5, 3)
    assert [info["options"]["task"] for info in infos] == [4, 3, 2, 1, 0]
    manager.step([STILL] * 2, env_ids=[3, 1])
    stepped = manager.step([STILL, STILL, STILL], env_ids=[4, 1, 0])
    assert stepped.observations.tolist() == [[0, 1, 0], [0, 2, 0], [0, 1, 0]]
    assert stepped.rewards.tolist() == [0.5] * 3
    assert [info["steps"] for info in stepped.infos] == [1, 2, 1]
    observations, infos = manager.reset(7, env_ids=[3, 0])
    assert observations.tolist() == [[1, 0, 0]] * 2
    assert [info["options"]["task"] for info in infos] == [7, 7]
    assert manager.step([STILL] * 5).observations[:, 1].tolist() == [1, 3, 1, 1, 2]


def test_together_and_one_by_one_come_to_the_same(make: Make) -> None:
    tasks, actions = [3, 1, 4], np.random.default_rng(0).uniform(-1, 1, (40, 3, 2)).astype(np.float32)
    together, apart = make("PointRobotSparse-v0", n_tasks=5, seed=2), make("PointRobotSparse-v0", n_tasks=5, seed=2)
    first, _ = together.reset(tasks)
    for remote, task, observation in zip(apart.remotes, tasks, first, strict=True):
        remote.send(("reset", {"task": task}))
        assert not difference(remote.recv(), observation)
    for several in actions:
        stepped = together.step(several)
        for remote, action in zip(apart.remotes, several, strict=True):
            remote.send(("step", action))
        found = [remote.recv() for remote in apart.remotes]
        expected = list(
            zip(stepped.observations, stepped.rewards.tolist(), stepped.dones.tolist(), stepped.infos, strict=True)
        )
        assert not difference(found, expected)


def test_who_is_asked_by_its_remote_is_not_stepped_with_the_others(make: Make) -> None:
    manager = make(Counting)
    manager.reset(0)
    manager.remotes[1].send(("step", STILL))
    with pytest.raises(shoal.AlreadyPending, match=r"environments \[1\] were sent something"):
        manager.step([STILL] * 3)
    assert manager.step([STILL] * 2, env_ids=[0, 2]).observations[:, 1].tolist() == [1, 1]
    manager.remotes[1].recv()


@pytest.mark.parametrize("tasks", [[1, 2], "abc", [1, 2, 3, 4]])
def test_tasks_that_are_too_few_or_none_are_refused(make: Make, tasks: Any) -> None:
    with pytest.raises(
        shoal.ConfigurationError, match="tasks must be one for each of the 3 environments, or one for all"
    ):
        make(Counting).reset(tasks)


def test_one_that_raises_together_with_others_can_be_reset(make: Make) -> None:
    manager = make("GridNavi-v0", n_tasks=5)
    with pytest.raises(shoal.ConfigurationError, match="a task is a number from 0 to 4"):
        manager.reset([1, 77], env_ids=[0, 2])
    manager.reset([1, 2, 3])
    assert manager.step([0, 0, 0]).observations.shape == (3, 3)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_del_and_close_end_all_workers(process_backend: str) -> None:
    for way in ("del", "close", "with"):
        manager = make_parallel_env(Counting, 2, 4, backend=process_backend, num_processes=2, start_method="fork")
        workers = [psutil.Process(pid) for pid in manager.envs.worker_pids]
        remote = manager.remotes[0]
        remote.send(("reset", {"task": 0}))  # under way, and never received
        is_there = weakref.ref(manager)
        gc.disable()
        try:
            if way == "del":
                del manager
                assert is_there() is None, "nothing refers to it in a circle"
            elif way == "close":
                manager.close()
                manager.close()
            else:
                with manager:
                    pass
        finally:
            gc.enable()
        assert not psutil.wait_procs(workers, timeout=5)[1]
        with pytest.raises(shoal.Closed, match="environment 0 is closed"):
            remote.recv()


def test_a_program_that_ends_without_closing_leaves_nothing_and_says_nothing() -> None:
    done = run_script("""
        from shoal.meta import make_parallel_env
        manager = make_parallel_env("Wind-v0", 2, 4, backend="shm", num_processes=2)
        manager.remotes[0].send(("reset", {"task": None}))
        print(*manager.envs.worker_pids)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    for pid in map(int, done.stdout.split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_when_all_remotes_are_closed_everything_is(make: Make) -> None:
    manager = make(Counting)
    manager.remotes[0].send(("close", None))
    with pytest.raises(shoal.Closed):
        manager.remotes[0].send(("reset", None))
    manager.remotes[1].send(("reset", {"task": 1}))
    manager.remotes[1].recv()
    for remote in manager.remotes[1:]:
        remote.send(("close", None))
    assert manager.envs.closed


def test_what_nobody_says_about_tasks_cannot_be_asked() -> None:
    with make_parallel_env(OldTasks, 1, 2, backend="serial") as manager:
        with pytest.raises(AttributeError, match="the environments have no 'n_tasks'"):
            _ = manager.n_tasks
        assert manager.episodes_per_task == 1


def test_the_engine_says_what_it_does(make: Make, backend: str) -> None:
    manager = make(Counting)
    assert manager.plan.backend == backend
    assert manager.stats.restarts == 0


def test_light_environments_stay_in_this_process_by_default() -> None:
    with make_parallel_env("GridNavi-v0", 2, 8, seed=0) as manager:
        manager.reset()
        for _ in range(100):
            manager.step([0] * 8) if not manager.envs._readiness.ends_for_good else manager.reset()
        assert manager.plan.backend == "serial"
        assert manager.envs.worker_pids == ()


def test_a_manager_can_be_made_of_factories(process_backend: str) -> None:
    with ParallelEnvManager([Counting] * 2, backend=process_backend, start_method="fork") as manager:
        assert manager.reset([1, 2])[0].tolist() == [[0, 0]] * 2
        assert manager.n_tasks == 8
