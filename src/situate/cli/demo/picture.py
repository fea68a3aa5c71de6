"""Draws a scene for a terminal: a line a pod, a block a vreplica, coloured by source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from situate.cli.demo import shard_picture, spot_picture, vm_picture
from situate.cli.demo.scene import DemoPod, DemoSource, Scene
from situate.cli.demo.shard_scene import ShardScene
from situate.cli.demo.spot_scene import SpotScene
from situate.cli.demo.vm_scene import VmScene

Seen: TypeAlias = Scene | SpotScene | ShardScene | VmScene
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")
_FULL, _FREE = "■", "·"
_SHOWN = 3
"""Waiting pods that are named."""
_STATE_STYLES = {"Running": "green", "Pending": "yellow", "Terminating": "red", "node lost": "bold red"}


def picture(scene: Seen | None, title: str, caption: str, done: Sequence[str], hints: Sequence[str]) -> RenderableType:
    """The whole screen: chapters that are over, the one that plays, what there is to be seen, how to join in."""
    past = [Text.assemble(("✓ ", "green"), outcome) for outcome in done]
    present = Text.assemble((title, "bold"), "  ", caption)
    parts: list[RenderableType] = [*past, present, Text()]
    match scene:
        case SpotScene():
            parts += spot_picture.drawn(scene)
        case ShardScene():
            parts += shard_picture.drawn(scene)
        case VmScene():
            parts += vm_picture.drawn(scene)
        case Scene():
            parts += _drawn(scene)
    parts += [Text(hint, style="dim") for hint in hints]
    return Panel(Group(*parts), title="situate", border_style="dim")


def _drawn(scene: Scene) -> list[RenderableType]:
    """The pods, the sources, who leads."""
    colours = _colours(scene.sources)
    parts: list[RenderableType] = [_tasks(scene), Text()] if scene.tasks else []
    return [
        *parts,
        _pods(scene, colours),
        Text(),
        _sources(scene, colours),
        Text(f"leader: {scene.leader or 'nobody'}"),
    ]


def _pods(scene: Scene, colours: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("pod", "node", "state", f"vreplicas (of {scene.capacity})"):
        table.add_column(column, header_style="dim")
    for pod in scene.pods:
        style = _STATE_STYLES.get(pod.state, "")
        table.add_row(pod.name, pod.node or "-", Text(pod.state, style=style), _blocks(scene, pod, colours))
    if not scene.pods:
        table.add_row("none yet", "", "", "")
    return table


def _blocks(scene: Scene, pod: DemoPod, colours: dict[str, str]) -> Text:
    bar = Text()
    held = scene.on(pod.name)
    for name, vreplicas in held.items():
        bar.append(_FULL * vreplicas, style=colours[name])
    bar.append(_FREE * max(0, scene.capacity - sum(held.values())), style="dim")
    return bar


def _tasks(scene: Scene) -> Table:
    """Plain pods: a block each on its node, and what is said of those that wait."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("node", "pods"):
        table.add_column(column, header_style="dim")
    placed = scene.tasks_by_node
    for node in scene.nodes:
        table.add_row(node, Text.assemble(f"{placed.get(node, 0):>4} ", (_FULL * placed.get(node, 0), "blue")))
    waiting = [task for task in scene.tasks if not task.node]
    for task in waiting[:_SHOWN]:
        table.add_row(Text(task.name, style="yellow"), task.why or "waits")
    if len(waiting) > _SHOWN:
        table.add_row("", f"and {len(waiting) - _SHOWN} more wait")
    return table


def _sources(scene: Scene, colours: dict[str, str]) -> Text:
    line = Text()
    for source in scene.sources:
        short = source.placed < source.wanted
        line.append(f"{_FULL} {source.name} ", style=colours[source.name])
        line.append(f"{source.placed}/{source.wanted}   ", style="bold red" if short else "")
    return line


def _colours(sources: Sequence[DemoSource]) -> dict[str, str]:
    return {source.name: _COLOURS[index % len(_COLOURS)] for index, source in enumerate(sources)}
