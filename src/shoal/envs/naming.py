"""Which environment a name in a setting or on the command line means."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import gymnasium

from shoal.vector.errors import ConfigurationError
from shoal.vector.nearest import did_you_mean


def find(name: str) -> Any:
    """The environment of that name: a callable for ``module:callable``, otherwise the id of a registered one."""
    module_name, _, attribute = name.rpartition(":")
    if not module_name:
        return _registered(name)
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # the command is run where the module is
    if "/" in module_name or module_name.endswith(".py"):
        module_name = Path(module_name).stem
        raise ConfigurationError(
            f"{name!r} is the name of a file: name the module, {module_name}:{attribute}, in its folder"
        )
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigurationError(f"{name!r} asks for the module {module_name!r}: {error}") from error
    except (Exception, SystemExit) as error:
        what = traceback.format_exception_only(error)[-1].strip()
        raise ConfigurationError(f"the module {module_name!r} cannot be imported{_place_of(error)}: {what}") from error
    if attribute in gymnasium.registry:
        return attribute
    found = getattr(module, attribute, None)
    if callable(found):
        return found
    if hasattr(module, attribute):
        kind = type(found).__name__
        raise ConfigurationError(
            f"{attribute!r} of the module {module_name!r} is of type {kind}: name what makes an environment"
        )
    known = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
    raise ConfigurationError(
        f"{attribute!r} does not exist in the module {module_name!r}.{did_you_mean(attribute, known)}"
    )


def _place_of(error: BaseException) -> str:
    """Where in a user's module something went wrong."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _registered(name: str) -> str:
    if name in gymnasium.registry:
        return name
    known = [env_id for env_id, spec in gymnasium.registry.items() if spec.entry_point]
    hint = did_you_mean(name, known) or " `shoal envs` lists those there are; your own is named module:callable."
    raise ConfigurationError(f"no environment is registered as {name!r}.{hint}")
