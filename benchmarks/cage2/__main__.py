"""``python -m benchmarks.cage2``: many games of CAGE 2, in Python and compiled.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks.cage2.run import main

    main(sys.argv[1:])
