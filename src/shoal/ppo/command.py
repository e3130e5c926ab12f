"""``shoal train`` and ``shoal eval``: train a policy with PPO, and see what it is worth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml
from rich.console import Console

from shoal.ppo.config import PPOConfig, read_config
from shoal.ppo.needs import check_that_training_is_installed
from shoal.ppo.presets import preset_of
from shoal.vector.errors import ConfigurationError


def _flag(name: str, field: Any) -> tuple[str, Any, Any]:
    """A setting as a flag that may be left out."""
    text = " ".join((field.description or "").split()).replace("``", "")
    # Left out, it may still come from a file or a preset; this is what it is otherwise.
    argument = tyro.conf.arg(help=text, help_behavior_hint=f"(default: {field.default})")
    return name, Annotated[field.annotation | None, argument], dataclasses.field(default=None)


Settings = dataclasses.make_dataclass(
    "Settings",
    [_flag(name, field) for name, field in PPOConfig.model_fields.items() if name != "env_kwargs"],
    frozen=True,
)
"""Every setting of PPO, or ``None`` where nothing was said."""
NOTHING_SAID = Settings()


def train(
    settings: Annotated[Any, tyro.conf.arg(constructor=Settings, name="")] = NOTHING_SAID,
    config: Path | None = None,
    env_kwargs: dict[str, str] | None = None,
    checkpoint_dir: Path | None = None,
    resume: Path | None = None,
    display: Literal["auto", "rich", "plain", "none"] = "auto",
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
    given = {name: value for name, value in dataclasses.asdict(settings).items() if value is not None}
    from shoal.ppo.run import resume as go_on
    from shoal.ppo.run import train as begin

    if resume is not None:
        if dry_run:
            Console().print((resume / "config.yaml").read_text(), highlight=False)
            return 0
        go_on(resume, display=display, wandb=wandb, record_video=record_video, **given)
        return 0
    chosen = settings_of(given, config, env_kwargs)
    if dry_run:
        from shoal.ppo.trainer import resolved

        Console().print(yaml.safe_dump(resolved(chosen).model_dump(mode="json"), sort_keys=False), highlight=False)
        return 0
    begin(chosen, checkpoint_dir=checkpoint_dir, display=display, wandb=wandb, record_video=record_video)
    return 0


def settings_of(given: dict[str, Any], config: Path | None, env_kwargs: dict[str, str] | None) -> PPOConfig:
    """The settings that follow from flags, a file and a preset."""
    in_file = {} if config is None else read_config(config)
    env = given.get("env") or in_file.get("env") or PPOConfig.model_fields["env"].default
    values = {**preset_of(env), **in_file, **given}
    said = {**in_file, **given}
    if "num_episodes" in said and "total_steps" not in said:
        values.pop("total_steps", None)  # who counts episodes does not want to be stopped by the steps of a preset
    if env_kwargs:
        parsed = {name: yaml.safe_load(value) for name, value in env_kwargs.items()}
        values["env_kwargs"] = {**values.get("env_kwargs", {}), **parsed}
    values["env"] = env
    if values.get("num_episodes") is None and values.get("total_steps") is None:
        values["num_episodes"] = 1000
    return PPOConfig.of(values)


def evaluate(
    folder: Annotated[Path, tyro.conf.Positional],
    episodes: int = 100,
    seed: int = 0,
    checkpoint: Literal["last", "best"] = "best",
    record_video: bool = False,
) -> int:
    """Evaluate a trained policy: on a single environment, with its most likely actions, on seeds of its own.

    Args:
        folder: that of a run.
        episodes: how many to play.
        seed: another one plays other episodes.
        checkpoint: which one of the run.
        record_video: film the first of these episodes, into the run's folder.
    """
    check_that_training_is_installed()
    from shoal.ppo.saving import load_network
    from shoal.ppo.trainer import PPOTrainer
    from shoal.ppo.video import check_that_it_can_be_filmed
    from shoal.runs import Checkpoints, RunFolder

    if episodes < 1:
        raise ConfigurationError(f"episodes must be at least 1, got {episodes}")
    run = RunFolder.open(folder)
    tensors, state, step = Checkpoints(run.path).load(checkpoint)
    settings = PPOConfig.of({**read_config(run.path / "config.yaml"), "n_envs": 1, "backend": "serial"})
    if record_video:
        check_that_it_can_be_filmed(settings)
    with PPOTrainer(settings) as trainer:
        load_network(trainer, tensors, state)
        result = trainer.evaluate(episodes, seed)
        Console().print(f"{settings.env} after {step:,} steps: return {result}", highlight=False)
        if record_video:
            film = run.path / "videos" / f"step-{step}.mp4"
            trainer.record(film, seed)
            Console().print(f"filmed the first of them: {film}", highlight=False)
    return 0
