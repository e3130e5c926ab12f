"""One of many environments, spoken to as if it were at the other end of a pipe.

::

    remote.send(("reset", {"task": 7}))     returns at once
    remote.send(("step", action))           returns at once
    remote.poll()                           whether recv would return at once
    remote.recv()                           waits for the answer, which comes once for every send

======================== ====================================================================================
message                  answer
======================== ====================================================================================
("reset", {"task": t})   the first observation. t is a number, or None for a task that is drawn; ``"seed"`` may
                         be there, too. Nothing at all (``None``) draws a task
("step", action)         observation, reward, done, info; done means the end of the task
("get_task", None)       the current task, as an array
("reset_mdp", None)      the first observation of another episode with the same task
("get_spaces", None)     the observation space and the action space
("close", None)          none: the environment is not spoken to any more, and ends with the others
======================== ====================================================================================

``get_task`` and ``reset_mdp`` wait until nobody is under way; the others let all environments compute at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.meta.replies import info_of
from shoal.vector.errors import AlreadyPending, Closed, ConfigurationError, EnvError, NothingPending, WaitTimeout
from shoal.vector.first_ready import Batch
from shoal.vector.nearest import did_you_mean
from shoal.vector.parallel_env import ParallelEnv

COMMANDS = ("reset", "step", "get_task", "reset_mdp", "get_spaces", "close")


class Remote:
    """One environment of a :class:`ParallelEnvManager`."""

    def __init__(self, envs: ParallelEnv, index: int, still_open: set[int]) -> None:
        self._envs, self._index, self._still_open = envs, index, still_open
        still_open.add(index)
        self._command: str | None = None
        """What was sent and not answered yet."""
        self._answers: list[Any] = []
        """What :meth:`recv` is going to return, or raise, as soon as it is known."""

    @property
    def is_pending(self) -> bool:
        """Whether something was sent whose answer has not been received."""
        return self._command is not None

    def send(self, message: Any) -> None:
        """Ask for something: a command and what belongs to it. :meth:`recv` gives the answer."""
        command, payload = _parsed(message)
        self._check_open()
        if command == "close":
            self.close()
            return
        if self._command is not None:
            raise AlreadyPending(
                f"environment {self._index} was sent {command!r} before its answer to {self._command!r} was received. "
                "Call recv() first. Nothing was sent.",
                "send",
            )
        getattr(self, f"_send_{command}")(payload)
        self._command = command

    def _send_reset(self, payload: Any) -> None:
        task, seed = _of_reset(payload)
        self._envs.send_reset([self._index], seed=[seed], options=[{"task": task}])

    def _send_step(self, action: Any) -> None:
        self._envs.send([action], [self._index])

    def _send_get_task(self, _: Any) -> None:
        self._answers[:] = self._envs._ask_of([self._index], current_task)

    def _send_reset_mdp(self, _: Any) -> None:
        self._envs._session.flights.land()
        self._envs._begin_call([self._index], "reset_mdp", (), {})
        self._answers[:] = self._envs._called([self._index])

    def _send_get_spaces(self, _: Any) -> None:
        self._answers[:] = [(self._envs.single_observation_space, self._envs.single_action_space)]

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether :meth:`recv` would return, or raise, at once. Waits up to ``timeout`` seconds for that."""
        self._check_open()
        if self._command is None:
            return False
        if not self._answers:
            try:
                batch = self._envs.recv(timeout=timeout, env_ids=[self._index])
            except WaitTimeout:
                return False
            except EnvError as error:
                self._answers[:] = [error]
            else:
                self._answers[:] = [_answer(self._command, batch)]
        return True

    def recv(self) -> Any:
        """The answer to what was sent; waits for it. Raises what the environment has raised."""
        self._check_open()
        if self._command is None:
            raise NothingPending(
                f"nothing was sent to environment {self._index}, so there is nothing to receive. Call send() first: "
                "every send has one recv.",
                "recv",
            )
        self.poll(None)
        (answer,) = self._answers
        self._command = None
        self._answers.clear()
        if isinstance(answer, EnvError):
            raise answer
        return answer

    def close(self) -> None:
        """Do not speak to this environment any more. All end with the last one of them."""
        self._still_open.discard(self._index)
        if not self._still_open and not self._envs.closed:
            self._envs.__exit__()  # which, unlike close(), does not warn of what nobody has received

    def _check_open(self) -> None:
        if self._envs.closed or self._index not in self._still_open:
            raise Closed(f"environment {self._index} is closed")

    def __repr__(self) -> str:
        return f"<Remote of environment {self._index}>"


def current_task(env: Any) -> Any:
    """The task of an environment with whatever is wrapped around it."""
    return np.array(env.get_wrapper_attr("get_current_task")())


def _parsed(message: Any) -> tuple[str, Any]:
    if isinstance(message, str):
        message = (message, None)
    if not isinstance(message, tuple | list) or len(message) != 2 or not isinstance(message[0], str):
        raise ConfigurationError(
            f"a message is a command and what belongs to it, such as ('reset', {{'task': 7}}), got {message!r}"
        )
    command, payload = message
    if command not in COMMANDS:
        hint = did_you_mean(command, COMMANDS) or ""
        raise ConfigurationError(f"there is no command {command!r}, only {', '.join(map(repr, COMMANDS))}.{hint}")
    return command, payload


def _of_reset(payload: Any) -> tuple[Any, Any]:
    """The task and the seed."""
    given = {} if payload is None else payload
    if not isinstance(given, Mapping) or not given.keys() <= {"task", "seed"}:
        raise ConfigurationError(
            f"a reset is told a dictionary with 'task', 'seed', both or none of them, got {payload!r}"
        )
    return given.get("task"), given.get("seed")


def _answer(command: str, batch: Batch) -> Any:
    observation = batch.observation[0]
    if command == "reset":
        return observation
    done = bool(batch.terminated[0]) or bool(batch.truncated[0])
    return observation, float(batch.reward[0]), done, info_of(batch.info, 0)
