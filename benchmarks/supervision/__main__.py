"""``python -m benchmarks.supervision``: the same rollout with and without a journal, and the price of a kill.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.supervision", sys.argv[1:])

    from benchmarks.supervision.run import main

    main(sys.argv[1:])
