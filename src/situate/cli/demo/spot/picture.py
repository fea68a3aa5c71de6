"""Draw the replicas on their nodes, and the number of serving replicas over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from situate.cli.demo.drawing import plain_table
from situate.cli.demo.spot.scene import Replica, SpotScene

_COLUMN_S: Final = 0.5
"""Time that a column of the chart covers. It shows the smallest value in that time."""
_COLUMNS: Final = 64
_PER_ROW: Final = 2
_MARK: Final = "▲"
_CLASSES: Final = {"on-demand": "green", "spot": "cyan"}
_STATE_STYLES: Final = {"starts": "dim", "runs": "green", "ends": "yellow", "off": "bold red"}


def draw_scene(scene: SpotScene) -> list[RenderableType]:
    """Draw the nodes with their replicas, the chart, and a legend."""
    legend = Text.assemble(
        ("■", "green"), " on demand  ", ("■", "cyan"), " spot  ", ("□", "cyan"), " leaves when its replacement is ready"
    )
    return [_nodes(scene), Text(), *_chart(scene), legend]


def _nodes(scene: SpotScene) -> Table:
    table = plain_table("node", "capacity", "state", f"Pods of {scene.workload}")
    for node in scene.nodes:
        state = Text(node.state, style=_STATE_STYLES.get(node.state, ""))
        table.add_row(node.name, node.capacity, state, _blocks(scene.replicas_on(node.name)))
    waiting = scene.replicas_on("")
    if waiting:
        table.add_row("-", "", Text("waiting", style="yellow"), _blocks(waiting))
    return table


def _blocks(replicas: Sequence[Replica]) -> Text:
    bar = Text()
    for replica in replicas:
        style = _CLASSES.get(replica.pod_class, "magenta")
        bar.append("□" if replica.released else "■" if replica.is_serving else "·", style=style)
    return bar


def _chart(scene: SpotScene) -> list[Text]:
    """Draw the number of serving replicas as bars, red below the floor."""
    columns = _columns(scene)
    lines = []
    for top in range(scene.target, 0, -_PER_ROW):
        line = Text(f"{top:>3} ", style="dim")
        for ready in columns.values():
            bar = "█" if ready >= top else "▄" if ready == top - 1 else " "
            line.append(bar, style=_style(ready, scene))
        lines.append(line)
    first = next(iter(columns), 0)
    marks = Text("    ")
    labels = []
    places = {int(at / _COLUMN_S): what for at, what in scene.marks}
    for column in range(first, first + len(columns)):
        marks.append(_MARK if column in places else "─", style="yellow" if column in places else "dim")
        if column in places:
            labels.append(places[column])
    least = f", never less than {scene.least_ready_since(scene.marks[0][0])} since {_MARK}" if scene.marks else ""
    told = f"ready: {scene.ready_count} of {scene.target}{least}; floor {scene.floor}"
    return [*lines, marks, Text("    " + "   ".join(f"{_MARK} {label}" for label in labels)), Text(told)]


def _columns(scene: SpotScene) -> dict[int, int]:
    """Return the smallest value of each of the latest columns. A column without a value repeats the previous one."""
    least: dict[int, int] = {}
    for at, ready in scene.readiness:
        column = int(at / _COLUMN_S)
        least[column] = min(ready, least.get(column, ready))
    if not least:
        return {}
    last, known = max(least), 0
    filled = {}
    for column in range(min(least), last + 1):
        known = least.get(column, known)
        filled[column] = known
    return dict(list(filled.items())[-_COLUMNS:])


def _style(ready: int, scene: SpotScene) -> str:
    if ready >= scene.target:
        return "green"
    return "yellow" if ready >= scene.floor else "bold red"
