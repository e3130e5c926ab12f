"""Programs in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run_script(code: str, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, as a user would."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, **keywords,
    )  # fmt: skip


def start_script(path: Path, code: str) -> subprocess.Popen[str]:
    path.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
