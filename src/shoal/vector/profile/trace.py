"""The timeline as a trace in Chrome's format, which chrome://tracing and ui.perfetto.dev show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from shoal.vector.profile.recorder import Kind, Track

NAMES = {
    Kind.ENVIRONMENT: "environments", Kind.INFOS: "infos", Kind.COPYING: "unpacking", Kind.SIGNALLING: "signalling",
    Kind.WAITING: "waiting", Kind.MANAGEMENT: "process management", Kind.BUSY: "command", Kind.WINDOW: "recorded",
}  # fmt: skip


def write_trace(tracks: Sequence[Track], path: Path) -> None:
    """Write what the caller and the workers did."""
    events: list[dict[str, object]] = []
    start = min((int(track.begins.min()) for track in tracks if len(track.begins)), default=0)
    for number, track in enumerate(tracks):
        name = "caller" if number == 0 else f"worker {number - 1}"
        events.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": name}})
        spans = zip(track.kinds.tolist(), track.begins.tolist(), track.ends.tolist(), strict=True)
        for kind, begin, end in spans:
            # Its times are in microseconds.
            span = {"name": NAMES[Kind(kind)], "ph": "X", "pid": 0, "tid": number}
            events.append({**span, "ts": (begin - start) / 1e3, "dur": (end - begin) / 1e3})
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
