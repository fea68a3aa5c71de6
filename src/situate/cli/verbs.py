"""Commands of `situate`. Each is imported only when it is used, so that help and completion are fast.

The imports of a command (an HTTP server, numpy, a client) take longer than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Final

import typer
import typer.core
import typer.main


class Group(StrEnum):
    """Sections of the command list in help, named for the user's task."""

    TRY = "Try"
    INSPECT = "Inspect"
    INSTALL = "Install"
    RUN = "Run"


@dataclass(frozen=True, slots=True)
class Verb:
    """Module of a command, and its line in the command list."""

    module: str
    group: Group
    short_help: str

    def command(self, name: str) -> Any:
        """Return the module's function with the command's name, or its `app` if the command has subcommands."""
        command = self._command(name)
        _hide_types(command)
        return command

    def _command(self, name: str) -> Any:
        found = getattr(import_module(self.module), name, None)
        if found is None:
            group = typer.main.get_group(import_module(self.module).app)
            group.name, group.short_help = name, self.short_help
            return group
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, short_help=self.short_help)(found)
        return typer.main.get_command(alone)


def _hide_types(command: Any) -> None:
    """Show only the metavar of arguments. typer adds the Python type, which means nothing to a user."""
    for parameter in command.params:
        if isinstance(parameter, typer.core.TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # noqa: ARG005
    for child in getattr(command, "commands", {}).values():
        _hide_types(child)


VERBS: Final = {
    "demo": Verb("situate.cli.commands", Group.TRY, "Play a story on an embedded cluster."),
    "simulate": Verb("situate.cli.commands", Group.TRY, "Compare settings on a simulated cluster."),
    "embedded": Verb("situate.cli.commands", Group.TRY, "Run an in-memory API server."),
    "scheduler": Verb(
        "situate.cli.scheduler.commands", Group.INSPECT, "Explain, predict and compare placements of Pods."
    ),
    "vpod": Verb("situate.cli.vpod.commands", Group.INSPECT, "Virtual replicas on the Pods of StatefulSets."),
    "spot": Verb("situate.cli.spot.commands", Group.INSPECT, "Workloads on spot and on-demand nodes."),
    "vm": Verb("situate.cli.vm.commands", Group.INSPECT, "Virtual machines that grow, shrink and move."),
    "sharding": Verb(
        "situate.cli.sharding.commands", Group.INSPECT, "Custom resources on executors, and their archive."
    ),
    "check": Verb("situate.cli.commands", Group.INSTALL, "Check the configuration, and the cluster for it."),
    "crds": Verb("situate.cli.commands", Group.INSTALL, "Print the custom resource definitions."),
    "manifests": Verb("situate.cli.commands", Group.INSTALL, "Print the objects that install situate."),
    "run": Verb("situate.cli.commands", Group.RUN, "Run the schedulers against a cluster."),
}
ALIASES: Final = {"shard": "sharding"}
"""Former names, which still work and are not listed."""


class _Commands(MutableMapping[str, Any]):
    """Commands of a group by name, created at the first lookup."""

    def __init__(self) -> None:
        self._created: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        meant = ALIASES.get(name, name)
        if meant not in self._created:
            self._created[meant] = VERBS[meant].command(meant)
        return self._created[meant]

    def __setitem__(self, name: str, command: Any) -> None:
        self._created[name] = command

    def __delitem__(self, name: str) -> None:
        del self._created[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class VerbGroup(typer.core.TyperGroup):
    """Root of the command line."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """Return the command names in the order of help."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is typer's
        """Write one list for each group."""
        for group in Group:
            with formatter.section(group.value):
                formatter.write_dl([(name, verb.short_help) for name, verb in VERBS.items() if verb.group is group])
