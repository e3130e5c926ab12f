"""What ``shoal.testing`` offers."""

from __future__ import annotations

import subprocess
import sys

import shoal.testing


def test_all_names_what_is_there_in_order() -> None:
    names = shoal.testing.__all__
    assert sorted(names) == names
    assert all(hasattr(shoal.testing, name) for name in names)


def test_no_test_framework_is_imported() -> None:
    code = "import sys, shoal.testing; assert not {'pytest', 'hypothesis', 'rich', 'tyro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
