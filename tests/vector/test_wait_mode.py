"""Whether waiting processes look or sleep, decided by how long rounds take on machines that are made up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shoal import ParallelEnv
from shoal.vector.backends.wait_mode import PAUSE_SECONDS, WaitMode
from tests.envs import counting

NUM_ENVS = 8
Machine = Callable[[bool, float], float]
"""How long a round takes, with looking or without, at this time."""


def quiet(looks: bool, now: float) -> float:
    return 2.0e-4 if looks else 2.6e-4


def busy(looks: bool, now: float) -> float:
    return 4.0e-3 if looks else 4.5e-4


class Player:
    """Plays rounds on a machine, and counts how much time went into what."""

    def __init__(self, machine: Machine) -> None:
        self.mode, self.machine, self.now = WaitMode(NUM_ENVS), machine, 0.0
        self.seconds = {True: 0.0, False: 0.0}
        self.turns: list[tuple[float, bool]] = []

    def play(self, until: float) -> Player:
        while self.now < until:
            looks = self.mode.looks
            taken = self.machine(looks, self.now)
            self.now += taken
            self.seconds[looks] += taken
            if self.mode.note(NUM_ENVS, self.now):
                self.turns.append((self.now, self.mode.looks))
        return self

    def share(self, looks: bool) -> float:
        return self.seconds[looks] / sum(self.seconds.values())


def test_on_a_quiet_machine_processes_look_nearly_all_the_time() -> None:
    player = Player(quiet).play(20.0)
    assert player.mode.looks
    assert player.share(True) > 0.99


def test_beside_a_busy_process_they_sleep_and_trying_costs_little() -> None:
    player = Player(busy).play(20.0)
    assert not player.mode.looks
    assert player.share(True) < 0.01


def test_where_looking_gains_nothing_they_sleep() -> None:
    assert Player(lambda looks, now: 1e-3).play(20.0).share(True) < 0.1


def test_company_is_noticed_within_a_few_rounds_and_its_end_within_seconds() -> None:
    player = Player(lambda looks, now: (busy if 5.0 <= now < 10.0 else quiet)(looks, now)).play(5.0)
    assert player.mode.looks
    player.play(5.1)
    assert not player.mode.looks, f"it was still looking after 25 rounds of 4 ms: {player.turns[-5:]}"
    player.play(10.0)
    assert not player.mode.looks
    player.play(10.0 + PAUSE_SECONDS + 0.1)
    assert player.mode.looks


def test_a_smaller_loss_is_noticed_too() -> None:
    def machine(looks: bool, now: float) -> float:
        return (3.7e-3 if looks else 2.5e-3) if now > 5.0 else (1.1e-3 if looks else 1.2e-3)

    player = Player(machine).play(5.0)
    assert player.mode.looks
    player.play(5.0 + PAUSE_SECONDS + 1.0)
    assert not player.mode.looks


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("machine", [quiet, busy])
def test_rounds_that_vary_and_updates_in_between_change_nothing(machine: Machine, seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 0

    def varying(looks: bool, now: float) -> float:
        nonlocal count
        count += 1
        update = 0.3 if count % 128 == 0 else 0.0
        return machine(looks, now) * random.lognormal(0.0, 0.2) + update

    player = Player(varying).play(60.0)
    kept = [looks for _, looks in player.turns]
    assert player.mode.looks is (machine is quiet), kept


def test_environments_that_answer_one_by_one_make_rounds_together() -> None:
    mode, now, changes = WaitMode(NUM_ENVS), 0.0, 0
    for _ in range(10_000):
        now += quiet(mode.looks, now) / NUM_ENVS
        changes += mode.note(1, now)
    assert mode.looks
    assert changes % 2 == 1


def test_workers_are_told(process_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def note(mode: WaitMode, num_answered: int, now: float) -> bool:
        mode.looks = not mode.looks
        told.append(mode.looks)
        return True

    monkeypatch.setattr(WaitMode, "note", note)
    monkeypatch.setattr("shoal.vector.backends.processes.usable_cpus", lambda: 2)
    with ParallelEnv([counting(1000)] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        for count in range(1, 200):
            observation, *_ = envs.step([0] * 4)
            assert observation[:, 0].tolist() == [count] * 4
    assert len(told) > 200


def test_with_more_workers_than_processors_processes_never_look(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WaitMode, "note", lambda *_: pytest.fail("nothing is to be decided"))
    monkeypatch.setattr("shoal.vector.backends.processes.usable_cpus", lambda: 1)
    with ParallelEnv([counting()] * 4, backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset()
        envs.step([0] * 4)
