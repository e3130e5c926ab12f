"""``python -m benchmarks.first_ready``: uneven environments, served as they come.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.first_ready", sys.argv[1:])

    from benchmarks.first_ready.run import main

    main(sys.argv[1:])
