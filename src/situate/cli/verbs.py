"""The verbs of `situate`, each imported when it is asked for: help and completion are there at once.

What a verb needs (an HTTP server, arrays, a client) takes longer to import than most verbs take to run.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
import typer.core
import typer.main


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is, and its line in the list of them."""

    module: str
    short_help: str

    def command(self, name: str) -> Any:
        """The module's function of the verb's name, or its `app` if the verb has verbs of its own."""
        found = getattr(import_module(self.module), name, None)
        if found is None:
            group = typer.main.get_group(import_module(self.module).app)
            group.name, group.short_help = name, self.short_help
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, short_help=self.short_help)(found)
        return typer.main.get_command(alone)


VERBS: Final = {
    "run": Verb("situate.cli.run", "Run the schedulers against a cluster."),
    "demo": Verb("situate.cli.demo.command", "Play a story on an embedded cluster."),
    "embedded": Verb("situate.cli.embedded", "Run just an API server, in memory."),
    "check": Verb("situate.cli.check", "Check the configuration, and the cluster for it."),
    "simulate": Verb("situate.cli.simulate", "Compare settings on a simulated cluster."),
    "crds": Verb("situate.cli.crds", "Print the custom resource definitions."),
    "manifests": Verb("situate.cli.manifests", "Print what to apply to install situate."),
    "scheduler": Verb("situate.cli.scheduler", "Pods on nodes: why, what if, compare."),
    "shard": Verb("situate.cli.shard", "Custom resources on executors, and their archive."),
    "spot": Verb("situate.cli.spot", "Spot and on demand: what is, why, what would be."),
    "vm": Verb("situate.cli.vm", "Virtual machines: what is, why, what would be."),
    "vpod": Verb("situate.cli.vpod", "Virtual replicas: what is, why, what would be."),
}


class _Commands(MutableMapping[str, Any]):
    """A group's commands by name, made when they are looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = VERBS[name].command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class VerbGroup(typer.core.TyperGroup):
    """The root of the command line."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """In the order in which help shows them."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is typer's
        """The list in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.short_help) for name, verb in VERBS.items()])
