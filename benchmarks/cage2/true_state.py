"""What the stand-in says when it is asked for the true state: nested dictionaries, as large as CybORG's when pickled."""

from __future__ import annotations

from typing import Any

HOSTS = (
    *(f"User{number}" for number in range(5)),
    *(f"Enterprise{number}" for number in range(3)),
    *(f"Op_Host{number}" for number in range(3)),
    "Op_Server0",
    "Defender",
)
_PROCESSES, _SESSIONS, _USERS = 11, 2, 3


def true_state_at(step: int) -> dict[str, Any]:
    """All of it is made anew, as the simulator does: nothing of the last answer can be used again, or be pickled once."""
    hosts = {name: _host(name, number, step) for number, name in enumerate(HOSTS)}
    return {"success": step % 2 == 0, "step": step, **hosts}


def _host(name: str, number: int, step: int) -> dict[str, Any]:
    return {
        "System info": {"Hostname": name, "OSType": "LINUX", "Version": f"U{18 + number}.04.{step % 4}"},
        "Interface": [{"Interface Name": f"eth{number}", "IP Address": f"10.0.{number}.{step % 250}"}],
        "Processes": [_process(number, index, step) for index in range(_PROCESSES)],
        "Sessions": [{"Username": f"user{index}", "ID": step + index, "Agent": "Red"} for index in range(_SESSIONS)],
        "User Info": [{"Username": f"user{index}", "UID": 1000 + step + index} for index in range(_USERS)],
    }


def _process(number: int, index: int, step: int) -> dict[str, Any]:
    return {
        "PID": 4000 + 100 * number + index,
        "Process Name": f"service{index}.exe",
        "Username": f"account{index}",
        "Connections": [{"local_port": 1024 + step + index, "local_address": f"10.0.{number}.{index}"}],
    }
