"""With the random outcomes of the real simulator, our rules come to the same in every step of every recorded episode."""

from __future__ import annotations

import numpy as np
import pytest

from tests.worlds.cage2.recordings import Recording, differences, recordings, replayed

NAMES = sorted(recordings())


def test_the_recordings_are_all_there() -> None:
    assert len(NAMES) == 19
    assert sum(recording.arrays["act"].size for recording in recordings().values()) == 68_950


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_that_of_the_real_simulator(name: str) -> None:
    """Observation, reward, what everybody did, whether it was a success, Red's sessions, and whether the service runs."""
    assert differences(recordings()[name]) == []


@pytest.mark.parametrize("name", NAMES)
def test_who_has_access_follows_from_sessions(name: str) -> None:
    recording = recordings()[name]
    sessions = replayed(recording)["sessions"]
    access = np.where(sessions[..., 0] > 0, 2, sessions.any(axis=-1))
    assert (access == recording.arrays["access"]).all()


@pytest.mark.parametrize(
    ("array", "where", "value"),
    [("act", (3, 10), 139), ("red_target", (3, 2), 12), ("red_exploit", (3, 3), 7), ("detected", (3, 3), 0)],
)
def test_one_outcome_that_is_another_is_noticed(array: str, where: tuple[int, int], value: int) -> None:
    """Or the other tests would show nothing."""
    original = recordings()["bline_decoyish_60"]
    changed = {name: values.copy() for name, values in original.arrays.items()}
    changed[array][where] = value if changed[array][where] != value else value - 1
    found = differences(Recording(original.name, changed))
    assert any("differences" in line for line in found)


@pytest.mark.parametrize(
    "quirk",
    [
        "restore_protects_op_server",
        "vsftpd_opens_http",
        "user3_sql_on_rdp_port",
        "enterprise_smb_is_nameless",
        "defender_has_no_account",
        "blind_scan_succeeds",
        "analyse_sees_files_only",
        "exploit_hides_privileged",
        "remove_leaves_files",
        "restore_breaks_smtp",
    ],
)
def test_every_quirk_shows_in_the_recordings(quirk: str) -> None:
    """Switched over, it contradicts the real simulator. (One of them only changes what is likely.)"""
    is_default = quirk != "restore_breaks_smtp"
    names = ["bline_random_100", "meander_random_100", "bline_decoyish_60", "meander_decoyish_60"]
    assert any(differences(recordings()[name], quirks={quirk: not is_default}) for name in names)
