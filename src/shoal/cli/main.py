"""``shoal``: one verb per module, put together here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import gymnasium
from rich.console import Console
from rich.text import Text
from tyro.extras import SubcommandApp

from shoal import ShoalError, __version__
from shoal.cli.bench import bench
from shoal.cli.check import MISUSE, check
from shoal.cli.demo import demo
from shoal.cli.envs import envs
from shoal.cli.profile import profile
from shoal.ppo.command import evaluate, train
from shoal.vector.nearest import did_you_mean

VERBS: dict[str, Callable[..., int | None]] = {
    "envs": envs,
    "bench": bench,
    "demo": demo,
    "check": check,
    "profile": profile,
    "train": train,
    "eval": evaluate,
}
app = SubcommandApp()
for name, verb in VERBS.items():
    app.command(name=name)(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["--version"], ["-V"]):
        Console().print(f"shoal {__version__}", highlight=False)
        return 0
    if given and not given[0].startswith("-") and given[0] not in VERBS:
        hint = did_you_mean(given[0], VERBS) or f" There are {', '.join(VERBS)}."
        _say_error(f"there is no verb {given[0]!r}.{hint}")
        return MISUSE
    description = "Many environments, moving as one. `shoal VERB --help` explains a verb."
    try:
        exit_code = app.cli(args=given or ["--help"], prog="shoal", description=description)
    except (ShoalError, gymnasium.error.Error) as error:
        _say_error(str(error))
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        return 130
    return exit_code if isinstance(exit_code, int) else 0


def _say_error(message: str) -> None:
    # As text and not as markup, which would take [train] for a style.
    Console(stderr=True, highlight=False).print(Text.assemble(("error:", "red"), f" {message}"), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
