"""``shoal``: one verb per module, put together here."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gymnasium
from rich.console import Console
from rich.text import Text
from tyro.extras import SubcommandApp

from shoal import ShoalError, __version__
from shoal.cli.bench import bench
from shoal.cli.check import check
from shoal.cli.demo import demo
from shoal.cli.envs import envs
from shoal.cli.profile import profile
from shoal.ppo.command import evaluate, train

app = SubcommandApp()
app.command(envs)
app.command(bench)
app.command(demo)
app.command(check)
app.command(profile)
app.command(train)
app.command(name="eval")(evaluate)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        Console().print(f"shoal {__version__}", highlight=False)
        return 0
    description = "Many environments, moving as one. `shoal VERB --help` explains a verb."
    try:
        exit_code = app.cli(args=given or ["--help"], prog="shoal", description=description)
    except (ShoalError, gymnasium.error.Error) as error:
        # As text and not as markup, which would take [train] for a style.
        Console(stderr=True, highlight=False).print(Text.assemble(("error:", "red"), f" {error}"), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        return 130
    return exit_code if isinstance(exit_code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
