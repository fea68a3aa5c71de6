"""What a command prints: a table for people, JSON or YAML for programs; colours on a terminal only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table


class Format(StrEnum):
    """`-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class DataFormat(StrEnum):
    """`-o` of what is meant for programs anyway."""

    YAML = "yaml"
    JSON = "json"


OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="table and wide are for people, json and yaml for programs.")
]
DataOutputOption = Annotated[DataFormat, typer.Option("--output", "-o", help="The form of what is printed.")]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    wide: bool = False
    """Shown with `-o wide` only."""
    right: bool = False
    """Numbers stand to the right."""


def console() -> Console:
    """Standard output. Rich leaves colours out where it is no terminal, or NO_COLOR is set."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=True)


def print_data(data: Any, form: Format | DataFormat) -> None:
    """JSON or YAML; keys keep their order."""
    if form in (Format.JSON, DataFormat.JSON):
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(yaml_text(data))


def print_objects(objects: Sequence[Mapping[str, Any]], form: DataFormat) -> None:
    """Kubernetes objects for `kubectl apply`: YAML documents, or a JSON List."""
    if form is DataFormat.JSON:
        print_data({"apiVersion": "v1", "kind": "List", "items": list(objects)}, form)
    else:
        sys.stdout.write("---\n".join(yaml_text(each) for each in objects))


def yaml_text(data: Any) -> str:
    """One YAML document."""
    return yaml.dump(data, Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[object]], form: Format = Format.TABLE) -> None:
    """A table as kubectl's: capital titles, no lines; nothing is cut where the output is no terminal."""
    shown = [index for index, column in enumerate(columns) if form is Format.WIDE or not column.wide]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0), show_edge=False)
    for index in shown:
        table.add_column(
            columns[index].title.upper(), justify="right" if columns[index].right else "left", no_wrap=True
        )
    for row in rows:
        table.add_row(*("" if row[index] is None else str(row[index]) for index in shown))
    out = console()
    if not out.is_terminal:
        out.width = 10_000
    out.print(table)


class _PlainDumper(yaml.SafeDumper):
    """YAML as people write it: no anchors, lists below their key, long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_PlainDumper.add_representer(str, _text)
