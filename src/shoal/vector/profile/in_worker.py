"""What the profiler asks of a worker process. These functions are called there, with one of its environments."""

from __future__ import annotations

from typing import Any

from shoal.vector.backends import worker as workers
from shoal.vector.profile.recorder import Kind, Recorder, Track, remove_probes


def begin_recording(_env: Any) -> None:
    """Take down what this worker does from now on."""
    worker = workers.HERE
    if worker is None:
        return  # this environment is in the caller's own process, which takes that down itself
    remove_probes(worker)  # of a profile that could not end as it should
    recorder = Recorder()
    recorder.probe(worker, "_carry_out", Kind.BUSY)
    recorder.probe(worker, "_carry_out_each", Kind.BUSY)
    recorder.probe(worker, "_reply", Kind.SIGNALLING)
    recorder.probe(worker, "_pickled", Kind.INFOS)
    worker.runner.slice.clock = recorder


def end_recording(_env: Any) -> Track | None:
    """What this worker has taken down; ``None`` if it is another one than was asked to."""
    worker = workers.HERE
    if worker is None:
        return None
    recorder, worker.runner.slice.clock = worker.runner.slice.clock, None
    remove_probes(worker)
    return recorder.track() if isinstance(recorder, Recorder) else None
