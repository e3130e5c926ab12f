"""From a config to environment managers, for training and for validation."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.llm.container import MultiProcessEnvironmentContainer
from shoal.llm.environment_manager import HISTORY_LENGTH, EnvironmentManagerBase
from shoal.llm.environment_managers import MixedEnvironmentManager, manager_of
from shoal.llm.es_settings import flag_of, format_penalty_of, placing_of, seed_of
from shoal.llm.members import Crew, crew_of
from shoal.llm.registry import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS, UnknownEnvType
from shoal.llm.settings import Settings
from shoal.vector.caller import warn_caller

TRAIN_SEED = 42
BETWEEN_SEEDS = 1000
"""How far the seeds of validation are from those of training, where a config does not say."""

EXTRAS = {"countdown": "llm", "metamathqa": "llm,text", "webshop": "text"}
"""What has to be installed for all that a type of world can do: ``pip install 'shoal[…]'``."""


def make_environments(config: Any) -> tuple[EnvironmentManagerBase, EnvironmentManagerBase]:
    """The managers for training and for validation, as ``es_manager.train`` and ``es_manager.val`` say.

    ``use_parallel_envs: false`` runs all worlds in this process. ``seed`` is a number, or has ``train`` and ``val``.
    """
    settings = Settings.of(config)
    crews = _validated(settings)
    train_seed, val_seed = _seeds_of(settings)
    train = _managed(settings, crews["train"], train_seed)
    try:
        return train, _managed(settings, crews["val"], val_seed)
    except BaseException:
        train.close()
        raise


def validate_environment_config(config: Any) -> None:
    """Raise :class:`ConfigurationError`, which is a ``ValueError``, for a config from which no environments can be made."""
    _validated(Settings.of(config))


def get_supported_environment_types() -> list[str]:
    """The types of worlds that there are."""
    return list(REGISTERED_ENVS)


def get_environment_requirements(env_type: str) -> dict[str, Any]:
    """What a type of world needs: ``packages`` to install, and ``config``, the fields of its config with their defaults."""
    world = REGISTERED_ENVS[env_type]
    packages = [f"shoal[{EXTRAS[env_type]}]"] if env_type in EXTRAS else []
    try:
        config_class = REGISTERED_ENV_CONFIGS[env_type]
    except UnknownEnvType:
        return {"env_class": world, "packages": packages, "config": {}}
    fields = vars(config_class()) if not dataclasses.is_dataclass(config_class) else _defaults(config_class)
    return {"env_class": world, "packages": packages, "config": fields}


def create_single_environment_for_testing(
    env_type: str, env_kwargs: dict[str, Any] | None = None, seed: int = TRAIN_SEED
) -> EnvironmentManagerBase:
    """The manager of one world, in this process."""
    envs = MultiProcessEnvironmentContainer(env_type, 1, 1, seed, env_kwargs, use_multiprocessing=False)
    return manager_of(env_type, envs)


def _defaults(config_class: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(config_class):
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
    return defaults


def _validated(settings: Settings) -> dict[str, Crew]:
    crews = {mode: crew_of(settings, mode) for mode in ("train", "val")}
    batch_size = settings.optional("data").get("train_batch_size")
    if batch_size is not None and batch_size != len(crews["train"]):
        warn_caller(
            f"data.train_batch_size is {batch_size}, but es_manager.train has {len(crews['train'])} environments "
            f"({crews['train'].num_groups} groups of {crews['train'].group_size})"
        )
    return crews


def _seeds_of(settings: Settings) -> tuple[int, int]:
    if isinstance(settings.get("seed", {}), dict):
        section = settings.optional("seed")
        train, val = seed_of(section, "train"), seed_of(section, "val")
    else:
        train, val = seed_of(settings, "seed"), None
    train = TRAIN_SEED if train is None else train
    return train, train + BETWEEN_SEEDS if val is None else val


def _managed(settings: Settings, crew: Crew, seed: int) -> EnvironmentManagerBase:
    section = settings.section("es_manager")
    placing, _ = placing_of(section, crew.tags)
    is_parallel = flag_of(settings, "use_parallel_envs", flag_of(section, "use_multiprocessing", True))
    envs = MultiProcessEnvironmentContainer.of_crew(crew, placing, seed, is_parallel=is_parallel)
    keywords = {
        "history_length": settings.optional("env").get("history_length", HISTORY_LENGTH),
        "format_penalty": format_penalty_of(section),
    }
    by_tag = {
        tag.name: manager_of(tag.env_type, envs, instruction=tag.instruction, **keywords)
        for tag in {tag.name: tag for tag in crew.tags}.values()
    }
    if len(by_tag) == 1:
        return by_tag[crew.tags[0].name]
    return MixedEnvironmentManager(envs, [by_tag[tag.name] for tag in crew.tags], **keywords)
