"""The table that all scenes use."""

from __future__ import annotations

from rich.table import Table


def plain_table(*columns: str, gap: int = 2, no_wrap: bool = False) -> Table:
    """Return a table without lines, with dim column titles."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        table.add_column(column, header_style="dim", no_wrap=no_wrap)
    return table
