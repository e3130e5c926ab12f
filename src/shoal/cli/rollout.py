"""``shoal rollout``: let a language model, or a solver, play text worlds, and write down what it did."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from shoal.cli.folders import make_folder
from shoal.cli.policies import policy_of, tokenizer_of
from shoal.llm.agent_proxy import LLMAgentProxy
from shoal.llm.record_files import append_records, write_parquet
from shoal.llm.records import TrajectoryRecord
from shoal.llm.rollout import Watcher
from shoal.llm.rollout_batch import RolloutBatch
from shoal.llm.settings import Settings, plain
from shoal.llm.verifying import last_line
from shoal.runs.durable import write_new
from shoal.runs.folder import RunFolder
from shoal.vector.errors import ConfigurationError

TRAJECTORIES, TABLE, METRICS = "trajectories.jsonl", "trajectories.parquet", "metrics.json"


def rollout(
    env: str | None = None,
    groups: int | None = None,
    group_size: int | None = None,
    policy: str = "solver",
    model: str | None = None,
    tokenizer: str | None = None,
    config: Path | None = None,
    env_config: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = (),
    seed: int | None = None,
    max_turns: int | None = None,
    mode: Literal["first_ready", "lockstep"] | None = None,
    window: Literal["full", "last", "single", "tokens"] | None = None,
    temperature: float = 1.0,
    max_tokens: int = 512,
    concurrency: int = 64,
    turn_timeout: float | None = None,
    parallel: bool = True,
    val: bool = False,
    root: Path = Path("runs"),
) -> int:
    """Play groups of text worlds, and write every trajectory down.

    Without a model, each world's own solver plays. With one:
    shoal rollout --env sokoban --groups 8 --group-size 4 --policy openai:http://localhost:8000/v1 --model NAME

    Args:
        env: the type of world (default: sokoban). `shoal.llm.REGISTERED_ENVS` has all of them.
        groups: how many tasks (default: 8).
        group_size: how often each task is played (default: 4).
        policy: solver; openai:URL for any server that speaks OpenAI's protocol; transformers:NAME for a local model;
            recorded:FILE for what another policy has said.
        model: what the server calls the model (default: the first that it has).
        tokenizer: name or folder of a tokenizer of the package transformers, so that tokens are written down, too.
        config: a YAML file with es_manager and custom_envs, instead of --env, --groups, --group-size and --env-config.
        env_config: fields of the world's config, such as num_boxes=1 search_depth=30.
        seed: group g plays the task of seed + g; and of sampling (default: what the config says, or 0).
        max_turns: of a trajectory.
        mode: whether a trajectory goes on when it can, or all take each turn together.
        window: how much of its conversation a player sees.
        temperature: of sampling.
        max_tokens: of an answer.
        concurrency: how many requests are under way at once.
        turn_timeout: seconds that an answer may take.
        parallel: whether worlds run in worker processes.
        val: play what the config has for validation.
        root: where the folder with all results goes.
    """
    settings = _settings(config, env, groups, group_size, env_config)
    _set(settings, "env", "max_steps", max_turns)
    if max_turns is not None:
        _set(settings, "agent_proxy", "max_turn", max_turns)
    _set(settings, "rollout", "mode", mode)
    _set(settings, "rollout", "turn_timeout", turn_timeout)
    _set(settings, "agent_proxy", "context_window_mode", window)
    seed = 0 if seed is None and config is None else seed
    if seed is not None:
        settings["seed"] = {"train": seed, "val": seed}
        _set(settings, "rollout", "seed", seed)
    settings["use_parallel_envs"] = parallel
    make_folder(root, "--root")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    chosen = policy_of(policy, model=model, temperature=temperature, max_tokens=max_tokens, concurrency=concurrency)
    with LLMAgentProxy(settings, chosen, tokenizer_of(tokenizer, chosen)) as agent:
        told = {"rollout": {"policy": policy, "model": model, "temperature": temperature, "max_tokens": max_tokens}}
        folder = RunFolder.create(root, _name(settings), "rollout", seed, {**settings, **_merged(settings, told)})
        watch = Watch(folder.path / TRAJECTORIES, agent, val=val)
        agent.traj_collector.watcher = Watcher(watch.on_turn, watch.on_end)
        try:
            with Live(watch, console=console, refresh_per_second=4, transient=True, auto_refresh=console.is_terminal):
                data = agent.rollout(val=val)
        except BaseException:
            folder.withdraw()  # unless a trajectory is over
            raise
    write_parquet(folder.path / TABLE, data.records)
    results = {name: data.meta_info[name] for name in ("metrics", "waste", "drift", "rounds", "uninformative_groups")}
    write_new(folder.path / METRICS, f"{json.dumps(results, indent=2)}\n".encode())
    _report(console, data, watch, folder.path)
    return 0


class Watch:
    """What has happened so far: as it is shown, and as it is written down."""

    def __init__(self, path: Path, agent: LLMAgentProxy, *, val: bool) -> None:
        self._path, self._began = path, time.monotonic()
        envs = agent.managers[1 if val else 0].envs
        self.expected = envs.env_num * envs.group_n
        self.turns = 0
        self.statuses: Counter[str] = Counter()
        self.successes = 0

    def on_turn(self, record: TrajectoryRecord) -> None:
        """A turn has been answered."""
        self.turns += 1

    def on_end(self, record: TrajectoryRecord) -> None:
        """A trajectory is over: it is on the disk from now on."""
        append_records(self._path, [record])
        self.statuses[record.status.value] += 1
        self.successes += record.success

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def __rich__(self) -> Group:
        done = self.statuses.total()
        return Group(
            Text(f"{done} of {self.expected} trajectories, {self.successes} succeeded"),
            Text(f"{self.turns} turns, {self.turns / max(self.seconds, 1e-9):.0f} a second"),
            Text(", ".join(f"{name}: {count}" for name, count in sorted(self.statuses.items())), style="dim"),
        )


def _report(console: Console, data: RolloutBatch, watch: Watch, path: Path) -> None:
    metrics = data.meta_info["metrics"]
    table = Table("", *metrics, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name in next(iter(metrics.values())):
        table.add_row(name, *(_shown(values[name]) for values in metrics.values()))
    console.print(table)
    errors = Counter(f"{one.status.value}: {last_line(one.error)}" for one in data.records if one.has_failed)
    for error, count in errors.most_common(3):
        console.print(f"{count} failed, {error}")
    waste = data.meta_info["waste"]
    if waste["trajectories"]:
        console.print(f"beside these: {waste['trajectories']} trajectories of no use, with {waste['turns']} turns")
    rate = watch.turns / max(watch.seconds, 1e-9)
    console.print(f"{watch.turns} turns in {watch.seconds:.1f} s, {rate:.0f} a second. Everything is in {path}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in sorted(value.items()))
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _settings(
    path: Path | None, env: str | None, groups: int | None, group_size: int | None, env_config: tuple[str, ...]
) -> dict[str, Any]:
    if path is not None:
        given = {"--env": env, "--groups": groups, "--group-size": group_size, "--env-config": env_config or None}
        if both := [name for name, value in given.items() if value is not None]:
            raise ConfigurationError(f"--config says what is played: leave out {', '.join(both)}")
        settings = Settings.of(path)
        return {name: plain(settings.get(name)) for name in settings}
    name, groups, group_size = env or "sokoban", groups or 8, group_size or 4
    crew = {"env_groups": groups, "group_size": group_size, "env_configs": {"tags": [name], "n_groups": [groups]}}
    one = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": [name], "n_groups": [1]}}
    world = {"env_type": name, "env_config": dict(_field(text) for text in env_config)}
    return {"es_manager": {"train": crew, "val": one}, "custom_envs": {name: world}}


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"--env-config takes NAME=VALUE, got {text!r}")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"--env-config: the value of {name} cannot be read: {error}") from error


def _set(settings: dict[str, Any], section: str, name: str, value: Any) -> None:
    if value is not None:
        settings[section] = {**(settings.get(section) or {}), name: value}


def _merged(settings: dict[str, Any], more: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: {**(settings.get(name) or {}), **values} for name, values in more.items()}


def _name(settings: dict[str, Any]) -> str:
    return "-".join(settings.get("custom_envs") or ["rollout"])
