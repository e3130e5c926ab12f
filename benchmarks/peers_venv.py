"""A virtual environment of their own for the peers, made on first use and reused afterwards.

    any python ──ensure()──▶ benchmarks/.venv (peers, Shoal) ──run_inside()──▶ the same module

Only the standard library is imported here, because this runs before anything is installed.
A peer that cannot be installed is no error: the reason is kept and the benchmark reports it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
VENV = HERE / ".venv"
STAMP = VENV / "peers.json"
REQUIREMENTS = HERE / "requirements.txt"
PUFFERLIB_REQUIREMENTS = HERE / "requirements-pufferlib.txt"


@dataclass(frozen=True)
class Stamp:
    """What the environment holds; it is up to date when the fingerprints still match."""

    peers: str = ""
    project: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    """Why a distribution could not be installed, by its name."""


def run_inside(module: str, arguments: Sequence[str]) -> None:
    """Bring the environment up to date, and go on in it: returns only when already inside."""
    ensure()
    if not _is_inside():
        _execute(module, arguments)


def ensure() -> None:
    """Create the environment, and install what changed since it was last brought up to date."""
    found = _read_stamp()
    peers, project = _peers_fingerprint(), _project_fingerprint()
    problems = dict(found.problems)
    if found.peers != peers:
        print("benchmarks: installing the peers into benchmarks/.venv (a few minutes, once)")
        if not _python().exists():
            venv.create(VENV, with_pip=True)
        problems = _install_peers()
    if found.peers != peers or found.project != project:
        problems.pop("shoal", None)
        if project:
            reason = _pip("--constraint", str(REQUIREMENTS), "--editable", f"{PROJECT}[native,train]")
        else:
            reason = "the project has no pyproject.toml"
        if reason is not None:
            problems["shoal"] = reason
    stamp = Stamp(peers, project, problems)
    STAMP.write_text(json.dumps(dataclasses.asdict(stamp), indent=2) + "\n")


def installation_problems() -> dict[str, str]:
    """Why a distribution is missing, by its name."""
    return dict(_read_stamp().problems)


def _install_peers() -> dict[str, str]:
    """Install one requirement at a time, so that one peer's failure costs no other."""
    problems = {}
    # PufferLib and gym build from source, and PufferLib's build looks at the installed torch.
    _pip("--upgrade", "pip", "setuptools", "wheel")
    for requirement in _lines(REQUIREMENTS):
        reason = _pip("--constraint", str(REQUIREMENTS), requirement)
        if reason is not None:
            problems[_distribution(requirement)] = reason
    with tempfile.TemporaryDirectory() as customization:
        variables = _pufferlib_build_variables(Path(customization))
        for requirement in _lines(PUFFERLIB_REQUIREMENTS):
            reason = _pip("--no-deps", "--no-build-isolation", requirement, variables=variables)
            if reason is not None:
                problems[_distribution(requirement)] = reason
    return problems


def _pufferlib_build_variables(customization: Path) -> dict[str, str]:
    """Build only PufferLib's Python part, which holds the vector module measured here.

    A full build downloads a graphics library and compiles PufferLib's own games. Its setup.py has a
    switch against that (NO_OCEAN), but then reads a name that only the other branch defines, so the
    name is supplied from outside.
    """
    (customization / "sitecustomize.py").write_text("import builtins\n\nbuiltins.c_extension_paths = []\n")
    return {"NO_OCEAN": "1", "NO_TRAIN": "1", "PYTHONPATH": str(customization)}


def _pip(*arguments: str, variables: Mapping[str, str] | None = None) -> str | None:
    """Run ``pip install``; return None on success, else the reason in one line."""
    command = [str(_python()), "-m", "pip", "install", "--quiet", *arguments]
    environment = {**os.environ, **(variables or {})}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode == 0:
        return None
    lines = [line.strip() for line in outcome.stderr.splitlines() if line.strip()]
    # The last line is pip's advice; the exception of a failed build stands above it.
    errors = [line for line in lines if "Error" in line or line.startswith("ERROR")]
    reason = (errors or lines or [f"pip ended with code {outcome.returncode}"])[-1]
    print(f"benchmarks: {Path(arguments[-1]).name} was not installed: {reason}", file=sys.stderr)
    return reason


def _execute(module: str, arguments: Sequence[str]) -> NoReturn:
    python = str(_python())
    sys.stdout.flush()
    os.execv(python, [python, "-m", module, *arguments])


def _is_inside() -> bool:
    return Path(sys.prefix).resolve() == VENV.resolve()


def _python() -> Path:
    folder = "Scripts" if sys.platform == "win32" else "bin"
    return VENV / folder / "python"


def _read_stamp() -> Stamp:
    try:
        return Stamp(**json.loads(STAMP.read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return Stamp()


def _peers_fingerprint() -> str:
    # The installed interpreter and this recipe count too: either one changes what is installed.
    parts = [REQUIREMENTS, PUFFERLIB_REQUIREMENTS, Path(__file__)]
    content = b"\0".join(part.read_bytes() for part in parts)
    return hashlib.sha256(content + sys.version.encode()).hexdigest()


def _project_fingerprint() -> str:
    """Empty when there is no project to install yet."""
    description = PROJECT / "pyproject.toml"
    return hashlib.sha256(description.read_bytes()).hexdigest() if description.exists() else ""


def _lines(requirements: Path) -> list[str]:
    lines = (line.strip() for line in requirements.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _distribution(requirement: str) -> str:
    return requirement.partition("==")[0]
