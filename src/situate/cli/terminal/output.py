"""Print the output of a command: a table for people, JSON or YAML for programs; colours on a terminal only."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rich.cells import cell_len

from situate.cli.terminal.formats import DataFormat, Format
from situate.cli.terminal.streams import bold, print_error, printable

_GAP = "   "
"""Space between two columns, as wide as kubectl's."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table."""

    title: str
    value: str | Callable[[Any], object] = ""
    """Cell of an item in `print_items`: a key of the item, or a function of it; empty: the title is the key."""
    wide: bool = False
    """Shown with `-o wide` only."""
    right: bool = False
    """Whether the cells are aligned to the right, as numbers are."""


def print_answer(
    form: Format, as_data: Callable[[], Any], print_text: Callable[[], None], remarks: Iterable[str] = ()
) -> None:
    """Print the answer of a command: data for programs; for people its text, after remarks on standard error."""
    if form in (Format.JSON, Format.YAML):
        print_data(as_data(), form)
        return
    for remark in remarks:
        print_error(remark)
    print_text()


def print_data(data: Any, form: Format | DataFormat) -> None:
    """Print JSON or YAML; keys keep their order."""
    if form in (Format.JSON, DataFormat.JSON):
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(yaml_text(data))


def print_objects(objects: Sequence[Mapping[str, Any]], form: DataFormat) -> None:
    """Print Kubernetes objects for `kubectl apply`: YAML documents, or a JSON List."""
    if form is DataFormat.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(objects)}, form)
    else:
        sys.stdout.write("---\n".join(yaml_text(each) for each in objects))


def yaml_text(data: Any) -> str:
    """Return one YAML document."""
    return yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120)


def print_items(columns: Sequence[Column], items: Iterable[Any], form: Format = Format.TABLE) -> None:
    """Print a table with one line for each item."""
    print_table(columns, [[_cell(column, item) for column in columns] for item in items], form)


def _cell(column: Column, item: Any) -> object:
    value = column.value or column.title
    return item[value] if isinstance(value, str) else value(item)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[object]], form: Format = Format.TABLE) -> None:
    """Print a table in kubectl's style: capital titles, no lines. Nothing is truncated; a terminal wraps long lines."""
    shown = [index for index, column in enumerate(columns) if form is Format.WIDE or not column.wide]
    head = [columns[index].title.upper() for index in shown]
    cells = [["" if row[index] is None else printable(str(row[index])) for index in shown] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(head, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = []
        for index, text, width in zip(shown, texts, widths, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if columns[index].right else text + space)
        return _GAP.join(padded).rstrip()

    print(bold(line(head)))
    for texts in cells:
        print(line(texts))


class _PlainDumper(yaml.SafeDumper):
    """YAML in the usual style: no anchors, lists below their key, long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_PlainDumper.add_representer(str, _represent_text)
