"""Texts and infos that are never alike: the same on every backend, and on shm without a message."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal
from shoal import EnvContractError, EnvList, ParallelEnv
from shoal.testing import Fault, FaultPlan
from shoal.vector.backends import mailboxes
from shoal.vector.backends.board import LETTERS_READ, Desk, writes_keep_their_order
from shoal.vector.backends.channel import LOG, RING, Frame
from shoal.vector.backends.mailboxes import ROOM, Inbox, Outbox
from shoal.vector.backends.processes import ProcessBackend
from shoal.vector.history import History
from tests.comparing import difference

needs_board = pytest.mark.skipif(not writes_keep_their_order(), reason="steps travel as messages here")
HOSTILE = ("", " ", "\0", "ä" * 50, "😀" * 300, "\ud800", "x\udfffy", "\r\n", "x" * 3000)


class Anything(spaces.Space[Any]):
    def contains(self, x: Any) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything)


class StoryEnv(gymnasium.Env[Any, Any]):
    """Tells a story that depends on its seed and its actions, and in every step an info like no other."""

    observation_space: spaces.Space[Any] = Anything()
    action_space: spaces.Space[Any] = spaces.Discrete(5)

    def __init__(self, index: int = 0, length: int = 1000, huge_at: tuple[int, ...] = ()) -> None:
        self.index, self.length, self.huge_at = index, length, huge_at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.heard = 0, ""
        return "Once upon a time", {"who": f"env {self.index}"}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.heard = f"{self.heard[-20:]}|{action}"
        text = f"{self.steps} {self.heard} {self.np_random.random()}{self.np_random.choice(HOSTILE)}"
        if self.steps in self.huge_at:
            text = text + "ü" * 3_000_000
        info = {"place": f"room {self.np_random.integers(10**9)}", "score": self.steps / 3, "won": self.steps % 2 == 0}
        return text, float(len(text)), self.steps >= self.length, False, info


class OddEnv(StoryEnv):
    """Tells other things in every step, of every kind; the first one tells very much."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        odd: list[dict[str, Any]] = [
            {},
            {"who": None},
            {"a": [1, "\ud83d", {"b": (2.5, True)}]},
            info,
            {"at": np.arange(self.steps % 4)},
        ]
        told = odd[int(self.np_random.integers(len(odd)))]
        if self.index == 0:
            told = {**told, "log": [f"line {number}" for number in range(2000)]}
        return {"text": text, "numbers": [self.steps, np.float32(0.5)]}, reward, terminated, truncated, told


class NumberedEnv(StoryEnv):
    """The same with observations of fixed size beside texts."""

    observation_space = spaces.Dict({"at": spaces.Box(0, 1e6, (3,), np.float32), "text": Anything()})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        text, info = super().reset(seed=seed)
        return {"at": np.zeros(3, np.float32), "text": text}, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        text, reward, terminated, truncated, info = super().step(action)
        return {"at": np.full(3, self.steps, np.float32), "text": text}, reward, terminated, truncated, info


KINDS: tuple[type[StoryEnv], ...] = (StoryEnv, OddEnv, NumberedEnv)
NUM_ENVS = 5


def worlds(kind: type[StoryEnv], **choices: Any) -> list[Callable[[], Any]]:
    return [functools.partial(kind, index, **choices) for index in range(NUM_ENVS)]


def story(envs: ParallelEnv, steps: int = 25) -> list[Any]:
    random = np.random.default_rng(5)
    return [*envs.reset(seed=3), *(envs.step(random.integers(0, 5, envs.num_envs)) for _ in range(steps))]


def tale(envs: EnvList, steps: int = 25) -> list[Any]:
    """What comes of steps of all and of some, with texts and lists as actions, and of environments one by one."""
    random = np.random.default_rng(5)
    found: list[Any] = [*envs.reset(seed=3)]
    for number in range(steps):
        rows = sorted(random.choice(len(envs), size=random.integers(1, len(envs) + 1), replace=False).tolist())
        actions = [f"go {row} {HOSTILE[int(random.integers(len(HOSTILE)))]}" for row in rows]
        if number % 3 == 0:
            found.append(envs.step(["look"] * len(envs)))
        elif number % 3 == 1:
            found.append(envs.step(actions, rows))
        else:
            envs.send(actions, rows)
            found.append(envs.recv(env_ids=rows)[1:])
    return found


def on_shm(kind: type[StoryEnv], num_workers: int = 2, **choices: Any) -> ParallelEnv:
    return ParallelEnv(worlds(kind, **choices), backend="shm", num_workers=num_workers, start_method="fork")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_texts_are_the_same_everywhere(make: Callable[..., ParallelEnv], kind: type[StoryEnv], mode: str) -> None:
    with ParallelEnv(worlds(kind, length=7), backend="serial", num_workers=1, autoreset_mode=mode) as plain:
        expected = story(plain)
    assert not difference(story(make(worlds(kind, length=7), autoreset_mode=mode)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_so_they_are_in_lists(backend: str, kind: type[StoryEnv]) -> None:
    with EnvList(worlds(kind, length=9), backend="serial", autoreset_mode="NextStep") as plain:
        expected = tale(plain)
    with EnvList(
        worlds(kind, length=9), backend=backend, num_workers=2, start_method="fork", autoreset_mode="NextStep"
    ) as envs:
        assert not difference(tale(envs), expected)


@pytest.mark.parametrize("num_parts", [2, 3])
def test_so_they_are_in_parts(backend: str, num_parts: int) -> None:
    def play(envs: ParallelEnv) -> list[Any]:
        found: list[Any] = [*envs.reset(seed=1)]
        parts = envs.split(num_parts)
        for number in range(20):
            for part in parts:
                part.step_async(np.full(part.num_envs, number % 5))
            found += [part.step_wait() for part in parts]
        return found

    with ParallelEnv(worlds(OddEnv), backend="serial") as plain:
        expected = play(plain)
    with ParallelEnv(worlds(OddEnv), backend=backend, num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs), expected)


class Maze(gymnasium.Env[Any, Any]):
    observation_space, action_space = spaces.Box(0, 9, (2,), np.int64), spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = np.zeros(2, np.int64)
        return self.at, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at[action % 2] += 1
        return self.at, 1.0, False, False, {"at": self.at, "said": str(self.at)} if self.at[0] % 2 else {}


def test_different_worlds_take_turns_of_several_actions(backend: str) -> None:
    def play(envs: EnvList) -> list[Any]:
        turns = ([["look", f"take {number}"], [0, 1, 0], ["😀"], [1]] for number in range(12))
        return [*envs.reset(seed=2), *map(envs.step, turns)]

    env_fns = [StoryEnv, Maze, OddEnv, Maze]
    with EnvList(env_fns, turn=shoal.run_actions, backend="serial") as plain:
        expected = play(plain)
    with EnvList(env_fns, turn=shoal.run_actions, backend=backend, num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs), expected)


TEXTS = st.text(st.characters(), max_size=40) | st.sampled_from(HOSTILE)
INFOS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), TEXTS | st.integers() | st.floats(allow_nan=False) | st.none() | st.booleans()
)


class ScriptedEnv(gymnasium.Env[Any, Any]):
    observation_space, action_space = Anything(), spaces.Discrete(2)

    def __init__(self, script: list[tuple[Any, dict[str, Any]]]) -> None:
        self.script = script

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return "", {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, info = self.script[self.steps % len(self.script)]
        self.steps += 1
        return observation, 0.0, self.steps % 5 == 0, False, info


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    scripts=st.lists(st.lists(st.tuples(TEXTS, INFOS), min_size=1, max_size=4), min_size=1, max_size=4),
    num_workers=st.integers(1, 3),
)
def test_whatever_is_told_arrives_as_with_serial(scripts: list[Any], num_workers: int) -> None:
    env_fns = [functools.partial(ScriptedEnv, script) for script in scripts]

    def play(envs: ParallelEnv) -> list[Any]:
        return [*envs.reset(seed=0), *(envs.step(np.zeros(len(scripts), np.int64)) for _ in range(7))]

    with ParallelEnv(env_fns, backend="serial") as plain:
        expected = play(plain)
    with ParallelEnv(env_fns, backend="shm", num_workers=num_workers, start_method="fork") as envs:
        assert not difference(play(envs), expected)


# -- mailboxes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """What workers send, except to wake the caller."""
    found: list[Frame] = []
    take = ProcessBackend._take

    def note(self: ProcessBackend, worker: int, member: Any, frame: Frame, events: Any) -> None:
        found.extend([frame] if frame.kind not in (RING, LOG) else [])
        take(self, worker, member, frame, events)

    monkeypatch.setattr(ProcessBackend, "_take", note)
    return found


@needs_board
def test_a_step_of_texts_is_no_message(messages: list[Frame]) -> None:
    with on_shm(StoryEnv) as envs:
        envs.reset(seed=0)
        messages.clear()
        for _ in range(40):
            envs.step(np.zeros(NUM_ENVS, np.int64))
        assert not messages


@needs_board
def test_nor_is_one_of_a_list_or_of_whoever_is_ready(messages: list[Frame]) -> None:
    with EnvList(worlds(OddEnv), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        messages.clear()
        for number in range(20):
            envs.step([f"go {number}"] * NUM_ENVS)
            envs.send(["look"] * NUM_ENVS)
            left = NUM_ENVS
            while left:
                left -= len(envs.recv().env_ids)
        assert not messages


@needs_board
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_large_for_a_mailbox_is_a_message(
    kind: type[StoryEnv], messages: list[Frame], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ParallelEnv(worlds(kind), backend="serial") as plain:
        expected = story(plain)
    place_for = Outbox._place_for
    monkeypatch.setattr(Outbox, "_place_for", lambda outbox, size: place_for(outbox, size) if size < 2000 else -1)
    with on_shm(kind) as envs:
        assert not difference(story(envs), expected)
        assert messages


def test_a_text_may_grow_to_megabytes_in_one_step(backend: str) -> None:
    with ParallelEnv(worlds(StoryEnv, huge_at=(3, 4, 9)), backend="serial") as plain:
        expected = story(plain, 12)
    with ParallelEnv(worlds(StoryEnv, huge_at=(3, 4, 9)), backend=backend, num_workers=2, start_method="fork") as envs:
        assert not difference(story(envs, 12), expected)


@needs_board
def test_where_there_is_no_memory_for_a_mailbox_texts_are_messages(
    messages: list[Frame], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ParallelEnv(worlds(StoryEnv), backend="serial") as plain:
        expected = story(plain)
    monkeypatch.setattr(mailboxes, "free_memory", lambda: 0)
    with on_shm(StoryEnv) as envs:
        assert not difference(story(envs), expected)
        assert len(messages) > 2 * 25


@needs_board
def test_so_they_are_where_there_is_no_address_space(messages: list[Frame], monkeypatch: pytest.MonkeyPatch) -> None:
    with ParallelEnv(worlds(StoryEnv), backend="serial") as plain:
        expected = story(plain)
    monkeypatch.setattr("shoal.vector.backends.board.nbytes_for", lambda num_places: 2**60 if num_places else 0)
    with on_shm(StoryEnv) as envs:
        assert not difference(story(envs), expected)
        assert len(messages) > 2 * 25


def close_descriptors(env: Any) -> None:
    """As a careless daemon would, all but the socket; then others get their numbers."""
    for number in range(3, 200):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith("/memfd:shoal-board"):
                os.dup2(0, number)
        except OSError:
            continue


@needs_board
def test_an_environment_that_takes_the_descriptor_costs_only_time() -> None:
    with ParallelEnv(worlds(StoryEnv), backend="serial") as plain:
        expected = story(plain)
    with on_shm(StoryEnv) as envs:
        envs.call(close_descriptors)
        assert not difference(story(envs), expected)


@needs_board
def test_a_value_that_only_the_worker_can_read_names_its_environment() -> None:
    class Unreadable:
        def __reduce__(self) -> Any:
            return os.strerror, ("not a number",)

    class SecretEnv(StoryEnv):
        def step(self, action: Any) -> Any:
            text, *others = super().step(action)
            return Unreadable() if action == 3 else text, *others

    with on_shm(SecretEnv, num_workers=NUM_ENVS) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(NUM_ENVS, np.int64))
        why = r"environment 1 \(worker 1\) in step\(\) returned what cannot leave its worker process: it has told something"
        with pytest.raises(shoal.EnvContractError, match=why):
            envs.step(np.array([0, 3, 0, 0, 0]))
        envs.reset(seed=0)
        envs.step(np.zeros(NUM_ENVS, np.int64))


def test_too_much_text_names_the_environment_and_says_what_to_do(
    process_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.vector.backends.worker.MAX_PICKLED", 100_000)

    class LongEnv(StoryEnv):
        def step(self, action: Any) -> Any:
            _, *others = super().step(action)
            return "x" * (200_000 if self.index == 3 and action else 200), *others

    with ParallelEnv(worlds(LongEnv), backend=process_backend, num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(NUM_ENVS, np.int64))
        with pytest.raises(EnvContractError) as caught:
            envs.step(np.ones(NUM_ENVS, np.int64))
        text = str(caught.value)
        assert "environment 3" in text
        assert "its observation cannot be sent to the caller's process" in text
        assert "it is 200,0" in text
        assert "a message may have 100,000, for all environments of a worker" in text
        assert 'What to do: return less in one step, use more workers (num_workers=), or backend="serial"' in text
        for other in (0, 1, 2, 4):
            assert f"environment {other}" not in text


@needs_board
def test_letters_lie_where_others_have_been_read() -> None:
    memory, written, read = memoryview(bytearray(ROOM)), 0, 0
    descriptor = os.memfd_create("letters")
    os.ftruncate(descriptor, ROOM)
    outbox, inbox = Outbox(memory, descriptor, 0), Inbox(memory)
    random = np.random.default_rng(0)
    sent: list[bytes] = []
    try:
        for _ in range(3000):
            letter = bytes([written % 251]) * int(random.integers(1, 2**21))
            if outbox.write(written, written % 7, letter, read):
                sent.append(letter)
                written += 1
            elif written == read:
                raise AssertionError("an empty mailbox takes every letter that fits")
            if random.random() < 0.5:
                for number, letter_read in enumerate(inbox.read(written - int(random.integers(0, 2)))):
                    assert (letter_read.sequence, letter_read.about) == (read + number, (read + number) % 7)
                    assert letter_read.data == sent[read + number]
                read = inbox.num_read
        assert read > 1000
    finally:
        os.close(descriptor)


# -- faults --------------------------------------------------------------------------------------------------------------


def dying(marker: Path, at: int, original: Callable[..., bool], harm: Callable[..., object]) -> Callable[..., bool]:
    """The same function, but the first process that calls it so often ends then."""
    calls = 0

    def call(self: Any, *arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == at and is_first(marker):
            harm(self, *arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *arguments)

    return call


def is_first(marker: Path) -> bool:
    """Whether nobody has asked before: two workers may at the same moment."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def leave_half(desk: Desk, sequence: int, about: int, letter: bytes) -> None:
    """Write as far as the middle of a letter, and not that it is there."""
    assert desk._outbox is not None
    desk._outbox.write(sequence, about, letter[: len(letter) // 2], desk.words[LETTERS_READ])


@needs_board
@pytest.mark.parametrize("face", ["ParallelEnv", "EnvList"])
@pytest.mark.parametrize("moment", ["in the middle of a letter", "after it"])
def test_a_worker_that_dies_while_it_writes_has_written_nothing_twice(
    face: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play: Any = story if face == "ParallelEnv" else tale
    make: Any = ParallelEnv if face == "ParallelEnv" else EnvList
    with make(worlds(OddEnv), backend="serial") as plain:
        expected = play(plain)
    harm: Any = leave_half if moment == "in the middle of a letter" else Desk.leave
    monkeypatch.setattr(Desk, "leave", dying(tmp_path / "dead", 8, Desk.leave, harm))
    with make(worlds(OddEnv), backend="shm", num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs), expected)
        assert envs.stats.restarts == 1
    assert (tmp_path / "dead").exists()


@pytest.mark.parametrize("face", ["ParallelEnv", "EnvList"])
def test_workers_that_are_killed_lose_no_word(process_backend: str, face: str) -> None:
    play: Any = story if face == "ParallelEnv" else tale
    make: Any = ParallelEnv if face == "ParallelEnv" else EnvList
    with make(worlds(OddEnv), backend="serial") as plain:
        expected = play(plain)
    plan = FaultPlan([Fault("kill", env=1, step=4), Fault("kill", env=4, step=9)])
    with make(plan.wrap(worlds(OddEnv)), backend=process_backend, num_workers=2, start_method="fork") as envs:
        assert not difference(play(envs), expected)
        assert envs.stats.restarts == 2
    plan.check_all_fired()


# -- what is kept --------------------------------------------------------------------------------------------------------


def test_the_journal_counts_the_texts_that_it_holds() -> None:
    import tracemalloc

    with EnvList(worlds(StoryEnv), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        rounds: History = envs._pool.backend.journal.rounds  # type: ignore[attr-defined]

        def play(steps: int) -> None:
            for number in range(steps):
                envs.step([f"{number} {row}" + "x" * 1000 for row in range(NUM_ENVS)])

        play(20)
        tracemalloc.start()
        try:
            counted, real = rounds.nbytes, tracemalloc.get_traced_memory()[0]
            play(400)
            counted, real = rounds.nbytes - counted, tracemalloc.get_traced_memory()[0] - real
        finally:
            tracemalloc.stop()
    assert real > 400 * NUM_ENVS * 1000
    assert 0.85 < counted / real < 1.2


def test_a_journal_of_long_texts_stays_within_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**20
    monkeypatch.setattr("shoal.vector.shortening.MUCH_MEMORY", limit)
    monkeypatch.setattr("shoal.vector.shortening.SOME_MEMORY", limit // 16)
    monkeypatch.setattr("shoal.vector.supervisor.MUCH", limit // 512)
    monkeypatch.setattr("shoal.vector.upkeep.SPARE_SECONDS", 0.0)
    with EnvList(worlds(StoryEnv, length=10**9), backend="shm", num_workers=2, start_method="fork") as envs:
        envs.reset(seed=0)
        journal = envs._pool.backend.journal  # type: ignore[attr-defined]
        most = number = 0
        while number < 50_000 and len(journal.bases) < 2:  # until it is known that states can be captured
            envs.step([f"{number}" + "x" * 500] * NUM_ENVS)
            number += 1
        assert len(journal.bases) == 2
        for number in range(2000):
            envs.step([f"{number} {row}" + "x" * 500 for row in range(NUM_ENVS)])
            if number > 1000:
                most = max(most, journal.nbytes)
        assert limit / 2 < most < 1.2 * limit


def test_sharing_out_actions_takes_each_of_them_once() -> None:
    from shoal.vector.loose import LooseColumn, shared_out

    class Counting(list[Any]):
        looked_at = 0

        def __iter__(self) -> Any:
            for value in list.__iter__(self):
                Counting.looked_at += 1
                yield value

    num_envs, num_workers = 400, 100
    shares = {worker: range(4 * worker, 4 * worker + 4) for worker in range(num_workers)}
    worker_of = [row // 4 for row in range(num_envs)]
    column = LooseColumn(range(num_envs), 0, Counting(f"go {row}" for row in range(num_envs)))
    found = shared_out([column], shares, worker_of)
    assert Counting.looked_at == num_envs
    assert [value for worker in range(num_workers) for value in found[worker][0].values] == [  # type: ignore[union-attr]
        f"go {row}" for row in range(num_envs)
    ]
