"""Draw a scene on a terminal: a line for each Pod, a block for each vreplica, coloured by source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from situate.cli.demo.drawing import plain_table
from situate.cli.demo.sharding import picture as shard_picture
from situate.cli.demo.sharding.scene import ShardScene
from situate.cli.demo.spot import picture as spot_picture
from situate.cli.demo.spot.scene import SpotScene
from situate.cli.demo.vm import picture as vm_picture
from situate.cli.demo.vm.scene import VmScene
from situate.cli.demo.vpod.scene import DemoPod, DemoSource, VpodScene

AnyScene: TypeAlias = VpodScene | SpotScene | ShardScene | VmScene
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")
_FULL, _FREE = "■", "·"
_BORDERS: Final = 4
"""Columns of the panel's border and padding."""
_SHOWN_STEPS = 3
"""Number of waiting Pods that are named."""
_STATE_STYLES = {"Running": "green", "Pending": "yellow", "Terminating": "red", "node lost": "bold red"}


@dataclass(frozen=True, slots=True)
class Picture:
    """Whole screen, as high as the terminal: the chapter, the scene, finished steps, and hints.

    The chapter, the scene and the hints have precedence. Finished steps get the remaining lines, one each; the oldest
    are dropped. If the scene alone is too high, its blank lines are dropped first, then its last lines.
    """

    scene: AnyScene | None
    title: str
    caption: str
    finished_steps: Sequence[str]
    """Outcomes of finished steps, the oldest first."""
    hints: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        within = options.update(width=options.max_width - _BORDERS, height=None)
        room = height - 2  # without the lines of the panel itself
        foot = _render_lines(console, within, *(Text(hint, style="dim") for hint in self.hints))
        heading = Text.assemble((self.title, "bold"), "  ", self.caption)
        head = _render_lines(console, within, heading, Text())
        body = _render_lines(console, within, *_draw_scene(self.scene))
        if len(head) + len(body) + len(foot) > room:
            head = _render_lines(console, within, _without_wrapping(heading))
            body = [line for line in body if "".join(part.text for part in line).strip()]
        body = _first_lines(console, within, body, room - len(head) - len(foot))
        left = max(0, room - len(head) - len(body) - len(foot))
        steps = [Text.assemble(("✓ ", "green"), outcome) for outcome in self.finished_steps]
        shown = steps[-(left - 1) :] if left > 1 else []
        past = _render_lines(console, within, Text(), *map(_without_wrapping, shown)) if shown else []
        blank = _render_lines(console, within, *(Text() for _ in range(left - len(past))))
        lines = [*head, *body, *past, *blank, *foot]
        yield Panel(SegmentLines(lines, new_lines=True), title="situate", border_style="dim", height=height)


def _render_lines(console: Console, options: ConsoleOptions, *parts: RenderableType) -> list[list[Segment]]:
    return console.render_lines(Group(*parts), options) if parts else []


def _without_wrapping(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _first_lines(
    console: Console, options: ConsoleOptions, lines: list[list[Segment]], most: int
) -> list[list[Segment]]:
    """Return the first lines; the last of them gives the number of omitted lines."""
    if len(lines) <= most:
        return lines
    kept = max(0, most - 1)
    more = Text(f"… {len(lines) - kept} more lines: enlarge the terminal", style="dim")
    return [*lines[:kept], *_render_lines(console, options, _without_wrapping(more))][: max(0, most)]


def _draw_scene(scene: AnyScene | None) -> list[RenderableType]:
    match scene:
        case SpotScene():
            return spot_picture.draw_scene(scene)
        case ShardScene():
            return shard_picture.draw_scene(scene)
        case VmScene():
            return vm_picture.draw_scene(scene)
        case VpodScene():
            return _draw_placements(scene)
        case None:
            return []


def _draw_placements(scene: VpodScene) -> list[RenderableType]:
    """Draw the Pods, the sources and the leader."""
    colours = _colours(scene.sources)
    parts: list[RenderableType] = [_tasks_table(scene), Text()] if scene.tasks else []
    return [
        *parts,
        _pods_table(scene, colours),
        Text(),
        _sources_line(scene, colours),
        Text(f"leader: {scene.leader or 'none'}"),
    ]


def _pods_table(scene: VpodScene, colours: dict[str, str]) -> Table:
    table = plain_table("pod", "node", "state", f"vreplicas (of {scene.capacity})")
    for pod in scene.pods:
        style = _STATE_STYLES.get(pod.state, "")
        table.add_row(pod.name, pod.node or "-", Text(pod.state, style=style), _blocks(scene, pod, colours))
    if not scene.pods:
        table.add_row("no Pods yet", "", "", "")
    return table


def _blocks(scene: VpodScene, pod: DemoPod, colours: dict[str, str]) -> Text:
    bar = Text()
    held = scene.vreplicas_on(pod.name)
    for name, vreplicas in held.items():
        bar.append(_FULL * vreplicas, style=colours[name])
    bar.append(_FREE * max(0, scene.capacity - sum(held.values())), style="dim")
    return bar


def _tasks_table(scene: VpodScene) -> Table:
    """Draw plain Pods: a block each on its node, and the reason of those that wait."""
    table = plain_table("node", "pods")
    placed = scene.tasks_by_node
    for node in scene.nodes:
        table.add_row(node, Text.assemble(f"{placed.get(node, 0):>4} ", (_FULL * placed.get(node, 0), "blue")))
    waiting = [task for task in scene.tasks if not task.node]
    for task in waiting[:_SHOWN_STEPS]:
        table.add_row(Text(task.name, style="yellow"), _without_wrapping(Text(task.reason or "waits")))
    if len(waiting) > _SHOWN_STEPS:
        table.add_row("", f"and {len(waiting) - _SHOWN_STEPS} more waiting")
    return table


def _sources_line(scene: VpodScene, colours: dict[str, str]) -> Text:
    line = Text()
    for source in scene.sources:
        short = source.placed_count < source.wanted
        line.append(f"{_FULL} {source.name} ", style=colours[source.name])
        line.append(f"{source.placed_count}/{source.wanted}   ", style="bold red" if short else "")
    return line


def _colours(sources: Sequence[DemoSource]) -> dict[str, str]:
    return {source.name: _COLOURS[index % len(_COLOURS)] for index, source in enumerate(sources)}
