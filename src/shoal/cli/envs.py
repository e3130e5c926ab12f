"""``shoal envs``: which environments there are."""

from __future__ import annotations

from typing import Annotated

import gymnasium
import tyro
from rich.console import Console
from rich.table import Table


def envs(contains: Annotated[str, tyro.conf.Positional] = "") -> None:
    """List the environments that Gymnasium knows here.

    Args:
        contains: show only ids with this text in them; case does not matter.
    """
    console = Console()
    table = Table("id", "episode limit", "made by", title="Registered environments", title_justify="left")
    table.columns[0].no_wrap, table.columns[0].overflow = True, "ignore"  # half of an id is of no use
    table.columns[2].overflow = "ellipsis"
    specs = [
        spec for env_id, spec in gymnasium.registry.items() if contains.lower() in env_id.lower() and spec.entry_point
    ]
    for spec in sorted(specs, key=lambda spec: spec.id):
        entry = spec.entry_point if isinstance(spec.entry_point, str) else repr(spec.entry_point)
        limit = str(spec.max_episode_steps) if spec.max_episode_steps else "none"
        table.add_row(spec.id, limit, entry)
    if not specs:
        console.print(f"No registered environment has {contains!r} in its id. `shoal envs` lists them all.")
        return
    console.print(table)
    console.print('Any of them: [bold]shoal.make("ID", num_envs=...)[/bold]. Your own: pass a callable that makes it.')
