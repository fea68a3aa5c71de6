"""Draw nodes as bars of CPUs with their VMs and Pods: reserved, leaving (and for which VM), and arriving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from situate.cli.demo.drawing import plain_table
from situate.cli.demo.vm.objects import ASKS, CPUS, GROWS, LEAVES, PLAIN_MILLI
from situate.cli.demo.vm.scene import DemoMachine, VmScene

_CELLS: Final = 7
"""Characters for each CPU: two nodes' bars and their names fit into 80 columns."""
_COLOURS: Final = {GROWS: "cyan", LEAVES: "green", ASKS: "yellow"}
_PLAIN, _FREE = "white on blue", "dim"
_PHASES: Final = {"": "created", "Pending": "target Pod starts", "Running": "copying"}


def draw_scene(scene: VmScene) -> list[RenderableType]:
    """Draw a bar for each node, a line for each migration, and the CPUs that each VM uses, may use and requests."""
    bars = plain_table("node", f"{CPUS} CPUs", gap=1, no_wrap=True)
    for name in scene.nodes:
        bars.add_row(name, _bar(scene, name))
    return [bars, Text(), *_migration_lines(scene), _requests_table(scene)]


def _bar(scene: VmScene, node: str) -> Text:
    bar = Text()
    for label, cpus, style in _parts(scene, node):
        width = cpus * _CELLS // 1000
        bar.append(f"▏{label}"[:width].ljust(width), style=style)
    return bar.append("▏")


def _parts(scene: VmScene, node: str) -> Iterator[tuple[str, int, str]]:
    for each in scene.machines:
        if each.node == node:
            yield _label(each, scene), max(each.allowed_cpus, each.used_cpus), f"black on {_COLOURS[each.name]}"
    for pod in scene.pods:
        if pod.node == node:
            yield pod.name, PLAIN_MILLI, _PLAIN
    for each in scene.arriving_on(node):
        yield f"→ {each.name}: reserved", max(each.allowed_cpus, each.used_cpus), _COLOURS[each.name]
    free = scene.free_on(node)
    if free > 0:
        yield "free", free, _FREE


def _label(machine: DemoMachine, scene: VmScene) -> str:
    move = scene.move_of(machine.name)
    if move is None or move.is_over or move.source != machine.node:
        return f"{machine.name} {_cpu_text(machine.used_cpus)}"
    held = f", then {move.beneficiary}'s" if move.beneficiary else ""
    return f"{machine.name} {_cpu_text(machine.used_cpus)} leaves{held}"


def _migration_lines(scene: VmScene) -> Iterator[Text]:
    for each in scene.moves:
        state = "ends" if each.is_over else _PHASES.get(each.phase, each.phase)
        copied = "" if each.copied is None else f", {each.copied:.0%} done"
        room = f"; CPUs reserved for {each.beneficiary}" if each.beneficiary else ""
        yield Text(f"{each.machine}: {each.source or '?'} → {each.target or '?'}, {state}{copied}{room}")
    if not scene.moves:
        yield Text("no migration", style="dim")
    yield Text()


def _requests_table(scene: VmScene) -> Table:
    table = plain_table("", "uses", "may use", "requests", "")
    for column in table.columns[1:4]:
        column.justify = "right"
    for each in scene.machines:
        short = each.requested_cpus > each.allowed_cpus
        told = Text("short", style="bold red") if short else Text("")
        table.add_row(
            each.name, _cpu_text(each.used_cpus), _cpu_text(each.allowed_cpus), _cpu_text(each.requested_cpus), told
        )
    for pod in scene.pods:
        if not pod.node:
            table.add_row(
                pod.name,
                "0",
                "0",
                _cpu_text(PLAIN_MILLI),
                Text(f"waits: {_short_reason(pod.reason)}" if pod.reason else "waits"),
            )
    return table


def _cpu_text(milli: int) -> str:
    return f"{milli / 1000:g}"


def _short_reason(why: str) -> str:
    """Return the message without its part on preemption."""
    return why.partition(". ")[0]
