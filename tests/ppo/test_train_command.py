"""What is said to ``shoal train``, and what it takes that for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.main import main
from shoal.ppo.config import PPOConfig
from shoal.runs import Checkpoints, RunFolder

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("here")


def settings(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """Those that would be used."""
    assert main(["train", *arguments, "--dry-run"]) == 0
    values: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return values


def complaint(capsys: Capture, *arguments: str) -> str:
    """What is said instead, in one line."""
    assert main(["train", *arguments]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    return said.removeprefix("error: ")


def begun_run(**values: Any) -> Path:
    """A run that has its settings, and nothing else yet."""
    config = PPOConfig.of({"total_steps": 100, "n_envs": 4, "torch_threads": 1, **values})
    return RunFolder.create_at("run", config.model_dump(mode="json")).path


# -- None, and words ---------------------------------------------------------------------------------------------------


def test_none_can_be_said(capsys: Capture) -> None:
    Path("mine.yaml").write_text("value_clip: 0.2\nnum_workers: 3\neval_every: 5\n")
    said = settings(capsys, "--config", "mine.yaml", "--value-clip", "None", "--num-workers", "None")
    assert (said["value_clip"], said["num_workers"], said["eval_every"]) == (None, None, 5)


def test_no_number_of_episodes_leaves_the_steps_of_a_preset(capsys: Capture) -> None:
    said = settings(capsys, "--env", "shoal/CartPole-v0", "--num-episodes", "None")
    assert (said["num_episodes"], said["total_steps"]) == (None, 300_000)


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("name", ["normalise_advantages", "normalise_rewards", "overlap"])
def test_a_flag_alone_means_yes_and_no_can_be_said_too(name: str, in_file: bool, capsys: Capture) -> None:
    Path("mine.yaml").write_text(f"{name}: {in_file}\n")
    flag = name.replace("_", "-")
    assert settings(capsys, "--config", "mine.yaml", f"--{flag}")[name] is True
    assert settings(capsys, "--config", "mine.yaml", f"--no-{flag}")[name] is False
    assert settings(capsys, "--config", "mine.yaml")[name] is in_file, "left out, the file decides"


def test_a_flag_that_is_left_out_leaves_it_to_the_preset(capsys: Capture) -> None:
    assert settings(capsys, "--env", "shoal/Cage2-v0")["normalise_rewards"] is True
    assert settings(capsys, "--env", "shoal/Cage2-v0", "--no-normalise-rewards")["normalise_rewards"] is False


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["--device", "cudda"], "cuda"),
        (["--device", "GPU"], "cuda"),
        (["--backend", "shmm"], "shm"),
        (["--activation", "relo"], "relu"),
        (["--parallel-start-method", "forkservr"], "forkserver"),
        (["--n-envs", "aut"], "auto"),
        (["--display", "ritch"], "rich"),
        (["--config", "wrong.yaml"], "linear"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_nearest_word_is_suggested(arguments: list[str], nearest: str, capsys: Capture) -> None:
    Path("wrong.yaml").write_text("learning_rate_schedule: linaer\n")
    assert complaint(capsys, *arguments).endswith(f". Did you mean '{nearest}'?")
    assert not Path("runs").exists()


def test_a_word_that_is_near_to_none_is_met_with_all_of_them(capsys: Capture) -> None:
    assert complaint(capsys, "--device", "tpu9") == "device: input should be 'cpu', 'cuda' or 'mps' (got 'tpu9')"


def test_several_mistakes_are_all_named(capsys: Capture) -> None:
    assert complaint(capsys, "--backend", "shmm", "--epochs", "0") == (
        "backend: input should be 'auto', 'serial', 'threads', 'pipes' or 'shm' (got 'shmm'); "
        "epochs: input should be greater than or equal to 1 (got 0). Did you mean 'shm'?"
    )


@pytest.mark.parametrize(("verb", "hint"), [
    ("trian", "Did you mean 'train'?"),
    ("blurb", "There are envs, bench, demo, check, profile, rollout, train, train-meta, eval."),
])  # fmt: skip
def test_a_verb_that_does_not_exist_is_met_with_those_that_do(verb: str, hint: str, capsys: Capture) -> None:
    assert main([verb]) == 2
    assert capsys.readouterr().err == f"error: there is no verb '{verb}'. {hint}\n"


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "folder"], "folder cannot be read: Is a directory"),
        (["--config", "list.yaml"], "env: input should be a valid string (got ['a'])"),
        (["--config", "null.yaml"], "env_kwargs must hold 'name: value' pairs, got None"),
        (["--config", "null.yaml", "--env-kwargs", "a", "1"], "env_kwargs must hold 'name: value' pairs, got None"),
        (["--config", "number.yaml"], "there is no setting 1. There are activation, "),
        (["--config", "date.yaml"], "date.yaml is no YAML: month must be in 1..12"),
        (["--env-kwargs", "a", "{b: 1, b: 2}"], "is no YAML: line 1: 'b' stands there twice: remove one of them"),
        (["--total-steps", "1.5e0"], "total_steps: input should be a valid integer, unable to parse"),
        (["--total-steps", "1e999"], "total_steps: input should be a valid integer, unable to parse"),
        (["--config", "latin.yaml"], "latin.yaml is no YAML: 'utf-8' codec can't decode"),
        (["--env-kwargs", "a", "[1"], "--env-kwargs a: '[1' is no YAML: line 1: expected ',' or ']', but got '<stream end>'"),
        (["--env-kwargs", "a", "2026-13-01"], "--env-kwargs a: '2026-13-01' is no YAML: month must be in 1..12"),
        (["--seed", "99999999999999999999999"], "seed: input should be less than 2147483648 (got 99999999999999999999999)"),
        (["--seed", "2147483648"], "seed: input should be less than 2147483648 (got 2147483648)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_ordinary_mistakes_are_met_with_one_sentence(arguments: list[str], message: str, capsys: Capture) -> None:
    Path("folder").mkdir()
    Path("list.yaml").write_text("env: [a]\n")
    Path("null.yaml").write_text("env_kwargs: null\n")
    Path("number.yaml").write_text("1: 2\n")
    Path("date.yaml").write_text("seed: 2026-13-01\n")
    Path("latin.yaml").write_bytes("env: é\n".encode("latin-1"))
    said = complaint(capsys, *arguments)
    assert message in said
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nenv: [a\n", "mine.yaml is no YAML: line 3: expected ',' or ']', but got '<stream end>'"),
        ("env: a\a\n", "mine.yaml is no YAML: unacceptable character #x0007: special characters are not allowed in "),
        ("gamma: 0.9\nseed: 1\ngamma: 0.8\n", "mine.yaml is no YAML: line 3: 'gamma' stands there twice: remove one of them"),
        ("env_kwargs:\n  a: 1\n  a: 1\n", "mine.yaml is no YAML: line 3: 'a' stands there twice: remove one of them"),
        ("checkpoint_dir: foo\n", ("mine.yaml has checkpoint_dir, which is no setting of a file: it is given on the command "
         "line only, as --checkpoint-dir")),
        ("dry-run: true\n", ("mine.yaml has dry-run, which is no setting of a file: it is given on the command line only, as "
         "--dry-run")),
        ("n_envs: true\n", "n_envs: input should be a number, and not true or false (got True)"),
        ("n_envs: 2\nlearning_rate: off\n", "learning_rate: input should be a number, and not true or false (got False)"),
        ("hidden_sizes: [8, true]\n", "hidden_sizes: input should be a number, and not true or false (got [8, True])"),
        ("total_steps: 1.5e0\n", ("total_steps: input should be a valid integer, unable to parse string as an integer (got "
         "'1.5e0')")),
    ],
    ids=lambda value: value.partition(":")[0] if ":" in value else "",
)  # fmt: skip
def test_mistakes_in_a_file_are_met_with_one_sentence(text: str, message: str, capsys: Capture) -> None:
    Path("mine.yaml").write_text(text)
    assert complaint(capsys, "--config", "mine.yaml").startswith(message)


def test_whole_numbers_can_be_written_as_people_write_large_ones(capsys: Capture) -> None:
    flags = ["--total-steps", "1e6", "--seed", "1e3", "--n-envs", "2e1", "--num-workers", "2e0"]
    said = settings(capsys, *flags)
    assert [said[name] for name in ("total_steps", "seed", "n_envs", "num_workers")] == [1_000_000, 1000, 20, 2]
    Path("mine.yaml").write_text("total_steps: 1e3\nseed: 2e+1\nn_envs: 1e1\nhidden_sizes: [1e1, 8]\n")
    said = settings(capsys, "--config", "mine.yaml")
    assert [said[name] for name in ("total_steps", "seed", "n_envs", "hidden_sizes")] == [1000, 20, 10, [10, 8]]


def test_a_file_may_refer_to_what_it_has_said_before(capsys: Capture) -> None:
    Path("mine.yaml").write_text(
        "env_kwargs: {one: &one {a: 1, b: 2}, two: &two {<<: *one, a: 3}, three: {<<: *two}}\n"
    )
    assert settings(capsys, "--config", "mine.yaml")["env_kwargs"] == {
        "one": {"a": 1, "b": 2}, "two": {"a": 3, "b": 2}, "three": {"a": 3, "b": 2},
    }  # fmt: skip


def test_the_largest_seed_trains_and_evaluates(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("shoal.runs.training.loop.draw_learning_curve", lambda *_: None)
    quick = ["--total-steps", "20", "--rollout-steps", "10", "--eval-every", "1", "--eval-episodes", "1"]
    assert main(["train", "--seed", str(2**31 - 1), "--n-envs", "2", *quick, "--display", "none"]) == 0


# -- what would be used ------------------------------------------------------------------------------------------------


def test_what_a_dry_run_prints_is_a_file_that_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = "[bold]a word[/bold] in brackets, é, and " + "very " * 40 + "long: # 'so'"
    Path("mine.yaml").write_text(yaml.safe_dump({"env_kwargs": {"text": text, "path": "x" * 200}}))
    assert main(["train", "--config", "mine.yaml", "--seed", "3", "--dry-run"]) == 0
    Path("printed.yaml").write_text(printed := capsys.readouterr().out)
    assert yaml.safe_load(printed)["env_kwargs"] == {"text": text, "path": "x" * 200}
    assert main(["train", "--config", "printed.yaml", "--dry-run"]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("env", ["CartPol-v1", "tests.ppo.envs:Aimm"])
def test_a_dry_run_notices_that_there_is_no_such_environment(env: str, capsys: Capture) -> None:
    expected = complaint(capsys, "--env", env)
    assert "Did you mean" in expected
    assert complaint(capsys, "--env", env, "--dry-run") == expected


def test_what_an_environment_is_made_with_is_merged_from_flags_file_and_preset(capsys: Capture) -> None:
    Path("mine.yaml").write_text("env: shoal/Cage2-v0\nenv_kwargs: {red: B_line, max_steps: 50}\n")
    flags = ["--config", "mine.yaml", "--env-kwargs", "max_steps", "30"]
    from_preset = {"actions": "reduced", "scan_memory": True}
    assert settings(capsys, *flags[:2])["env_kwargs"] == {**from_preset, "red": "B_line", "max_steps": 50}
    assert settings(capsys, *flags)["env_kwargs"] == {**from_preset, "red": "B_line", "max_steps": 30}
    Path("mine.yaml").write_text("env: shoal/Cage2-v0\nenv_kwargs: {scan_memory: false}\n")
    assert settings(capsys, *flags[:2])["env_kwargs"] == {**from_preset, "scan_memory": False}


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["", "dry"])
@pytest.mark.parametrize(
    ("flag", "values"),
    [("--config", ["mine.yaml"]), ("--env-kwargs", ["a", "1"]), ("--checkpoint-dir", ["other"])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_resumed_run_would_ignore_is_refused(
    flag: str, values: list[str], dry_run: list[str], capsys: Capture
) -> None:
    assert complaint(capsys, "--resume", str(begun_run()), flag, *values, *dry_run) == (
        f"{flag} cannot be given together with --resume: a run goes on with its own settings, in its own folder"
    )


SAME = ["--env", "CartPole-v1", "--hidden-sizes", "8", "8", "--learning-rate", "3e-4", "--seed", "0"]
DECIDED = ["--n-envs", "auto", "--torch-threads", "None"]


def test_what_is_so_already_can_be_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.runs.training.loop.draw_learning_curve", lambda *_: None)
    where = ["--backend", "serial", "--rollout-steps", "10", "--display", "none"]
    begin = [*where, "--n-envs", "4", "--torch-threads", "1", "--total-steps", "40", "--checkpoint-dir", "run"]
    assert main(["train", *SAME, *begin]) == 0
    assert main(["train", *SAME, *DECIDED, *where, "--resume", "run", "--total-steps", "80"]) == 0
    assert Checkpoints("run").steps[-1] >= 80


def test_only_what_differs_is_complained_about(capsys: Capture) -> None:
    run = begun_run(hidden_sizes=(8, 8))
    for dry_run in ([], ["--dry-run"]):
        said = complaint(capsys, "--resume", str(run), *SAME, *DECIDED, "--gamma", "0.5", *dry_run)
        assert said.startswith("gamma cannot be changed when a run is resumed")


def test_a_dry_run_prints_what_a_run_would_go_on_with(capsys: Capture) -> None:
    run = begun_run(gamma=0.5, env_kwargs={"render_mode": None})
    before = yaml.safe_load((run / "config.yaml").read_text())
    assert settings(capsys, "--resume", str(run)) == before
    assert settings(capsys, "--resume", str(run), "--total-steps", "9999", "--backend", "shm") == {
        **before, "total_steps": 9999, "backend": "shm",
    }  # fmt: skip
    assert yaml.safe_load((run / "config.yaml").read_text()) == before, "nothing was written"


def test_a_dry_run_of_no_run_is_explained(capsys: Capture) -> None:
    assert complaint(capsys, "--resume", "nowhere", "--dry-run") == (
        "nowhere is not the folder of a run: there is nothing at this path."
    )
