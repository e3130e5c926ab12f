"""``python -m benchmarks.throughput``: first into the peers' environment, then the comparison.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks import peers_venv
    from benchmarks.throughput import options

    given = options.parse(sys.argv[1:])
    peers_venv.run_inside("benchmarks.throughput", sys.argv[1:])

    from benchmarks.throughput.run import main

    main(given)
