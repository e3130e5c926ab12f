"""``python -m benchmarks.cold_start``: the longest step, the first second and the steady speed of ``backend="auto"``.

    repeat:  SyncVectorEnv, 10 CartPoles · Shoal, 10 CartPoles · SyncVectorEnv, 200 · … then beside a busy process

Each contestant is a process of its own that steps for some seconds from cold. It needs nothing but Shoal and Gymnasium.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks.cold_start.run import main

    main(sys.argv[1:])
