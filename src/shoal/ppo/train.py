"""``python -m shoal.ppo.train``: the same as ``shoal train``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gymnasium
import tyro
from rich.console import Console
from rich.text import Text

from shoal.ppo.command import train
from shoal.vector.errors import ShoalError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return tyro.cli(train, args=arguments, prog="python -m shoal.ppo.train")
    except (ShoalError, gymnasium.error.Error) as error:
        # As text and not as markup, which would take [train] for a style.
        Console(stderr=True, highlight=False).print(Text.assemble(("error:", "red"), f" {error}"), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
