"""``shoal train`` and ``shoal eval``: train a policy with PPO, and see what it is worth."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin

import tyro
import yaml
from rich.console import Console

from shoal.envs.naming import find
from shoal.ppo.config import PPOConfig
from shoal.ppo.config_file import load_yaml, read_config, read_saved_config, what_is_wrong
from shoal.ppo.display import LEVELS
from shoal.ppo.needs import check_that_training_is_installed
from shoal.ppo.plain_warnings import plain_warnings
from shoal.ppo.presets import preset_of
from shoal.runs import Checkpoint, CheckpointDamaged, Checkpoints, RunFolder
from shoal.runs.checkpoint_list import step_in
from shoal.runs.folder import CHECKPOINTS, CONFIG
from shoal.runs.settings import SEEDS, choices_of
from shoal.vector.errors import ConfigurationError, StateError
from shoal.vector.nearest import did_you_mean

LEFT_TO_SHOAL = (("n_envs", "auto"), ("torch_threads", None))
"""Whoever says this wants what was decided when the run began."""
WHICH = ("last", "best")


_WholeNumber = Annotated[
    str,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=operator.itemgetter(0),
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda word: [word],
    ),
]
"""As a word: the config knows that 1e6 is one, and says what is wrong with one that is none."""


def _one_of(choices: Iterable[str]) -> str:
    """How help shows that a word is one of a few."""
    return f"{{{','.join(choices)}}}"


def _flag(field: Any) -> Any:
    """A setting as the type of a flag."""
    type_, choices = field.annotation, choices_of(field.annotation)
    text = " ".join((field.description or "").split()).replace("``", "")
    metavar = None
    if choices:
        parts = get_args(type_)
        metavar = ("INT|" if int in parts else "") + _one_of([*(["None"] if type(None) in parts else []), *choices])
    # Left out, it may still come from a file or a preset; the hint is what it is otherwise.
    argument = tyro.conf.arg(help=text, help_behavior_hint=f"(default: {field.default})", metavar=metavar)
    return Annotated[_spoken(type_), argument]


def _spoken(type_: Any) -> Any:
    """Which type the command line reads."""
    if type_ is int:
        return _WholeNumber
    if bool in (type_, *get_args(type_)):
        return bool  # which becomes two flags, --this and --no-this
    if get_origin(type_) is Literal:
        return str  # the config checks it, and says which word is the nearest
    if get_origin(type_) in (Union, UnionType):
        return functools.reduce(operator.or_, map(_spoken, get_args(type_)))
    return type_


_FLAGS = {name: _flag(field) for name, field in PPOConfig.model_fields.items() if name != "env_kwargs"}
Settings = TypedDict("Settings", _FLAGS, total=False)  # type: ignore[misc]  # mypy wants to read them here
"""Settings that were said. Those that were not are not in it: ``None`` is something that can be said."""
NOTHING_SAID: dict[str, Any] = {}


def train(
    settings: Annotated[Any, tyro.conf.arg(constructor=Settings, name="")] = NOTHING_SAID,
    config: Path | None = None,
    env_kwargs: dict[str, str] | None = None,
    checkpoint_dir: Path | None = None,
    resume: Path | None = None,
    display: Annotated[str, tyro.conf.arg(metavar=_one_of(LEVELS))] = "auto",
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
    _check_word("--display", display, LEVELS)
    shown: dict[str, Any] = {"display": display, "wandb": wandb, "record_video": record_video}
    if resume is not None:
        others = {"--config": config, "--env-kwargs": env_kwargs, "--checkpoint-dir": checkpoint_dir}
        if refused := [name for name, value in others.items() if value is not None]:
            raise ConfigurationError(
                f"{', '.join(refused)} cannot be given together with --resume: "
                "a run goes on with its own settings, in its own folder"
            )
        with plain_warnings():
            return _go_on(RunFolder.open(resume), settings, dry_run, shown)
    from shoal.ppo.run import train as begin
    from shoal.ppo.trainer import resolved

    chosen = settings_of(settings, config, env_kwargs)
    if dry_run:
        find(chosen.env)  # says so, if there is none of that name
        _print_as_file(resolved(chosen))
    else:
        with plain_warnings():
            begin(chosen, checkpoint_dir=checkpoint_dir, **shown)
    return 0


def _go_on(run: RunFolder, given: Mapping[str, Any], dry_run: bool, shown: dict[str, Any]) -> int:
    from shoal.ppo.run import check_that_they_can_be_changed
    from shoal.ppo.run import resume as go_on

    before = PPOConfig.of(read_saved_config(run))
    changes = changes_of(before, given)
    if not dry_run:
        go_on(run.path, **shown, **changes)
        return 0
    check_that_they_can_be_changed(changes)
    find(before.env)
    _print_as_file(before.replaced(**changes))
    return 0


def changes_of(before: PPOConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was said and is not so already."""
    after = before.replaced(**given)
    said = {name: getattr(after, name) for name in given}
    return {
        name: value
        for name, value in said.items()
        if value != getattr(before, name) and (name, value) not in LEFT_TO_SHOAL
    }


def _print_as_file(config: PPOConfig) -> None:
    """As a file for ``--config``: rich would take brackets for a style, and break long lines."""
    sys.stdout.write(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))


def settings_of(given: Mapping[str, Any], config: Path | None, env_kwargs: Mapping[str, str] | None) -> PPOConfig:
    """The settings that follow from flags, a file and a preset."""
    said = {**({} if config is None else _settings_in(config)), **given}
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


def _settings_in(file: Path) -> dict[str, Any]:
    values = read_config(file)
    flags = inspect.signature(train).parameters.keys() - PPOConfig.model_fields.keys() - {"settings"}
    for name in values:
        if str(name).replace("-", "_") in flags:
            flag = f"--{str(name).replace('_', '-')}"
            raise ConfigurationError(
                f"{file} has {name}, which is no setting of a file: it is given on the command line only, as {flag}"
            )
    return values


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


def _check_word(name: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        hint = did_you_mean(word, allowed)
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {word!r}.{hint}")


def evaluate(
    path: Annotated[Path, tyro.conf.Positional],
    episodes: int = 100,
    seed: int = 0,
    checkpoint: Annotated[
        str | None, tyro.conf.arg(metavar=_one_of(WHICH), help_behavior_hint="(default: best)")
    ] = None,
    device: Annotated[
        str, tyro.conf.arg(metavar=_one_of(choices_of(PPOConfig.model_fields["device"].annotation)))
    ] = "cpu",
    record_video: bool = False,
) -> int:
    """Evaluate a trained policy: on a single environment, with its most likely actions, on seeds of its own.

    Args:
        path: the folder of a run, or of one of its checkpoints.
        episodes: how many to play.
        seed: another one plays other episodes.
        checkpoint: which one of the run. While none has a score, the last one stands for the best, unless that is asked for.
        device: where the network is, wherever it was trained: for one environment the CPU is quick enough.
        record_video: film the first of these episodes, into the run's folder.
    """
    check_that_training_is_installed()
    if episodes < 1:
        raise ConfigurationError(f"episodes must be at least 1, got {episodes}")
    if not 0 <= seed < SEEDS:
        raise ConfigurationError(f"seed must be at least 0 and below {SEEDS}, got {seed}")
    run, named = _run_of(path)
    if checkpoint is not None:
        _check_word("--checkpoint", checkpoint, WHICH)
        if named is not None:
            raise ConfigurationError(f"{path} is a checkpoint itself: leave out --checkpoint {checkpoint}")
    with plain_warnings():
        _evaluate(run, named or checkpoint, episodes, seed, device, record_video)
    return 0


def _evaluate(
    run: RunFolder, which: str | Path | None, episodes: int, seed: int, device: str, record_video: bool
) -> None:
    from shoal.ppo.saving import load_network
    from shoal.ppo.trainer import PPOTrainer
    from shoal.ppo.video import check_that_it_can_be_filmed

    tensors, state, step = _load(Checkpoints(run.path), which)
    here = {"n_envs": 1, "backend": "serial", "device": device}
    settings = PPOConfig.of({**read_saved_config(run), **here})
    if record_video:
        check_that_it_can_be_filmed(settings)
    # For whoever reads it from a pipe, a result is one line.
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with PPOTrainer(settings) as trainer:
        load_network(trainer, tensors, state)
        result = trainer.evaluate(episodes, seed)
        console.print(f"{settings.env} after {step:,} steps: return {result}")
        if record_video:
            film = run.path / "videos" / f"step-{step}.mp4"
            trainer.record(film, seed)
            console.print(f"filmed the first of them: {film}")


def _run_of(path: Path) -> tuple[RunFolder, Path | None]:
    """The run, and which of its checkpoints, if the path is that of one."""
    whole = Path(os.path.abspath(path))  # so that a dot has a name and a parent, too
    if not (whole / CONFIG).exists():  # for a run may be called anything
        if whole.name == CHECKPOINTS:
            return RunFolder.open(whole.parent), None
        if whole.parent.name == CHECKPOINTS and step_in(whole.name) is not None:
            return RunFolder.open(whole.parent.parent), whole
    return RunFolder.open(path), None


def _load(checkpoints: Checkpoints, which: str | Path | None) -> Checkpoint:
    """The one that was asked for; otherwise the best, or the last if none is the best."""
    if which is not None:
        return checkpoints.load(which)
    try:
        return checkpoints.load("best")
    except CheckpointDamaged:
        raise
    except StateError as error:
        last = checkpoints.load("last")
        note = f"{error}. This is the last one."
        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(note)
        return last
