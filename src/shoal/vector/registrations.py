"""What the caller has registered with Gymnasium, for processes that may not know of it."""

from __future__ import annotations

import pickle

from gymnasium import register
from gymnasium.envs.registration import EnvSpec, registry

from shoal.vector.pickling import dump_by_value


def own_registrations() -> bytes:
    """Environments that were registered by others than Gymnasium itself, as far as they can be sent."""
    specs = []
    for spec in registry.values():
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith("gymnasium."):
            continue
        try:
            dump_by_value(spec)
        except Exception:
            continue  # whoever uses it will be told that it is not registered
        specs.append(spec)
    return dump_by_value(specs)


def register_here(registrations: bytes) -> None:
    """Register what another process has registered, unless it is known here already."""
    specs: list[EnvSpec] = pickle.loads(registrations)
    names = (
        "id", "entry_point", "reward_threshold", "nondeterministic", "max_episode_steps", "order_enforce",
        "disable_env_checker", "additional_wrappers", "vector_entry_point", "kwargs",
    )  # fmt: skip
    for spec in specs:
        if spec.id not in registry:
            register(**{name: getattr(spec, name) for name in names})
