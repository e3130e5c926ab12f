"""``shoal``: one verb per module, put together here."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence

import gymnasium
from rich.console import Console
from rich.text import Text
from tyro.extras import SubcommandApp

from shoal import EnvError, ShoalError, __version__
from shoal.cli.bench import bench
from shoal.cli.check import MISUSE, check
from shoal.cli.demo import demo
from shoal.cli.envs import envs
from shoal.cli.evaluate import evaluate
from shoal.cli.profile import profile
from shoal.cli.rollout import rollout
from shoal.meta.command import train_meta
from shoal.ppo.command import train
from shoal.vector.caller import PACKAGE
from shoal.vector.nearest import did_you_mean

VERBS: dict[str, Callable[..., int | None]] = {
    "envs": envs,
    "bench": bench,
    "demo": demo,
    "check": check,
    "profile": profile,
    "rollout": rollout,
    "train": train,
    "train-meta": train_meta,
    "eval": evaluate,
}
ADVICE = "  The other environments are fine."
PLACE = re.compile(r'File "(.+?)", line (\d+), in (\S+)')
app = SubcommandApp()
for name, verb in VERBS.items():
    app.command(name=name)(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # a sign that the terminal does not know is no reason to stop
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
    except EnvError as error:
        _say_error(_of_environment(error))
        return 1
    except (ShoalError, gymnasium.error.Error) as error:
        _say_error(str(error))
        return 1
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        return 130
    return exit_code if isinstance(exit_code, int) else 0


def _of_environment(error: EnvError) -> str:
    """What went wrong, and where in whose code; what a program could do about it is of no use to who types."""
    message = str(error).replace(" (see the exception's .others)", "")
    lines = [line for line in message.splitlines() if not line.startswith(ADVICE)]
    places = [found for found in PLACE.findall(error.remote_traceback) if not found[0].startswith(PACKAGE)]
    own = [found for found in places if "site-packages" not in found[0]] or places
    if own:
        path, line, function = own[-1]
        lines.append(f"  At: {path}, line {line}, in {function}.")
    return "\n".join([*lines, "  `shoal check` looks for the usual bugs of environments."])


def _say_error(message: str) -> None:
    # As text and not as markup, which would take [train] for a style.
    Console(stderr=True, highlight=False).print(Text.assemble(("error:", "red"), f" {message}"), soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
