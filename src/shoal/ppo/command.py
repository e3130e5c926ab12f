"""``shoal train``: train a policy with PPO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

from shoal.ppo.config import PPOConfig
from shoal.ppo.presets import preset_of
from shoal.ppo.run import PPO
from shoal.runs.config_file import load_yaml, what_is_wrong
from shoal.runs.display import LEVELS
from shoal.runs.training.command import check_word, go_on, settings_in, start
from shoal.runs.training.flags import DisplayLevel, flags_of
from shoal.runs.training.needs import check_that_training_is_installed
from shoal.runs.training.plain_warnings import plain_warnings
from shoal.runs.training.trainee import Shown
from shoal.vector.errors import ConfigurationError

NOTHING_SAID: dict[str, Any] = {}


def train(
    settings: Annotated[Any, tyro.conf.arg(constructor=flags_of(PPOConfig), name="")] = NOTHING_SAID,
    config: Path | None = None,
    env_kwargs: dict[str, str] | None = None,
    checkpoint_dir: Path | None = None,
    resume: Path | None = None,
    display: DisplayLevel = "auto",
    wandb: bool = False,
    record_video: bool = False,
    dry_run: bool = False,
) -> int:
    """Train a policy with PPO. Ctrl-C stops and saves; `--resume FOLDER` goes on as if nothing had happened.

    What was said on the command line wins over `--config`, and that over what Shoal has for its own worlds.

    Args:
        settings: every setting.
        config: a YAML file with settings.
        env_kwargs: what else the environment is made with, as KEY VALUE pairs.
        checkpoint_dir: where the run leaves everything, instead of a new folder in runs/.
        resume: the folder of a run to go on with.
        display: how to show progress; a terminal gets a live display, a log plain lines.
        wandb: also send metrics to Weights & Biases.
        record_video: film an episode at the end, and after every evaluation, into the run's folder.
        dry_run: only print the settings that would be used.
    """
    check_that_training_is_installed()
    check_word("--display", display, LEVELS)
    shown = Shown(display, wandb, record_video)
    with plain_warnings():
        if resume is None:
            start(PPO, settings_of(settings, config, env_kwargs), checkpoint_dir, shown, dry_run)
        else:
            others = {"--config": config, "--env-kwargs": env_kwargs, "--checkpoint-dir": checkpoint_dir}
            go_on(PPO, resume, settings, others, shown, dry_run)
    return 0


def settings_of(given: Mapping[str, Any], config: Path | None, env_kwargs: Mapping[str, str] | None) -> PPOConfig:
    """The settings that follow from flags, a file and a preset."""
    said = {**({} if config is None else settings_in(config, PPOConfig, train)), **given}
    env = said.setdefault("env", PPOConfig.model_fields["env"].default)
    preset = preset_of(env) if isinstance(env, str) else {}
    values = {**preset, **said}
    if said.get("num_episodes") is not None and "total_steps" not in said:
        values.pop("total_steps", None)  # who counts episodes does not want to be stopped by the steps of a preset
    keywords = [one["env_kwargs"] for one in (preset, said) if "env_kwargs" in one]
    if env_kwargs is not None:
        keywords.append({name: _read_value(name, value) for name, value in env_kwargs.items()})
    values["env_kwargs"] = _merged(keywords)
    if values.get("num_episodes") is None and values.get("total_steps") is None:
        values["num_episodes"] = 1000
    return PPOConfig.of(values)


def _merged(keywords: list[Any]) -> dict[str, Any]:
    """What comes later wins, key by key."""
    merged: dict[str, Any] = {}
    for one in keywords:
        if not isinstance(one, dict):
            raise ConfigurationError(f"env_kwargs must hold 'name: value' pairs, got {one!r}")
        merged.update(one)
    return merged


def _read_value(name: str, text: str) -> Any:
    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:  # the second for a date that is none
        raise ConfigurationError(f"--env-kwargs {name}: {text!r} is no YAML: {what_is_wrong(error)}") from None
