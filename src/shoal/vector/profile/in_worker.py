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
    _stop_recording(worker)  # a profile could not end as it should
    recorder = Recorder()
    recorder.probe(worker.runner, "step_share", Kind.BUSY)
    recorder.probe(worker, "_carry_out", Kind.BUSY)
    recorder.probe(worker, "_carry_out_each", Kind.BUSY)
    recorder.probe(worker, "_reply", Kind.SIGNALLING)
    recorder.probe(worker, "_announce_all", Kind.SIGNALLING)
    recorder.probe(worker, "_pickled", Kind.INFOS)
    recorder.probe(worker, "_leaves", Kind.INFOS)
    worker.runner.slice.clock = recorder


def end_recording(_env: Any) -> Track | None:
    """What this worker has taken down; ``None`` if it is another one than was asked to."""
    worker = workers.HERE
    if worker is None:
        return None
    recorder = worker.runner.slice.clock
    _stop_recording(worker)
    return recorder.track() if isinstance(recorder, Recorder) else None


def _stop_recording(worker: workers.Worker) -> None:
    worker.runner.slice.clock = None
    remove_probes(worker)
    remove_probes(worker.runner)
