"""Rules written as plain Python, compiled by Numba.

Rules are functions of one row. :func:`rule` marks them, :func:`loop_over_rows` makes of them one function that runs all rows
in a call, without the interpreter and without its lock. The compiled code is kept next to the source, or in Numba's cache
folder where that cannot be written, and is loaded from there by the next process.

``SHOAL_COMPILE=0`` leaves everything as plain Python: slow, but every line can be stepped through and counted.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE_SECONDS = 0.7  # loading compiled code takes less, compiling it takes more
LONG_PATIENCE_SECONDS = 3.0  # where compiled code is there: loading it, on a busy machine


def is_compiling() -> bool:
    """Whether rules are compiled, or run as plain Python."""
    return os.environ.get("SHOAL_COMPILE", "1") != "0"


def rule(function: Function) -> Function:
    """Let compiled rules call this function; on its own it stays plain Python."""
    if is_compiling():
        try:
            _numba().extending.register_jitable(function)
        except ModuleNotFoundError:
            pass  # who runs rules is told; who only wants to read about a world needs no compiler
    return function


def loop_over_rows(make_loop: Callable[..., Function], *rules: Callable[..., Any], name: str) -> Function:
    """The loop that ``make_loop`` makes of these rules, compiled when it is first called.

    ``make_loop`` is also given a digest of the rules' sources, which makes the loop another one when they are changed.
    """
    if not is_compiling():
        return make_loop(*rules, 0)
    numba = _numba()
    loop = make_loop(*(rule(each) for each in rules), _digest(rules))
    loop.__qualname__ = f"{name}.{loop.__name__}"  # by which compiled code is filed
    return cast("Function", CompiledLoop(numba.njit(cache=True, nogil=True)(loop), name))


def kernel(function: Function, what: str, *, is_exact: bool = False) -> Function:
    """Compile a function of arrays and numbers when it is first called.

    Args:
        what: is told to whoever waits for it: "compiling {what}, once for this installation".
        is_exact: every operation is rounded as it is written. Otherwise rounding may even depend on where arrays lie in memory,
            because that decides whether a loop takes several numbers at once.
    """
    return cast("Function", Kernel(function, what, is_exact)) if is_compiling() else function


class Kernel:
    """A function that is compiled when it is first called with arguments of some types."""

    def __init__(self, function: Callable[..., Any], what: str, is_exact: bool) -> None:
        functools.update_wrapper(self, function)
        self._function, self._what, self._is_exact = function, what, is_exact
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        if self._dispatcher is None:
            compiler = _numba().njit(cache=True, nogil=True, fastmath=not self._is_exact, error_model="numpy")
            self._dispatcher = compiler(self._function)
            with _announced(self._what, self._dispatcher):
                return self._dispatcher(*arguments)
        return self._dispatcher(*arguments)


def for_types_of(loop: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """The loop for arguments of these types, which is quicker to call where it is compiled."""
    return loop.for_types_of(*arguments) if isinstance(loop, CompiledLoop) else loop


class CompiledLoop:
    """A loop that is compiled when it is first called with arguments of some types."""

    def __init__(self, dispatcher: Any, name: str) -> None:
        self._dispatcher = dispatcher
        self._name = name

    def __call__(self, *arguments: Any) -> Any:
        """Run it."""
        return self.for_types_of(*arguments)(*arguments)

    def for_types_of(self, *arguments: Any) -> Callable[..., Any]:
        """The loop for arguments of these types, without the microseconds that it takes to find them out each time."""
        types = tuple(map(_numba().typeof, arguments))
        if types not in self._dispatcher.overloads:
            with _announced(f"the rules of {self._name}", self._dispatcher):
                self._dispatcher.compile(types)
        entry_point: Callable[..., Any] = self._dispatcher.overloads[types].entry_point
        return entry_point


@contextmanager
def _announced(what: str, dispatcher: Any) -> Iterator[None]:
    """Say what is being compiled, if that takes longer than loading it would."""
    timer = threading.Timer(LONG_PATIENCE_SECONDS if _is_filed(dispatcher) else PATIENCE_SECONDS, _announce, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_filed(dispatcher: Any) -> bool:
    """Whether there is compiled code of this function; it may be for other types, or out of date."""
    folder, name = Path(dispatcher.stats.cache_path), dispatcher.py_func.__name__
    return any(folder.glob(f"*{name}*.nbi"))


@functools.cache
def _announce(what: str) -> None:
    """Say why it takes so long, once."""
    logger.warning("compiling %s, once for this installation", what)


def _digest(rules: tuple[Callable[..., Any], ...]) -> int:
    """A number that changes when a file changes in which there is a rule, or what a rule calls, or a constant that it uses."""
    functions = _with_called(rules)
    files = sorted({Path(inspect.getsourcefile(each) or "") for each in functions})
    text = b"".join(file.read_bytes() if file.is_file() else b"" for file in files)
    text += repr(sorted(set().union(*map(_constants_of, functions)))).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little")


def _constants_of(function: Any) -> set[str]:
    """Numbers and arrays from elsewhere, which compiled code has built in."""
    named = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    return {
        f"{name}={value.tobytes() if hasattr(value, 'tobytes') else value!r}"
        for name, value in named.items()
        if isinstance(value, int | float | tuple) or hasattr(value, "tobytes")
    }


def _with_called(rules: Iterable[Callable[..., Any]]) -> set[Any]:
    """These functions, and all that they call, as far as that can be seen from their names."""
    found: set[Any] = set()
    todo: list[Any] = list(rules)
    while todo:
        function = todo.pop()
        if inspect.isfunction(function) and function not in found:
            found.add(function)
            todo.extend(function.__globals__.get(name) for name in function.__code__.co_names)
    return found


def _numba() -> Any:
    try:
        import numba
        import numba.extending
    except ImportError:
        raise ModuleNotFoundError(
            "the worlds of Shoal and its PPO are compiled by Numba, which is not installed: pip install 'shoal[native]'. "
            "With SHOAL_COMPILE=0 in the environment they run without it, but slowly.",
            name="numba",
        ) from None
    return numba
