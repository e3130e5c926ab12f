"""What is known of a worker that is gone, in words."""

from __future__ import annotations

import signal

from shoal.vector.messages import Death


def describe_death(death: Death, doing: str, rows: range, num_envs: int) -> str:
    """What happened, the likely cause, whom it concerns and what to do."""
    return (
        f"worker {death.worker} (pid {death.pid}) {_cause_of_death(death.exit_code)} while {doing}.\n"
        f"  Likely cause: {_likely_cause(death.exit_code)}\n"
        f"  It ran environments {rows.start} to {rows.stop - 1} of {num_envs}.\n"
        '  What to do: look at what it printed, or run the same environment with backend="serial".'
    )


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended, and nobody knows how,"
    if exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"ended by itself with exit code {exit_code}"


def _likely_cause(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return "the environment, or a library it uses, called exit() or os._exit()."
    causes = {
        signal.SIGKILL: "out of memory (the system log says so), or somebody killed it.",
        signal.SIGSEGV: "a crash in native code; its stack is in what the worker printed.",
        signal.SIGABRT: "native code gave up; its stack is in what the worker printed.",
        signal.SIGBUS: "memory-mapped data that is no longer there, such as a full or truncated file.",
    }
    default = "somebody, or the environment itself, sent that signal."
    return causes.get(signal.Signals(-exit_code), default) if -exit_code in set(signal.Signals) else default
