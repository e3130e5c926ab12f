"""``python -m benchmarks.worlds``: first into the peers' environment, then the comparison.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv

    peers_venv.run_inside("benchmarks.worlds", sys.argv[1:])

    from benchmarks.worlds.run import main

    main(sys.argv[1:])
