"""``ParallelEnv``: many environments as one, a Gymnasium vector environment.

::

    policy ──actions──▶ ParallelEnv ──checked, into the arena──▶ Pool ──▶ Backend ──▶ Runner, Runner, ...
    policy ◀──arrays─── ParallelEnv ◀──────copied out of it───── Pool ◀── Backend ◀──────┘

What it may be asked for, in which state::

                   reset()                 step_async()
    made ─────────────────────▶ ready ◀─────────────────▶ pending
      └─ reset_async() ─▶ pending ─ reset_wait() ─▶ ready        any ─ close() ─▶ closed
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from shoal.vector.actions import ActionWriter
from shoal.vector.batching import (
    ObservationMode,
    batch_spaces,
    check_observation_mode,
    common_action_space,
)
from shoal.vector.errors import (
    AlreadyPending,
    Closed,
    ConfigurationError,
    NothingPending,
    ResetNeeded,
    WaitTimeout,
)
from shoal.vector.failures import raise_failures
from shoal.vector.infos import batch_infos
from shoal.vector.layout import Array, Layout
from shoal.vector.messages import Assignment, Attachment, Call, EnvFn, Op, Outcome, Steps, Task
from shoal.vector.observations import EarlyCopy, ObservationReader
from shoal.vector.plan import make_plan, needs_processes
from shoal.vector.pool import OnReply, Pool
from shoal.vector.tasks import reset_mask_of, seeds_of

CLOSE_SECONDS = 5.0
LARGE = 2**18  # observations of so many bytes are copied worker by worker, as these finish

Step = tuple[Any, Array, Array, Array, dict[str, Any]]


class ParallelEnv(VectorEnv[Any, Any, Array]):
    """Runs one environment per factory, on the backend of your choice, with the same results on every backend.

    Args:
        env_fns: one factory per environment, each a callable without arguments.
        backend: ``"serial"`` (a loop in this process), ``"threads"``, ``"pipes"`` or ``"shm"`` (worker processes that
            exchange messages, or share memory), or ``"auto"``.
        num_workers: how many threads or processes; by default, as many as there are processors to use.
        start_method: how processes are started: ``"forkserver"`` (the default on Linux), ``"spawn"`` or ``"fork"``.
        autoreset_mode: what happens when an episode ends, as in Gymnasium.
        observation_mode: ``"same"``, ``"different"``, or a tuple of batched and single space, as in Gymnasium.
        copy: whether results belong to the caller. With ``False``, observations are views that the next step
            overwrites.
        step_timeout: seconds that a step of all environments may take. A worker that overruns it is ended. Needs worker
            processes: in-process backends cannot end an environment, and say so.
        pin_workers: give each worker process a processor of its own, where there are exactly as many of both. Turn it
            off for environments that use several threads or processes themselves.
        shared_memory: for code written for Gymnasium's AsyncVectorEnv: ``True`` means ``backend="shm"`` and ``False``
            means ``backend="pipes"``.
        context: for such code too, another name for ``start_method``.
        daemon: for such code too; has no effect. Workers never outlive this process, and may have children.
        max_concurrency: for such code too: at most so many workers.
        worker: for such code too; only ``None`` is accepted, because the runner is the same everywhere.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        *,
        backend: str = "auto",
        num_workers: int | None = None,
        start_method: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        observation_mode: ObservationMode = "same",
        copy: bool = True,
        step_timeout: float | None = None,
        pin_workers: bool = True,
        shared_memory: bool | None = None,
        context: str | None = None,
        daemon: bool | None = None,
        max_concurrency: int | None = None,
        worker: None = None,
    ) -> None:
        self.closed = True  # until there is something to close
        self.env_fns = list(env_fns)
        _check_factories(self.env_fns)
        check_observation_mode(observation_mode)
        if worker is not None:
            raise ConfigurationError(
                "a custom worker function is not supported: what steps environments is the same on every backend. "
                "Put what it should do differently into a wrapper of the environment."
            )
        if shared_memory is not None:
            backend = "shm" if shared_memory else "pipes"
        if max_concurrency is not None:
            _check_max_concurrency(max_concurrency)
            num_workers = min(num_workers or max_concurrency, max_concurrency)
        self.num_envs = len(self.env_fns)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.plan = make_plan(self.num_envs, backend, num_workers, start_method or context)
        self.copy = copy
        self.step_timeout = _checked_timeout(step_timeout, self.plan.backend)
        self._pending: str | None = None
        self._wait_timed_out = False
        self._pool = Pool(
            self.env_fns,
            backend=self.plan.backend,
            num_workers=self.plan.num_workers,
            start_method=self.plan.start_method,
            pin_workers=pin_workers,
        )
        # Closes when this object is collected or the program ends, whichever comes first.
        self._finalizer = weakref.finalize(self, self._pool.close, 1.0, quietly=True)
        try:
            self._describe(observation_mode)
        except BaseException:
            self._finalizer()
            raise
        self.closed = False

    def _describe(self, observation_mode: ObservationMode) -> None:
        censuses = self._pool.censuses
        self.observation_mode = observation_mode
        self.single_observation_space, self.observation_space = batch_spaces(censuses, observation_mode)
        self.single_action_space = common_action_space(censuses)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**censuses[0].metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = censuses[0].render_mode
        layout = Layout.of(self.single_observation_space, self.single_action_space, self.num_envs)
        self._arena = self._pool.attach(
            Attachment(self.single_observation_space, self.single_action_space, self.num_envs, self.autoreset_mode)
        )
        self._actions = ActionWriter(
            self.single_action_space,
            layout,
            self._arena,
            ignores_ended=self.autoreset_mode is AutoresetMode.NEXT_STEP,
        )
        self._observations = ObservationReader(layout, self._arena)
        self._is_seen = np.zeros(self.num_envs, dtype=np.bool_)
        """Which environments have given an observation."""
        self._is_ready = np.array([census.was_reset for census in censuses])
        """Which environments may be stepped."""
        self._all_ready = bool(self._is_ready.all())
        nbytes = sum(array.nbytes for array in self._arena.observations)
        self._copies_early = self.copy and nbytes >= LARGE and len(self._pool.rows) > 1
        self._early: EarlyCopy | None = None
        self._has_stepped = False

    # -- reset ---------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those in ``options["reset_mask"]``.

        With a number as ``seed``, environment i gets ``seed + i``; with a sequence, its own element.
        """
        self.reset_async(seed=seed, options=options)
        return self.reset_wait()

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Begin a reset; :meth:`reset_wait` gives its results."""
        self._check_idle("reset_async")
        seeds = seeds_of(seed, self.num_envs)
        options, mask = reset_mask_of(options, self.num_envs)
        if self._has_stepped:
            self._is_seen[:] = True
        if mask is not None and not (self._is_seen | mask).all():
            missing = np.flatnonzero(~(self._is_seen | mask)).tolist()
            raise ResetNeeded(
                f"environments {missing} have never been reset, and this reset_mask leaves them out: "
                "there would be no observation of them to return"
            )
        chosen = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        self._resetting = chosen
        payloads = {}
        for worker, rows in enumerate(self._pool.rows):
            tasks = [Task(row, seeds[row], options) for row in chosen if row in rows]
            if tasks:
                payloads[worker] = tasks
        self._begin("reset", Op.RESET, payloads)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Wait for what :meth:`reset_async` began."""
        outcome = self._finish("reset", timeout)
        rows = list(self._resetting)
        self._is_seen[rows] = self._is_ready[rows] = True
        self._settle(outcome)
        return self._observations.read(self.copy), batch_infos(outcome.infos, self.num_envs)

    # -- step ----------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """Step all environments and wait for all of them."""
        payloads = self._prepare_step("step", actions)
        self._pending = "step"
        try:
            outcome = self._pool.perform(Op.STEP, payloads, self.step_timeout, self._on_reply)
        except BaseException as error:
            self._interrupted_by(error)
            raise
        self._pending = None
        return self._step_results(outcome)

    def step_async(self, actions: Any) -> None:
        """Begin a step; :meth:`step_wait` gives its results. A batch of actions that does not fit is refused whole."""
        self._begin("step", Op.STEP, self._prepare_step("step_async", actions))

    def step_wait(self, timeout: float | None = None) -> Step:
        """Wait for what :meth:`step_async` began.

        After ``timeout`` seconds it raises and may be called again: the step goes on and no result is lost.
        """
        return self._step_results(self._finish("step", timeout, self.step_timeout, self._on_reply))

    @property
    def _on_reply(self) -> OnReply | None:
        return None if self._early is None else self._early.copy_rows

    def _prepare_step(self, name: str, actions: Any) -> dict[int, Steps] | None:
        """Check everything, write the actions, and return what else the workers must be told."""
        if self._pending is not None or self.closed:
            self._check_idle(name)
        if not self._all_ready:
            raise ResetNeeded(self._why_not_ready())
        loose, wide = self._actions.write(actions)
        if self._copies_early:
            self._early = EarlyCopy(self._arena)
        if not loose and not wide:
            return None
        return {
            worker: Steps(rows, [entry for entry in loose if entry[0] in rows], wide)
            for worker, rows in enumerate(self._pool.rows)
        }

    def _step_results(self, outcome: Outcome) -> Step:
        arena = self._arena
        reward, terminated, truncated = arena.reward.copy(), arena.terminated.copy(), arena.truncated.copy()
        self._has_stepped = True
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._is_ready = ~(terminated | truncated)
            self._all_ready = bool(self._is_ready.all())
        if outcome.loose or outcome.failures:
            self._settle(outcome)
        infos = batch_infos(outcome.infos, self.num_envs) if outcome.infos else {}
        early, self._early = self._early, None
        return self._observations.read(self.copy, early), reward, terminated, truncated, infos

    # -- everything else -----------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute, and return one value per environment."""
        self.call_async(name, *args, **kwargs)
        return self.call_wait()

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Begin a call; :meth:`call_wait` gives its results."""
        self._check_idle("call_async")
        calls = {worker: Call(rows, name, args, kwargs) for worker, rows in enumerate(self._pool.rows)}
        self._begin("call", Op.CALL, calls)

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for what :meth:`call_async` began."""
        outcome = self._finish("call", timeout)
        self._settle(outcome)
        return tuple(value for _, value in outcome.values)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: a list or tuple has one value for each, anything else is for all."""
        self._check_idle("set_attr")
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ConfigurationError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {self.num_envs} environments."
            )
        assignments = {
            worker: Assignment(rows, name, list(values[rows.start : rows.stop]))
            for worker, rows in enumerate(self._pool.rows)
        }
        self._begin("set_attr", Op.SET_ATTR, assignments)
        self._settle(self._finish("set_attr", None))

    def render(self) -> tuple[Any, ...]:
        """What every environment renders."""
        return self.call("render")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of every environment's random numbers."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of every environment's random number generator."""
        return self.get_attr("np_random")

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments themselves, where they live in this process."""
        self._check_open()
        runners = getattr(self._pool.backend, "runners", None)
        if runners is not None and len(runners) == 1:
            live: list[gymnasium.Env[Any, Any]] = runners[0].slice.envs
            return live
        if runners is None:
            raise AttributeError(
                f'the environments of backend="{self.plan.backend}" live in other processes; '
                'use call(), get_attr() and set_attr(), or backend="serial"'
            )
        return [env for runner in runners for env in runner.slice.envs]

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """Close all environments. What is not done after ``timeout`` seconds, or at once with ``terminate``, is ended."""
        if self._pending is not None and not self._wait_timed_out:
            gymnasium.logger.warn(f"Calling `close` while waiting for a pending call to `{self._pending}` to complete.")
        self._finalizer.detach()
        self._pool.close(0.0 if terminate else CLOSE_SECONDS if timeout is None else timeout)
        # What refers to the arena keeps its memory, and a descriptor, alive.
        for name in ("_arena", "_actions", "_observations"):
            self.__dict__.pop(name, None)
        self._early = None

    def __enter__(self) -> ParallelEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_timed_out = True  # leaving the block, perhaps by an exception, is no mistake to warn about
        self.close()

    # -- what all of it stands on --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(f"Trying to operate on `{type(self).__name__}`, after a call to `close()`.")

    def _check_idle(self, name: str) -> None:
        self._check_open()
        if self._pending is not None:
            raise AlreadyPending(
                f"Calling `{name}` while waiting for a pending call to `{self._pending}` to complete. "
                f"Call `{self._pending}_wait` first.",
                self._pending,
            )

    def _begin(self, name: str, op: Op, payloads: dict[int, Any] | None) -> None:
        self._pool.begin(op, payloads)
        self._pending, self._wait_timed_out = name, False

    def _finish(
        self, name: str, timeout: float | None, deadline: float | None = None, on_reply: OnReply | None = None
    ) -> Outcome:
        self._check_open()
        if self._pending != name:
            raise NothingPending(f"Calling `{name}_wait` without any prior call to `{name}_async`.", name)
        try:
            outcome = self._pool.finish(timeout, deadline, on_reply)
        except BaseException as error:
            self._interrupted_by(error)
            raise
        self._pending = None
        return outcome

    def _interrupted_by(self, error: BaseException) -> None:
        """Decide what can still be waited for after a wait that raised."""
        self._wait_timed_out = isinstance(error, WaitTimeout)
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if self._wait_timed_out or (is_interrupt and self.plan.backend != "serial"):
            return  # the environments go on: wait again
        self._pending = None
        if is_interrupt:
            # Some environments have taken the step and some have not, so none may go on from here.
            self._is_ready[:] = False
            self._all_ready = False

    def _settle(self, outcome: Outcome) -> None:
        """Take in what is not in the arena, and raise what environments raised."""
        if outcome.loose:
            self._observations.update(outcome.loose)
        if outcome.failures:
            broken = [failure.env_index for failure in outcome.failures if failure.phase in ("reset", "step")]
            self._is_ready[broken] = False
            self._all_ready = bool(self._is_ready.all())
            raise_failures(outcome.failures, self._pool.where(min(f.env_index for f in outcome.failures)))
        if not self._all_ready:
            self._all_ready = bool(self._is_ready.all())

    def _why_not_ready(self) -> str:
        rows = np.flatnonzero(~self._is_ready).tolist()
        names = f"environment {rows[0]}" if len(rows) == 1 else f"environments {rows}"
        if self.autoreset_mode is AutoresetMode.DISABLED and self._is_seen[rows].all():
            return (
                f"the episode of {names} has ended and autoreset is disabled: reset with "
                'options={"reset_mask": terminated | truncated} before the next step'
            )
        if not self._is_seen[rows].any():
            return f"{names} must be reset before the first step: call reset()"
        return f"{names} failed, and must be reset before the next step: call reset()"


def _check_factories(env_fns: list[EnvFn]) -> None:
    if not env_fns:
        raise ConfigurationError("env_fns is empty: at least one environment is needed")
    for index, env_fn in enumerate(env_fns):
        if not callable(env_fn):
            raise ConfigurationError(f"env_fns[{index}] is not a callable that makes an environment: got {env_fn!r}")


def _check_max_concurrency(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigurationError(f"`max_concurrency` must be an integer or None, got {value!r}.")
    if value < 1:
        raise ConfigurationError(f"`max_concurrency` must be a positive or None, got {value}.")


def _checked_timeout(seconds: float | None, backend: str) -> float | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
        raise ConfigurationError(f"step_timeout must be a positive number of seconds or None, got {seconds!r}")
    if not needs_processes(backend):
        warnings.warn(
            f'step_timeout={seconds:g} has no effect with backend="{backend}": an environment in this process cannot '
            'be ended. Use backend="shm" or "pipes".',
            stacklevel=3,
        )
        return None
    return float(seconds)
