"""An exception on its way from an environment to the caller.

It crosses processes as a :class:`Failure`: names and texts, which always arrive, and the exception itself where pickling it
was tried and worked. On the caller's side it becomes an :class:`~shoal.vector.errors.EnvError` that is also an instance of
the class that was raised.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from dataclasses import dataclass
from typing import Any

import cloudpickle

from shoal.vector.errors import EnvContractError, EnvError
from shoal.vector.observations import ContractViolation, shortened

MAX_MESSAGE = 10_000
MAX_TRACEBACK = 50_000
CANNOT_IMPORT = ("ModuleNotFoundError", "ImportError")


class RemoteTraceback(Exception):
    """Carries an environment's traceback as text; shown as the cause of an :class:`EnvError`."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Failure:
    """What an environment raised, and what it was doing."""

    env_index: int
    phase: str
    seed: int | None
    episode: int
    step: int
    action: str | None
    type_name: str
    message: str
    traceback: str
    pickled: bytes | None
    is_contract: bool
    said: str
    """What the environment has done, for the message."""

    @classmethod
    def of(
        cls,
        error: BaseException,
        *,
        env_index: int,
        phase: str,
        seed: int | None = None,
        episode: int = 0,
        step: int = 0,
        action: Any = None,
    ) -> Failure:
        """Take down ``error`` where it was caught."""
        kind = type(error)
        is_contract = isinstance(error, ContractViolation)
        type_name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return cls(
            env_index=env_index,
            phase=phase,
            seed=seed,
            episode=episode,
            step=step,
            action=shortened(action) if phase == "step" and not (is_contract and action is None) else None,
            type_name=type_name,
            message=_capped(_text_of(error), MAX_MESSAGE),
            traceback="" if is_contract else _capped("".join(_lines_of(error)), MAX_TRACEBACK),
            pickled=None if is_contract else _pickled(error),
            is_contract=is_contract,
            said=error.said if isinstance(error, ContractViolation) else f"raised {type_name}",
        )


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:
        return f"<its message cannot be shown: {type(second).__name__}>"


def _lines_of(error: BaseException) -> list[str]:
    try:
        return traceback.format_exception(error)
    except Exception:
        return traceback.format_tb(error.__traceback__)


def _capped(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n... ({len(text) - limit} characters left out) ...\n{text[-limit // 2 :]}"


def _pickled(error: BaseException) -> bytes | None:
    """The exception itself, if it survives the journey; that is tried here, where a failure harms nobody."""
    try:
        data: bytes = cloudpickle.dumps(error)
        if len(data) > MAX_TRACEBACK or type(pickle.loads(data)) is not type(error):
            return None
    except Exception:
        return None
    return data


def raise_failures(failures: list[Failure], where: str) -> None:
    """Raise the first environment's failure, with the others attached."""
    ordered = sorted(failures, key=lambda failure: failure.env_index)
    first, *others = [as_error(failure, where) for failure in ordered]
    first.others = tuple(others)
    if others:
        indices = ", ".join(str(other.env_index) for other in others[:20])
        more = f"{len(others)} more environments" if len(others) > 1 else "One more environment"
        first.message += f"\n  {more} failed in the same call: {indices} (see the exception's .others)."
    raise first


def as_error(failure: Failure, where: str) -> EnvError:
    """The exception that the caller gets."""
    original = None
    if failure.pickled is not None:
        try:
            original = pickle.loads(failure.pickled)
        except Exception:
            original = None
    error = _combined(original, EnvContractError if failure.is_contract else EnvError)
    error.message = _describe(failure, where)
    error.args = original.args if original is not None else (failure.message,)
    error.env_index, error.phase, error.seed = failure.env_index, failure.phase, failure.seed
    error.episode, error.step, error.action = failure.episode, failure.step, failure.action
    error.type_name, error.remote_traceback = failure.type_name, failure.traceback
    error.original, error.others = original, ()
    error.__dict__["origin"] = (failure, where)
    if failure.traceback:
        error.__cause__ = RemoteTraceback(failure.traceback)
    return error


def _combined(original: BaseException | None, base: type[EnvError]) -> EnvError:
    """An ``EnvError`` that is also an instance of the original's class, without running that class's ``__init__``."""
    if not isinstance(original, Exception) or isinstance(original, EnvError):
        return base()
    kind = type(original)
    try:
        combined = type(kind.__name__, (base, kind), {"__module__": kind.__module__, "__str__": EnvError.__str__})
        error = combined.__new__(combined, *original.args)
        error.__dict__.update(original.__dict__)
    except Exception:  # a class that cannot be inherited from, or whose __new__ wants more
        return base()
    assert isinstance(error, EnvError)
    return error


def _describe(failure: Failure, where: str) -> str:
    doing = {
        "construct": "while it was being made",
        "reset": "in reset()",
        "step": "in step()",
        "set_attr": "while an attribute was being set",
        "call": "in a call",
    }[failure.phase]
    text = f"environment {failure.env_index}{where} {doing} {failure.said}: {failure.message}"
    details = []
    if failure.seed is not None:
        details.append(f"seed {failure.seed}")
    if failure.phase == "step":
        details += [f"episode {failure.episode}", f"step {failure.step}"]
        details += [f"action {failure.action}"] if failure.action is not None else []
    elif failure.phase == "reset":
        details.append(f"episode {failure.episode}")
    if details:
        text += f"\n  Where: {', '.join(details)}."
    if failure.phase == "construct" and failure.type_name in CANNOT_IMPORT and "pip install" not in failure.message:
        text += (
            f"\n  What to do: install what is missing for {sys.executable}. A module of yours must be one that any process "
            "finds: in an installed package, in the folder of the script, or in a folder of PYTHONPATH."
        )
    if failure.phase in ("reset", "step"):
        text += (
            "\n  The other environments are fine. Reset this one (reset(), or reset with a reset_mask) to go on, "
            'or reproduce it alone with backend="serial".'
        )
    return text
