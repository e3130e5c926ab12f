"""``python -m benchmarks.text``: text worlds in Shoal and in Gymnasium.

Worker processes import this module again, so nothing may be imported at its top.
"""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from benchmarks.text.run import main

    main(sys.argv[1:])
