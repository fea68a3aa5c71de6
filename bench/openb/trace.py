"""openb's lists of nodes and pods, as they were published; gzip or plain."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
NODES = DATA / "openb_node_list_gpu_node.csv.gz"
WHOLE = 1000
"""Thousandths of a GPU."""

_PREFIX = "openb_pod_list_"


class BadList(Exception):
    """A file is not what it should be; the message says where, and what would be right."""


@dataclass(frozen=True, slots=True)
class TraceNode:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class TracePod:
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each GPU; 0 if it wants none."""
    models: str
    """`A|B`; empty is any."""

    @property
    def total_milli(self) -> int:
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True)
class PodList:
    name: str
    pods: tuple[TracePod, ...]


def shipped_lists() -> list[Path]:
    """The default list first."""
    return sorted(DATA.glob(f"{_PREFIX}*"), key=lambda path: (list_name(path) != "default", path.name))


def list_name(path: Path) -> str:
    """What results are named by: `default` for `openb_pod_list_default.csv.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".csv").removeprefix(_PREFIX)


def read_nodes(path: Path = NODES) -> tuple[TraceNode, ...]:
    return tuple(
        TraceNode(
            row.text("sn"), row.number("cpu_milli"), row.number("memory_mib"), row.number("gpu"), row.text("model", "")
        )
        for row in _rows(path)
    )


def read_pods(path: Path) -> PodList:
    """Columns beyond the five that every list has may be missing."""
    pods = tuple(_pod(row) for row in _rows(path))
    if not any(pod.total_milli for pod in pods):
        raise BadList(f"{path}: none of its {len(pods)} pods wants a GPU; is this a list of pods of openb?")
    return PodList(list_name(path), pods)


def _pod(row: _Row) -> TracePod:
    gpus = row.number("num_gpu")
    milli = min(row.number("gpu_milli", WHOLE), WHOLE) if gpus else 0
    memory = row.number("memory_mib", 0)
    models = "|".join(filter(None, row.text("gpu_spec", "").split("|"))) if milli else ""
    return TracePod(row.text("name"), row.number("cpu_milli"), memory, gpus if milli else 0, milli, models)


@dataclass(frozen=True, slots=True)
class _Row:
    path: Path
    line: int
    values: Mapping[str, str]

    def text(self, column: str, missing: str | None = None) -> str:
        value = self.values.get(column)
        if value is None:
            if missing is None:
                raise BadList(f"{self.path}: no column {column}; it has {', '.join(self.values)}")
            return missing
        return value

    def number(self, column: str, missing: int | None = None) -> int:
        text = self.text(column, None if missing is None else str(missing))
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not (value >= 0 and value.is_integer()):
            raise BadList(f"{self.path}, line {self.line}: {column} is {text!r}; allowed: whole numbers, not negative")
        return int(value)


def _rows(path: Path) -> Iterator[_Row]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
        with io.StringIO(text, newline="") as file:
            for number, values in enumerate(csv.DictReader(file), start=2):
                present = {key: value for key, value in values.items() if key is not None and value is not None}
                yield _Row(path, number, present)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as problem:
        raise BadList(f"{path}: cannot be read: {problem}") from problem
