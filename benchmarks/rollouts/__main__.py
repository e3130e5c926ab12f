"""``python -m benchmarks.rollouts``: first-ready against lockstep, and what the collector itself costs."""

from __future__ import annotations

if __name__ == "__main__":
    from benchmarks.rollouts.run import main

    main()
