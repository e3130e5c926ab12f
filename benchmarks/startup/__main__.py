"""``python -m benchmarks.startup``: how long it takes to make and reset environments, and in how much memory.

    repeat:  rig A, 1 environment · rig B, 1 environment · … · rig A, 200 environments · …

The environments cost nothing themselves. Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.startup", sys.argv[1:])

    from benchmarks.startup.run import main

    main(sys.argv[1:])
