"""``shoal train-meta``: train an agent that learns to learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from shoal.meta.config import MetaConfig
from shoal.meta.presets import PRESETS, preset_of
from shoal.meta.training import META
from shoal.runs.display import LEVELS
from shoal.runs.training.command import check_word, go_on, settings_in, start
from shoal.runs.training.flags import DisplayLevel, flags_of
from shoal.runs.training.needs import check_that_training_is_installed
from shoal.runs.training.plain_warnings import plain_warnings
from shoal.runs.training.trainee import Shown

NOTHING_SAID: dict[str, Any] = {}


def train_meta(
    config: Annotated[Path | None, tyro.conf.Positional] = None,
    settings: Annotated[Any, tyro.conf.arg(constructor=flags_of(MetaConfig), name="")] = NOTHING_SAID,
    checkpoint_dir: Path | None = None,
    resume: Path | None = None,
    display: DisplayLevel = "auto",
    wandb: bool = False,
    dry_run: bool = False,
) -> int:
    """Train an agent that learns to learn. Ctrl-C stops and saves; `--resume FOLDER` goes on as if nothing had happened.

    What was said on the command line wins over the file, and that over what Shoal has for some worlds.

    Args:
        config: a YAML file with settings, in the sections env, train, eval and policy.
        settings: every setting.
        checkpoint_dir: where the run leaves everything, instead of a new folder in runs/.
        resume: the folder of a run to go on with.
        display: how to show progress; a terminal gets a live display, a log plain lines.
        wandb: also send metrics to Weights & Biases.
        dry_run: only print the settings that would be used.
    """
    check_that_training_is_installed()
    check_word("--display", display, LEVELS)
    shown = Shown(display, wandb)
    with plain_warnings():
        if resume is None:
            start(META, settings_of(settings, config), checkpoint_dir, shown, dry_run)
        else:
            go_on(META, resume, settings, {"CONFIG": config, "--checkpoint-dir": checkpoint_dir}, shown, dry_run)
    return 0


def settings_of(given: Mapping[str, Any], config: Path | None) -> MetaConfig:
    """The settings that follow from flags, a file and a preset."""
    written = {} if config is None else settings_in(config, MetaConfig, train_meta)
    said = MetaConfig.of(written).replaced(**given)
    if said.env.env_name.removeprefix("shoal/") not in PRESETS:
        return said
    preset = preset_of(said.env.env_name, said.policy.arch)
    return MetaConfig.of(preset).replaced(**written).replaced(**given)
