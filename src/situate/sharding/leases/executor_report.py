"""The report of an executor in the status annotation of its Lease, as text and as a value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from situate.objects.settings.section import format_value
from situate.sharding.model.executors import NO_METRICS
from situate.sharding.model.names import STATUS

_LONGEST: Final = 16 * 1024
"""Maximum characters that are parsed; a report with some metrics has a few hundred."""


@dataclass(frozen=True, slots=True)
class ExecutorReport:
    """The report of one executor. Fields that it does not report are None or empty."""

    capacity: float | None = None
    open: int | None = None
    metrics: Mapping[str, float] = field(default_factory=lambda: NO_METRICS)
    draining: bool = False
    full: bool = False

    @property
    def is_full(self) -> bool:
        if self.full:
            return True
        return self.capacity is not None and self.open is not None and self.open >= self.capacity


EMPTY_REPORT: Final = ExecutorReport()


def report_of(text: str | None) -> tuple[ExecutorReport, tuple[str, ...]]:
    """Parse a report. Return the readable fields, and a sentence about each unreadable field."""
    if text is None:
        return EMPTY_REPORT, ()
    try:
        wire = msgspec.json.decode(text) if len(text) <= _LONGEST else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        wire = None
    if not isinstance(wire, Mapping):
        return EMPTY_REPORT, (_ignored_value_text("", text, f"a JSON object of at most {_LONGEST} characters"),)
    oddities: list[str] = []
    metrics = wire.get("metrics")
    if metrics is not None and not isinstance(metrics, Mapping):
        oddities.append(_ignored_value_text("metrics", metrics, "a JSON object of numbers"))
        metrics = None
    report = ExecutorReport(
        capacity=_amount(wire, "capacity", oddities),
        open=_count(wire, "open", oddities),
        metrics={name: float(value) for name, value in (metrics or {}).items() if _is_number(value)},
        draining=_flag(wire, "draining", oddities),
        full=_flag(wire, "full", oddities),
    )
    return report, tuple(oddities)


def report_text(report: ExecutorReport) -> str:
    """Return the value of the annotation."""
    wire: dict[str, Any] = {"draining": report.draining, "metrics": dict(report.metrics)}
    if report.full:
        wire["full"] = True
    for name in ("capacity", "open"):
        if (value := getattr(report, name)) is not None:
            wire[name] = value
    return msgspec.json.encode(wire, order="sorted").decode()


def _amount(wire: Mapping[str, Any], name: str, oddities: list[str]) -> float | None:
    value = wire.get(name)
    if value is None:
        return None
    if not _is_number(value) or value < 0:
        oddities.append(_ignored_value_text(name, value, "a number from 0"))
        return None
    return float(value)


def _count(wire: Mapping[str, Any], name: str, oddities: list[str]) -> int | None:
    value = wire.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        oddities.append(_ignored_value_text(name, value, "a whole number from 0"))
        return None
    return value


def _flag(wire: Mapping[str, Any], name: str, oddities: list[str]) -> bool:
    value = wire.get(name)
    if value is not None and not isinstance(value, bool):
        oddities.append(_ignored_value_text(name, value, "true and false"))
    return value is True


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _ignored_value_text(field: str, value: object, allowed: str) -> str:
    named = f"annotation {STATUS}{', field ' + field if field else ''}"
    return f"{named} is {format_value(value)}, allowed: {allowed}; the value is ignored"
