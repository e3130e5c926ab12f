"""``envs.profile()``: puts recorders in place, and takes them away again."""

from __future__ import annotations

import math
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shoal.vector.cpus import usable_cpus
from shoal.vector.errors import StateError
from shoal.vector.profile.in_worker import begin_recording, end_recording
from shoal.vector.profile.recorder import Kind, Recorder, Track, joined, remove_probes
from shoal.vector.profile.result import Profile, profile_of
from shoal.vector.supervisor import Supervisor

if TYPE_CHECKING:
    from shoal.vector.face import Face

ENTRIES = ("reset", "step", "reset_async", "reset_wait", "step_async", "step_wait", "send", "send_reset", "recv",
           "_recv_exactly", "_send_together", "_order_half", "_finish_half", "call_async", "call_wait", "call_on",
           "get_attr", "set_attr", "render")  # fmt: skip
"""What the caller calls."""
PROBED = (
    ("post", Kind.SIGNALLING),
    ("poll", Kind.WAITING),
    ("order_step", Kind.SIGNALLING),
    ("finish_step", Kind.WAITING),
    ("order_half", Kind.SIGNALLING),
    ("finish_half", Kind.WAITING),
)
"""What a backend with worker processes does meanwhile."""
WINDOW = 64
"""So many calls are recorded before it is asked what that costs."""
SPAN_SECONDS = 25e-6
"""What a span of the caller costs with all that goes with it: noting it with cold caches, that steps do not go the short way
meanwhile, and what workers take down. (Environments that only compute took 3 % longer while each was timed.)"""
COST_SHARE = 0.01
"""Of the time, that may be spent on recording."""


class Profiler:
    """Records while it is open. Afterwards it can say where the time went.

    While ``backend="auto"`` is still undecided, nothing is recorded.
    """

    def __init__(self, envs: Face) -> None:
        self._envs = envs
        self._recorder = Recorder()
        self._recorder.is_on = False  # until everything is in place
        self._tracks: dict[int, Track] = {}
        """What workers have recorded, by their first environment."""
        self.is_attached = False
        """Whether it records now, so that environments must stay where they are."""
        self._calls = self._depth = self._steps = 0
        self._rest = 0
        """So many calls are not recorded."""
        self._window_began = self._spans_before = 0
        self._is_incomplete = False
        self._profile: Profile | None = None

    def __enter__(self) -> Profiler:
        if self._envs._profiler is not None:
            raise StateError("these environments are being profiled already: close that profile first")
        self._envs._profiler = self
        for name in ENTRIES:
            if hasattr(self._envs, name):
                self._guard(name)
        self._guard_coroutine("arecv")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in (*ENTRIES, "arecv"):
            vars(self._envs).pop(name, None)
        self._envs._profiler = None
        if self.is_attached:
            self._close_window()
            self._detach(is_quiet=error is not None)
        if error is None:
            if self._is_incomplete:
                self._recorder = Recorder()  # without what workers did, it would mislead
            self._profile = profile_of(
                self._recorder.track(),
                [track for _, track in sorted(self._tracks.items())],
                self._envs.plan,
                self._envs.num_envs,
                usable_cpus(),
                self._steps,
            )

    @property
    def result(self) -> Profile:
        """What was found."""
        if self._profile is None:
            raise StateError("the result of a profile is known when its block has ended")
        return self._profile

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __str__(self) -> str:
        return str(self.result)

    # -- the caller's calls ----------------------------------------------------------------------------------------------

    def _guard(self, name: str) -> None:
        """Record what this method of the environments takes, from the outside."""
        method, clock = getattr(self._envs, name), time.perf_counter_ns

        def guarded(*args: Any, **keywords: Any) -> Any:
            if self._rest:
                self._rest -= 1
                return method(*args, **keywords)
            if self._depth:
                return method(*args, **keywords)
            self._depth = 1
            try:
                self._before_call()
                begin = clock()
                results = method(*args, **keywords)
                if self._recorder.is_on:
                    self._recorder.note(Kind.BUSY, begin, clock())
                    self._steps += _num_steps(name, results)
                return results
            finally:
                self._calls += 1
                self._depth = 0

        setattr(self._envs, name, guarded)

    def _guard_coroutine(self, name: str) -> None:
        """The same of a coroutine. While it waits others run, so nothing inside it counts as called from there."""
        method = getattr(self._envs, name)

        async def guarded(*args: Any, **keywords: Any) -> Any:
            self._before_call()
            begin = time.perf_counter_ns()
            results = await method(*args, **keywords)
            if self._recorder.is_on:
                self._recorder.note(Kind.WAITING, begin, time.perf_counter_ns())
                self._steps += _num_steps("recv", results)
            self._calls += 1
            return results

        setattr(self._envs, name, guarded)

    def _before_call(self) -> None:
        if self._envs._is_undecided or self._envs._session.pending is not None:
            return
        if not self.is_attached:
            self._attach()
        elif self._calls >= WINDOW:
            self._rest_if_costly()

    def _close_window(self) -> None:
        if self._window_began:  # also if the recorder has stopped by itself, because it is full
            self._recorder.note(Kind.WINDOW, self._window_began, time.perf_counter_ns())
        self._window_began, self._recorder.is_on = 0, False

    def _rest_if_costly(self) -> None:
        """Record so seldom that it costs next to nothing, and take everything away in between."""
        seconds = (time.perf_counter_ns() - self._window_began) / 1e9
        share = (self._recorder.num_spans - self._spans_before) * SPAN_SECONDS / max(seconds, 1e-9)
        if share < COST_SHARE and not self._recorder.is_full:
            return
        self._rest = sys.maxsize if self._recorder.is_full else math.ceil(self._calls * share / (COST_SHARE / 2))
        self._close_window()
        self._detach(is_quiet=False)

    # -- recorders -------------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        envs, recorder = self._envs, self._recorder
        self.is_attached = True  # also if not all of it succeeds
        backend: Any = envs._pool.backend
        if isinstance(backend, Supervisor):
            for name, _ in PROBED:
                recorder.probe(backend, name, Kind.MANAGEMENT)
            backend = backend.backend
        if hasattr(envs, "_merge_infos"):
            recorder.probe(envs, "_merge_infos", Kind.INFOS)
        if not envs._pool.backend.in_process:
            for name, kind in PROBED:
                recorder.probe(backend, name, kind)
            # Beside results, which have a place of their own in shared memory, messages hold infos and what calls return.
            reading = Kind.INFOS if backend.name == "shm" else Kind.COPYING
            processes = getattr(backend, "_processes", backend)
            recorder.probe(processes, "_read", reading)
            recorder.probe(processes._told, "_open_letters", Kind.INFOS)
        elif backend.name == "threads":
            recorder.probe(backend, "poll", Kind.WAITING)
        for runner in self._own_runners():
            runner.slice.clock = recorder if backend.name != "threads" else self._of_thread(runner)
        self._call_workers(begin_recording)
        self._calls, self._spans_before = 0, recorder.num_spans
        self._window_began, recorder.is_on = time.perf_counter_ns(), True

    def _own_runners(self) -> list[Any]:
        return list(getattr(self._envs._pool.unwatched, "runners", []))

    def _of_thread(self, runner: Any) -> Recorder:
        recorder = Recorder()
        recorder.probe(runner, "execute", Kind.BUSY)
        return recorder

    def _detach(self, *, is_quiet: bool) -> None:
        """Let everything be as it was; ``is_quiet`` if there is an exception already that matters more."""
        envs = self._envs
        self.is_attached = False
        backend = envs._pool.unwatched
        for owner in (envs._pool.backend, backend, envs):
            remove_probes(owner)
        if hasattr(backend, "_processes"):
            remove_probes(backend._processes)
        for runner in self._own_runners():
            clock, runner.slice.clock = runner.slice.clock, None
            remove_probes(runner)
            if clock is not self._recorder and isinstance(clock, Recorder):
                self._keep(runner.rows.start, clock.track())
        if envs.closed:
            self._is_incomplete = not envs._pool.backend.in_process
            return
        try:
            envs._check_not_pending("the end of the profile")
            firsts = [rows.start for rows in envs._pool.rows]
            for first, track in zip(firsts, self._call_workers(end_recording), strict=False):
                if track is not None:
                    self._keep(first, track)
        except Exception:
            if not is_quiet:
                raise

    def _keep(self, first_row: int, track: Track) -> None:
        """What the worker with this first environment has recorded in a window."""
        so_far = self._tracks.get(first_row)
        self._tracks[first_row] = track if so_far is None else joined(so_far, track)

    def _call_workers(self, function: Any) -> tuple[Any, ...]:
        """Ask the worker processes, each through its first environment."""
        envs = self._envs
        if envs._pool.backend.in_process:
            return ()
        return envs._ask_of([rows.start for rows in envs._pool.rows], function)


def _num_steps(name: str, results: Any) -> int:
    """How many environments' steps a call has brought."""
    if name in ("step", "step_wait", "_finish_half"):
        return 0 if results is None else len(results[1])
    return len(results.env_ids) if name in ("recv", "_recv_exactly") else 0
