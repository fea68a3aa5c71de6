"""Draw executors with their renders, and the number of renders that have left the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from situate.cli.demo.drawing import plain_table
from situate.cli.demo.sharding.scene import DemoRender, ShardScene

_STATE_STYLES: Final = {"starts": "dim", "runs": "green", "drains": "yellow", "ends": "yellow", "killed": "bold red"}


def draw_scene(scene: ShardScene) -> list[RenderableType]:
    """Draw a line for each executor, a block for each render, and a legend."""
    table = plain_table("executor", "revision", "state", "renders")
    for each in scene.executors:
        state = Text(each.state, style=_STATE_STYLES.get(each.state, ""))
        table.add_row(each.name, each.revision, state, _blocks(scene.renders_on(each.name)))
    known = {each.name for each in scene.executors}
    others = sorted({each.executor for each in scene.renders if each.executor and not each.done} - known)
    for name in others:
        table.add_row(name, "", Text("gone", style="bold red"), _blocks(scene.renders_on(name)))
    if waiting := scene.renders_on(""):
        table.add_row("-", "", Text("waiting", style="yellow"), _blocks(waiting))
    legend = Text.assemble(("■", "cyan"), " runs until released  ", ("■", "green"), " short  ", "□ not started")
    told = (
        f"{scene.created_count} created, {len(scene.renders)} in the cluster, {scene.departed_count} moved to the "
        "archive"
    )
    return [table, Text(), Text(told), legend]


def _blocks(renders: Sequence[DemoRender]) -> Text:
    bar = Text()
    for each in renders:
        bar.append("■" if each.in_progress else "□", style="cyan" if each.held else "green")
    return bar
