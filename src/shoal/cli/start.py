"""Where the ``shoal`` command begins: a Ctrl-C is understood while everything else is still being loaded."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command and return its exit code."""
    try:
        from shoal.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        return 130
