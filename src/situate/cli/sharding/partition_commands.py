"""Commands of `situate sharding partitions`: their arguments and help. The implementation is imported when one runs."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
import typer.core

from situate.cli.sharding.options import NewTableOptions, ShownTableOptions, TableOptions, ThawOptions
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import OutputOption

_MAX_PARTITIONS: Final = 4096
"""Largest number of slots, and so of partitions, of a table."""
_FORMER_FLAGS: Final = {
    "--create": "create TABLE --count N",
    "--count": "resize TABLE --count N",
    "--split": "split TABLE PARTITION",
    "--merge": "merge TABLE PARTITION --into PARTITION",
    "--hand-over": "hand-over TABLE",
    "--thaw": "thaw TABLE",
}
"""Flags of the former single command, and the commands that replace them."""


class _Group(typer.core.TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Name the command that replaces a former flag."""
        if args and args[0] not in self.commands:
            given = next((each for each in _FORMER_FLAGS if any(arg.partition("=")[0] == each for arg in args)), None)
            command = "show TABLE" if given is None else _FORMER_FLAGS[given]
            ctx.fail(f"No such command {args[0]!r}. Write: situate sharding partitions {command}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Partition table: the slots of each supervisor. A change takes two steps: freeze the slots that "
    "move, then hand them over. A partition receives slots only while its supervisor holds its Lease.",
    epilog="""Examples:

\b
situate sharding partitions create slots --count 2 -f situate.yaml
situate sharding partitions show slots -f situate.yaml
situate sharding partitions split slots 0 -f situate.yaml --dry-run
situate sharding partitions hand-over slots -f situate.yaml

Page: docs/guides/sharding/repartition.md""",
)

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Name of the ConfigMap, as in partitionTable.", show_default=False)
]
PartitionArgument = Annotated[
    int, typer.Argument(metavar="PARTITION", help="Number of the partition.", show_default=False)
]
CountOption = Annotated[
    int, typer.Option("--count", min=1, max=_MAX_PARTITIONS, metavar="N", help="Number of partitions.")
]


@app.command(short_help="Show the partitions of a table.")
@with_option_sets
def show(
    *,
    table: TableArgument,
    where: ShownTableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the slots, open objects and supervisor of each partition, and the conditions that a hand-over waits for."""
    from situate.cli.sharding.partitions import show

    show(table, where, output)


@app.command(short_help="Create a table of equal partitions.")
@with_option_sets
def create(
    *,
    table: TableArgument,
    count: CountOption,
    where: NewTableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create the ConfigMap with a number of equal partitions."""
    from situate.cli.sharding.partitions import creation_change, write_change

    write_change(table, where, creation_change(count), output)


@app.command(short_help="Freeze slots for another number of partitions.")
@with_option_sets
def resize(
    *,
    table: TableArgument,
    count: CountOption,
    where: TableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Freeze the fewest slots that must move for another number of partitions; then hand them over.

    Exits with 1 if a receiving partition has no running supervisor.
    """
    from situate.cli.sharding.partitions import resize_change, write_change

    write_change(table, where, resize_change(count), output)


@app.command(short_help="Freeze half of a partition's slots for another.")
@with_option_sets
def split(
    *,
    table: TableArgument,
    partition: PartitionArgument,
    into: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="PARTITION", help="Number of the receiving partition; default: the first free number."
        ),
    ] = None,
    where: TableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Freeze half of a partition's slots, so that they can be handed over to another partition.

    Exits with 1 if the receiving partition has no running supervisor.
    """
    from situate.cli.sharding.partitions import split_change, write_change

    write_change(table, where, split_change(partition, into), output)


@app.command(short_help="Freeze all slots of a partition for another.")
@with_option_sets
def merge(
    *,
    table: TableArgument,
    partition: PartitionArgument,
    into: Annotated[int, typer.Option(min=0, metavar="PARTITION", help="Number of the receiving partition.")],
    where: TableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Freeze all slots of a partition, so that they can be handed over to another partition.

    Exits with 1 if the receiving partition has no running supervisor.
    """
    from situate.cli.sharding.partitions import merge_change, write_change

    write_change(table, where, merge_change(partition, into), output)


@app.command("hand-over", short_help="Give frozen slots to their new partitions.")
@with_option_sets
def hand_over(
    *,
    table: TableArgument,
    where: TableOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Give frozen slots to their new partitions, if no executor holds an object of these slots.

    Exits with 1 if this must wait, and names the reason; repeat the command later.
    """
    from situate.cli.sharding.partitions import hand_over_change, write_change

    write_change(table, where, hand_over_change(force=where.force), output)


@app.command(short_help="Leave frozen slots with their partitions.")
@with_option_sets
def thaw(
    *,
    table: TableArgument,
    where: ThawOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Leave frozen slots with their current partitions, which cancels a change."""
    from situate.cli.sharding.partitions import thaw_table, write_change

    write_change(table, where, thaw_table, output)
