"""``python -m benchmarks.training``: whole training loops beside each other, same network, same settings, same environment.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.training", sys.argv[1:])

    from benchmarks.training.run import main

    main(sys.argv[1:])
