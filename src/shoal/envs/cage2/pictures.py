"""A game to look at: as a table, and as a picture of the network."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.envs.cage2.blue import ACTION_NAMES
from shoal.envs.cage2.network import DECOYS, HOSTS, Subnet
from shoal.envs.cage2.sight import ATTACKED, SCANNED
from shoal.envs.cage2.true_state import red_action_of, true_states_of
from shoal.vector.errors import ConfigurationError
from shoal.vector.layout import Array

ACCESS = ("-", "user", "admin")
BELIEFS = ("-", "unknown", "user", "privileged")
ACTIVITIES = {SCANNED: "scan", ATTACKED: "exploit"}
SUCCESS = {1: "", 0: ", which failed", -1: ""}


def as_text(row: Any) -> str:
    """A line for every host."""
    state = _state(row)
    lines = [_headline(state), f"{'subnet':12} {'host':12} {'Red has':8} {'Blue believes':14} {'Blue saw':9} decoys"]
    for number, host in enumerate(HOSTS):
        lines.append(
            f"{host.subnet.name.capitalize():12} {host.name:12} {ACCESS[state['access'][number]]:8} "
            f"{BELIEFS[row.believed[number]]:14} {ACTIVITIES.get(int(row.activity[number]), '-'):9} "
            f"{', '.join(_decoys(state, number)) or '-'}"
        )
    lines.append(f"OTService {'runs' if state['ot_service'] else 'is stopped'}")
    return "\n".join(lines)


def as_picture(row: Any) -> Array:
    """The subnets side by side: a box for every host, coloured by what Red has there, framed by what Blue believes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the picture of a game needs matplotlib: pip install 'shoal[profile]'. (render_mode='ansi' needs nothing.)"
        ) from error
    state = _state(row)
    figure = Figure(figsize=(9, 5.4), dpi=100)
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 9), ylim=(0, 5.4))
    axes.axis("off")
    axes.text(0.3, 5.05, _headline(state), fontsize=9.5, va="center", color="#222222")
    for column, subnet in enumerate((Subnet.USER, Subnet.ENTERPRISE, Subnet.OPERATIONAL)):
        left = 0.3 + 2.9 * column
        numbers = [number for number, host in enumerate(HOSTS) if host.subnet is subnet]
        _box(axes, left, 0.55, 2.6, 4.2, "#f4f6f8", "#c6ced6", 1.0)
        axes.text(left + 0.12, 4.56, subnet.name.capitalize(), fontsize=10, weight="bold", va="center", color="#44505c")
        for place, number in enumerate(numbers):
            _draw_host(axes, left + 0.12, 3.75 - 0.77 * place, row, state, number)
    _draw_key(axes, bool(state["ot_service"]))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


_FILL = ("#ffffff", "#ffd89b", "#f28b82")
_FRAME = ("#9aa5b1", "#8e6fc1", "#e69500", "#c5221f")


def _draw_host(axes: Any, left: float, bottom: float, row: Any, state: Any, number: int) -> None:
    access, belief = int(state["access"][number]), int(row.believed[number])
    _box(axes, left, bottom, 2.36, 0.66, _FILL[access], _FRAME[belief], 2.4 if belief else 1.0)
    axes.text(left + 0.1, bottom + 0.46, HOSTS[number].name, fontsize=9, va="center", color="#222222")
    activity = ACTIVITIES.get(int(row.activity[number]))
    if activity is not None:
        colour = "#c5221f" if activity == "exploit" else "#1a73e8"
        axes.text(
            left + 2.26, bottom + 0.46, activity, fontsize=8, weight="bold", va="center", ha="right", color=colour
        )
    note = ", ".join(_decoys(state, number))
    if note:
        axes.text(left + 0.1, bottom + 0.17, note, fontsize=6.5, va="center", color="#1e6b3a")


def _draw_key(axes: Any, service_runs: bool) -> None:
    left = 0.3
    for colour, text in zip(_FILL, ("Red has nothing", "a user's session", "full control"), strict=True):
        _box(axes, left, 0.2, 0.22, 0.16, colour, "#9aa5b1", 0.8)
        axes.text(left + 0.3, 0.28, text, fontsize=7.5, va="center", color="#44505c")
        left += 1.28
    left += 0.1
    for colour, text in zip(_FRAME[1:], ("Blue believes: unknown", "user", "privileged"), strict=True):
        axes.plot((left, left + 0.22), (0.28, 0.28), color=colour, linewidth=2.4)
        axes.text(left + 0.3, 0.28, text, fontsize=7.5, va="center", color="#44505c")
        left += 1.62 if "Blue" in text else 0.75
    colour, text = ("#1e6b3a", "OTService runs") if service_runs else ("#c5221f", "OTService is stopped")
    axes.text(8.7, 0.28, text, fontsize=8, weight="bold", va="center", ha="right", color=colour)


def _box(
    axes: Any, left: float, bottom: float, width: float, height: float, fill: str, frame: str, line: float
) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = "round,pad=0,rounding_size=0.06"
    axes.add_patch(
        FancyBboxPatch((left, bottom), width, height, boxstyle=shape, facecolor=fill, edgecolor=frame, linewidth=line)
    )


def _state(row: Any) -> Any:
    return true_states_of(np.array([row], row.dtype).view(np.recarray))[0]


def _headline(state: Any) -> str:
    if not state["step"]:
        return "before the first step"
    blue = f"Blue: {ACTION_NAMES[state['blue_action']]}{SUCCESS[int(state['blue_success'])]}"
    red = f"Red: {red_action_of(state)}{SUCCESS[int(state['red_success'])]}"
    return f"step {state['step']}   {blue}   {red}"


def _decoys(state: Any, number: int) -> list[str]:
    return [decoy.name for decoy, is_up in zip(DECOYS, state["decoys"][number], strict=True) if is_up]
