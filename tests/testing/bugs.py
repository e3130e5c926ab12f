"""Small environments with exactly one bug each. Module-level, so that every process can name them."""

from __future__ import annotations

import enum
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

Env = gymnasium.Env[Any, Any]
Start = tuple[Any, dict[str, Any]]
Step = tuple[Any, Any, Any, Any, Any]


class Walk(Env):
    """A random walk without a bug: its place, and in the info how it got there."""

    length = 9

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-100, 100, (2,), np.float64)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.count, self.place = 0, float(self.np_random.normal())
        return self.observe(), self.tell()

    def step(self, action: Any) -> Step:
        self.count += 1
        self.place += float(action) - 1 + self.draw()
        return self.observe(), self.place / 10, self.count >= self.length, False, self.tell()

    def draw(self) -> float:
        return float(self.np_random.normal(scale=0.1))

    def observe(self) -> Any:
        return np.array([self.place, self.count])

    def tell(self) -> dict[str, Any]:
        return {"place": self.place}


class Clocked(Walk):
    """Moves with the wind, which is a clock."""

    def draw(self) -> float:
        return time.perf_counter() % 1.0


class Entropic(Walk):
    """Has a generator of its own, and forgets to seed it."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng()

    def draw(self) -> float:
        return float(self.generator.normal())


class SeedIgnored(Walk):
    """Does not tell Gymnasium the seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        return super().reset()


class TimedInfo(Walk):
    """Says in its info how long it took."""

    def tell(self) -> dict[str, Any]:
        return {"seconds": time.perf_counter()}


class PythonRandom(Walk):
    """Draws from ``random``."""

    def draw(self) -> float:
        return random.gauss(0, 1)


class NumpyRandom(Walk):
    """Seeds ``numpy.random`` in its reset and draws from it: the same alone, another in company."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)

    def draw(self) -> float:
        return float(np.random.normal())


class TouchesRandom(Walk):
    """Draws from ``random`` for nothing."""

    def draw(self) -> float:
        random.random()
        return super().draw()


class HashOrdered(Walk):
    """Goes through a set of texts."""

    def tell(self) -> dict[str, Any]:
        return {"first": next(iter({"north", "east", "south", "west", "up", "down"}))}


class SharedWind(Walk):
    """All environments of a process have the same wind, in a class attribute."""

    wind: ClassVar[list[float]] = [0.0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self.wind[0] = 0.0
        return super().reset(seed=seed)

    def draw(self) -> float:
        self.wind[0] += 0.1
        return self.wind[0]


class Numbered(Walk):
    """Every environment of a process has another number."""

    made: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(1)
        self.number = len(self.made)

    def tell(self) -> dict[str, Any]:
        return {"number": self.number}


class ReusesObservation(Walk):
    """Returns the same array every time."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = np.zeros(2)

    def observe(self) -> Any:
        self.buffer[:] = self.place, self.count
        return self.buffer


class ReusesInfo(Walk):
    """Returns the same dictionary every time."""

    def __init__(self) -> None:
        super().__init__()
        self.info: dict[str, Any] = {}

    def tell(self) -> dict[str, Any]:
        self.info["place"] = self.place
        return self.info


class Remembers(Walk):
    """Begins where the last episode ended, even if it is given a seed."""

    home = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        observation, info = super().reset(seed=seed)
        self.home += 1.0
        return observation + np.array([self.home, 0]), info


class OutOfBounds(Walk):
    """Leaves its space."""

    def observe(self) -> Any:
        return np.array([self.place, self.count * 30.0])


class WrongShape(Walk):
    """Observes more than it said."""

    def observe(self) -> Any:
        return np.zeros(3)


class WrongType(Walk):
    """Observes in more precision than it said."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-100, 100, (2,), np.float32)


class WrongPart(Walk):
    """One part of its observation is wrong."""

    def __init__(self) -> None:
        super().__init__()
        parts = {"eyes": spaces.Box(0, 1, (2,), np.float64), "mood": spaces.Tuple([spaces.Discrete(3)])}
        self.observation_space = spaces.Dict(parts)

    def observe(self) -> Any:
        return {"eyes": np.zeros(2), "mood": (self.count,)}


class Returns(Walk):
    """Returns from ``step`` what it was told to."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        self.parts = parts

    def step(self, action: Any) -> Step:
        observation, reward, terminated, truncated, info = super().step(action)
        names = {
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "info": info,
        }
        observation, reward, terminated, truncated, info = {**names, **self.parts}.values()
        return observation, reward, terminated, truncated, info


def reward_of_text() -> Env:
    return Returns(reward="much")


def reward_of_nan() -> Env:
    return Returns(reward=float("nan"))


def flag_of_number() -> Env:
    return Returns(truncated=0)


def info_of_list() -> Env:
    return Returns(info=["nothing"])


class OldStep(Walk):
    """Returns four values, as before Gymnasium."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class LockedInfo(Walk):
    """Has something in its info that cannot be pickled."""

    def tell(self) -> dict[str, Any]:
        return {"nested": {"lock": threading.Lock()}}


class Score:
    """Forgets its points when it is pickled."""

    def __init__(self, points: int = 0) -> None:
        self.points = points

    def __reduce__(self) -> Any:
        return Score, ()


class ForgetfulInfo(Walk):
    """Has such a score in its info."""

    def tell(self) -> dict[str, Any]:
        return {"score": Score(self.count + 1)}


class Raises(Walk):
    """Does not like the third step."""

    def step(self, action: Any) -> Step:
        if self.count == 2:
            raise KeyError("no such door")
        return super().step(action)


class RaisesAtOnce(Walk):
    """Cannot be made."""

    def __init__(self) -> None:
        raise FileNotFoundError("no such world")


class Dies(Walk):
    """Ends its process in the third step."""

    def step(self, action: Any) -> Step:
        if self.count == 2:
            os._exit(7)
        return super().step(action)


class Hangs(Walk):
    """Does not return from the third step."""

    def step(self, action: Any) -> Step:
        while self.count == 2:
            time.sleep(0.01)
        return super().step(action)


class Slow(Walk):
    """Takes its time."""

    def step(self, action: Any) -> Step:
        time.sleep(0.21)
        return super().step(action)


class HangsOutsideTheMainThread(Walk):
    """Does not return where it is not in the main thread."""

    def step(self, action: Any) -> Step:
        while threading.current_thread() is not threading.main_thread():
            time.sleep(0.01)
        return super().step(action)


class HangsInWorkers(Walk):
    """Writes down where it is and does not return, where it is in a worker of a process that checks it."""

    def __init__(self, path: str, where: str) -> None:
        super().__init__()
        self.path, self.where = path, where
        self._maybe("make")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        self._maybe("reset")
        return super().reset(seed=seed)

    def step(self, action: Any) -> Step:
        self._maybe("step")
        return super().step(action)

    def _maybe(self, where: str) -> None:
        parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
        if where == self.where and (b"fresh.begin" in parent or b"nursery" in parent):
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()}\n")
            while True:
                time.sleep(0.01)


class RaisesOutsideTheMainThread(Walk):
    """Insists on the main thread, as signals do."""

    def step(self, action: Any) -> Step:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("only in the main thread")
        return super().step(action)


class HatesActionTwo(Walk):
    """Knows better than its action space."""

    def step(self, action: Any) -> Step:
        if action == 2:
            raise ValueError("not that")
        return super().step(action)


class Invisible(Mapping[str, int]):
    """Does not let itself be looked at."""

    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("cannot be looked at")

    def __len__(self) -> int:
        return 0


class InvisibleInfo(Walk):
    """Has such a thing for an info."""

    def tell(self) -> Any:
        return Invisible()


class Talks(Walk):
    """Observes texts, and takes several kinds of action at once."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict({"text": spaces.Text(20), "place": spaces.Box(-99, 99, (1,), np.float64)})
        self.action_space = spaces.Dict({"word": spaces.Text(3), "push": spaces.Box(-1, 1, (2,))})

    def step(self, action: Any) -> Step:
        return super().step(action["push"].sum() + len(action["word"]))

    def observe(self) -> Any:
        return {"text": f"at{self.count}", "place": np.array([self.place % 50])}


class Huge(Walk):
    """Observes eight megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 1, (2**20,), np.float64)

    def observe(self) -> Any:
        return np.zeros(2**20)


class KnowsItsThread(Walk):
    """Is another in another thread."""

    def tell(self) -> dict[str, Any]:
        return {"main": threading.current_thread() is threading.main_thread()}


class Mood(enum.Enum):
    GOOD = 1
    BAD = 2


class Diary:
    """An object that equals only itself, and looks different in every process."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._secret = object()


class OddInfo(Walk):
    """Without a bug, but with everything in its info that is hard to compare."""

    def tell(self) -> dict[str, Any]:
        return (
            {
                "mood": Mood.GOOD if self.count % 2 else Mood.BAD,
                "diary": Diary(f"step {self.count}"),
                "nothing": float("nan"),
                "visited": {self.count, 100},
                "place": (self.place, [np.float32(self.place)]),
                "function": len,
                "only sometimes": 1,
            }
            if self.count != 3
            else {}
        )


def unpicklable() -> Any:
    """A factory that holds a lock."""
    lock = threading.Lock()

    def make() -> Env:
        with lock:
            return Walk()

    return make


class UnreadableFactory:
    """Can be pickled, and not be read."""

    def __call__(self) -> Env:
        return Walk()

    def __reduce__(self) -> Any:
        return _raise, ()


def _raise() -> None:
    raise ImportError("no module named 'world'")
