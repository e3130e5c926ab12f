"""What an environment is wrapped in, asked where it is.

This module is loaded in worker processes, so it must not load Stable-Baselines3, which would bring torch with it. That is
also why the class is named and not sent.
"""

from __future__ import annotations

from typing import Any

import gymnasium


def name_of(kind: type) -> str:
    """A class's name. Without the function it was defined in, which a class that was sent by value forgets."""
    return f"{kind.__module__}.{kind.__name__}"


def is_wrapped_in(env: Any, class_name: str) -> bool:
    """Whether the environment is wrapped in this class, or in one derived from it."""
    while isinstance(env, gymnasium.Wrapper):
        if any(name_of(kind) == class_name for kind in type(env).__mro__):
            return True
        env = env.env
    return False
