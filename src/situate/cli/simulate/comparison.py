"""Select the compared variants, and print their results side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from situate.cli.terminal.failures import WrongInput
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.streams import print_line
from situate.objects.settings.section import spelling_hint


def select_variants(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the known variants that `--variant` names, or all of them. Raises `WrongInput` for an unknown name."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = spelling_hint(name, known)
            raise WrongInput(f"--variant: found {name}, allowed: {', '.join(known)}{'; ' + hint if hint else ''}")
    return [name for name in known if not names or name in names]


def number_columns(*titles: str, wide: bool = False) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(title, wide=wide, right=True) for title in titles)


def print_results(
    headline: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    data: Sequence[Any],
    output: Format,
    footer: str = "",
) -> None:
    """Print the data for programs, or a table for people between a headline and a footer."""
    if output in (Format.JSON, Format.YAML):
        print_data(data, output)
        return
    print_line(headline)
    print_table(columns, rows, output)
    if footer:
        print_line(footer)
