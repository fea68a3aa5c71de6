"""A comparison as a picture: for each policy how many pods served over time, and how many ran on demand. SVG, as text.

The panels stand below each other: to the left the first wave, to the right all of it. The band holds nine of ten runs,
the line is the middle one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from situate.objects.counts import counted
from situate.objects.durations import format_duration
from situate.sim.spot.report import Band, Report
from situate.sim.spot.scenarios import Scenario, Wave

_WIDTH, _LEFT, _RIGHT, _BETWEEN = 1120, 62, 26, 34
_FOCUS_WIDTH = 430
_BEFORE_S, _AFTER_S = 20.0, 150.0
"""What is shown of the time around the first wave."""
_HEAD, _CHART, _BELOW, _TOP = 44, 84, 26, 92
_TICKS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_TICK_PX = 70
_SAMPLES = 240

_STYLE = """
text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #4b5563; }
.title { font-size: 20px; font-weight: 600; fill: #111827; }
.policy { font-size: 15px; font-weight: 600; fill: #111827; }
.small { font-size: 11px; fill: #6b7280; }
.grid { stroke: #e5e7eb; stroke-width: 1; }
.axis { stroke: #9ca3af; stroke-width: 1; }
.wanted { stroke: #6b7280; stroke-width: 1; stroke-dasharray: 5 4; }
.half { fill: #dc2626; opacity: 0.06; }
.notice { fill: #f59e0b; opacity: 0.2; }
.gone { fill: #f59e0b; opacity: 0.08; }
.band { fill: #93c5fd; fill-opacity: 0.65; }
.ready { fill: none; stroke: #1e3a8a; stroke-width: 1.6; stroke-linejoin: round; }
.on-demand { fill: none; stroke: #047857; stroke-width: 1.3; stroke-dasharray: 2 2; }
"""


@dataclass(frozen=True, slots=True)
class _Axes:
    """Turns seconds into x, and pods into y of a chart."""

    left: float
    right: float
    begin: float
    end: float
    most: float
    top: float

    def x(self, seconds: float) -> float:
        within = min(max(seconds, self.begin), self.end)
        return self.left + (self.right - self.left) * (within - self.begin) / (self.end - self.begin)

    def y(self, pods: float) -> float:
        return self.top + _CHART * (1 - pods / self.most)


def focus(scenario: Scenario) -> tuple[float, float] | None:
    """The time around the first wave, if that is less than all of it."""
    waves = [event for event in scenario.events if isinstance(event, Wave)]
    if not waves:
        return None
    first = min(waves, key=lambda wave: wave.at_s)
    begin = max(0.0, first.at_s - _BEFORE_S)
    end = first.at_s + (first.notice_s or 0.0) + _AFTER_S
    return (begin, end) if end - begin < scenario.duration_s / 2 else None


def sample_times(scenario: Scenario) -> list[float]:
    """The moments that a picture is made of, ascending; closer to each other around the first wave."""
    found = {scenario.duration_s * number / _SAMPLES for number in range(_SAMPLES + 1)}
    close = focus(scenario)
    if close is not None:
        begin, end = close
        found.update(begin + (end - begin) * number / _SAMPLES for number in range(_SAMPLES + 1))
    return sorted(found)


def picture(title: str, scenario: Scenario, reports: Sequence[Report]) -> str:
    """One SVG document."""
    wanted = sum(app.replicas for app in scenario.apps)
    highest = max((max(each.ready.high, default=0) for each in reports), default=0)
    most = max(wanted, highest) * 1.1
    panel = _HEAD + _CHART + _BELOW
    height = _TOP + panel * len(reports) + 8
    pods = ", ".join(f"{app.kind} of {app.replicas}" for app in scenario.apps)
    runs = reports[0].runs if reports else 0
    about = f"{pods} · {format_duration(scenario.duration_s)} · {counted(runs, 'run')} of each policy"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{_LEFT}" y="32">{escape(title)}</text>',
        f'<text class="small" x="{_LEFT}" y="52">{escape(about)}</text>',
        *_legend(),
    ]
    for number, each in enumerate(reports):
        top = _TOP + number * panel
        lines.append(f'<text class="policy" x="{_LEFT}" y="{top + 18}">{escape(each.policy)}</text>')
        lines.append(f'<text x="{_LEFT}" y="{top + 35}">{escape(headline(each))}</text>')
        for axes in _charts(scenario, most, top + _HEAD):
            lines += _chart(axes, scenario, each, wanted)
    return "\n".join([*lines, "</svg>"]) + "\n"


def headline(report: Report) -> str:
    """The few numbers that one looks for first; means, over all workloads."""
    service = report.together
    return (
        f"cost {report.cost.mean:.2f} · outage {service.outage_s.mean:,.0f} s · half or fewer "
        f"{service.half_s.mean:,.0f} s · {service.pod_s_short.mean:,.0f} pod-seconds short · "
        f"least ready {service.least_ready.mean:.1f} · {report.restarts.mean:.1f} restarts"
    )


def _legend() -> Iterator[str]:
    x = _LEFT
    for name, kind, width in (
        ("ready, the middle run", "ready", 158),
        ("nine runs of ten", "band", 126),
        ("on demand", "on-demand", 92),
        ("replicas", "wanted", 78),
        ("half or fewer", "half", 104),
        ("notice", "notice", 70),
        ("spot nodes gone", "gone", 110),
    ):
        if kind in ("band", "half", "notice", "gone"):
            yield f'<rect class="{kind}" x="{x}" y="65" width="16" height="11"/>'
            yield f'<rect x="{x}" y="65" width="16" height="11" fill="none" stroke="#d1d5db" stroke-width="0.6"/>'
        else:
            yield f'<path class="{kind}" d="M{x} 71h16"/>'
        yield f'<text x="{x + 21}" y="75">{name}</text>'
        x += width + 22


def _charts(scenario: Scenario, most: float, top: float) -> Iterator[_Axes]:
    close = focus(scenario)
    left = float(_LEFT)
    if close is not None:
        yield _Axes(left, left + _FOCUS_WIDTH, *close, most, top)
        left += _FOCUS_WIDTH + _BETWEEN
    yield _Axes(left, _WIDTH - _RIGHT, 0.0, scenario.duration_s, most, top)


def _chart(axes: _Axes, scenario: Scenario, report: Report, wanted: int) -> Iterator[str]:
    left, right, bottom = axes.left, axes.right, axes.y(0)
    half = axes.y(wanted / 2)
    yield f'<rect class="half" x="{left}" y="{half:.1f}" width="{right - left}" height="{bottom - half:.1f}"/>'
    for event in scenario.events:
        if isinstance(event, Wave):
            yield from _wave(axes, event)
    for pods in sorted({0, wanted // 2, wanted}):
        kind = "axis" if not pods else "grid"
        yield f'<path class="{kind}" d="M{left} {axes.y(pods):.1f}H{right}"/>'
        yield f'<text class="small" x="{left - 8}" y="{axes.y(pods) + 4:.1f}" text-anchor="end">{pods}</text>'
    yield f'<path class="wanted" d="M{left} {axes.y(wanted):.1f}H{right}"/>'
    yield f'<path class="band" d="{_area(axes, report.times, report.ready)}"/>'
    yield f'<path class="on-demand" d="{_line(axes, report.times, report.on_demand.middle)}"/>'
    yield f'<path class="ready" d="{_line(axes, report.times, report.ready.middle)}"/>'
    yield from _ticks(axes)


def _wave(axes: _Axes, wave: Wave) -> Iterator[str]:
    """Behind the lines: the notice, and the time without the nodes."""
    ends = wave.at_s + (wave.notice_s or 0.0)
    back = axes.end if wave.back_after_s is None else ends + wave.back_after_s
    for kind, begin, end in (("notice", wave.at_s, ends), ("gone", ends, back)):
        x, width = axes.x(begin), axes.x(end) - axes.x(begin)
        if width > 0:
            yield f'<rect class="{kind}" x="{x:.1f}" y="{axes.top}" width="{width:.1f}" height="{_CHART}"/>'


def _ticks(axes: _Axes) -> Iterator[str]:
    lasting, most = axes.end - axes.begin, (axes.right - axes.left) / _TICK_PX
    step = next((each for each in _TICKS_S if lasting / each <= most), lasting)
    bottom = axes.top + _CHART
    when = math.ceil(axes.begin / step) * step
    while when <= axes.end:
        x = axes.x(when)
        yield f'<path class="axis" d="M{x:.1f} {bottom:.1f}v4"/>'
        where = f'x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle"'
        yield f'<text class="small" {where}>{format_duration(when)}</text>'
        when += step


def _steps(axes: _Axes, times: Sequence[float], values: Sequence[int]) -> Iterator[tuple[float, float]]:
    """The corners of a line in steps, from left to right; moments in which nothing changes are left out."""
    last: int | None = None
    for when, value in zip(times, values, strict=True):
        if not axes.begin <= when <= axes.end:
            continue
        if value != last:
            if last is not None:
                yield axes.x(when), axes.y(last)
            yield axes.x(when), axes.y(value)
        last = value
    if last is not None:
        yield axes.right, axes.y(last)


def _line(axes: _Axes, times: Sequence[float], values: Sequence[int]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in _steps(axes, times, values)) if times else ""


def _area(axes: _Axes, times: Sequence[float], band: Band) -> str:
    if not times:
        return ""
    there = list(_steps(axes, times, band.high))
    back = reversed(list(_steps(axes, times, band.low)))
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (*there, *back)) + "Z"
