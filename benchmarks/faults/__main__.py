"""``python -m benchmarks.faults``: first into the peers' environment, then one fault after the other.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv
    from benchmarks.faults import options

    given = options.parse(sys.argv[1:])
    peers_venv.run_inside("benchmarks.faults", sys.argv[1:])

    from benchmarks.faults.run import main

    main(given)
