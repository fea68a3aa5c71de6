"""Render a comparison as SVG text: for each policy, the numbers of serving and of on-demand pods over time.

Each policy has a panel. Each column is a period: the first wave, the last one if there are several, and the whole time.
The band contains nine of ten runs, and the line is the median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from situate.objects.values.counts import format_count
from situate.objects.values.durations import format_duration
from situate.sim.spot.results.report import Band, PolicyReport
from situate.sim.spot.settings import SpotEventSettings, SpotScenarioSettings
from situate.sim.svg import LEFT, RIGHT, WIDTH, Axes, document, style, time_marks

_BETWEEN = 34
_WAVE_WIDTHS = (430, 290)
"""Widths of the waves' columns: with one such column, and with two."""
_BEFORE_S, _AFTER_S = 20.0, 150.0
"""Seconds shown before and after a wave."""
_HEAD, _CHART, _BELOW, _TOP, _FOOT = 58, 84, 26, 116, 22
_TICKS_S = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_TICK_PX = 70
_TIME, _PODS = "time since the start", "pods"
_SAMPLES = 240

_STYLE = style(
    "policy",
    """.wanted { stroke: #6b7280; stroke-width: 1; stroke-dasharray: 5 4; }
.half { fill: #dc2626; opacity: 0.06; }
.notice { fill: #f59e0b; opacity: 0.3; }
.gone { fill: #6366f1; opacity: 0.12; }
.column { font-size: 13px; font-weight: 600; fill: #374151; }
.bracket { fill: none; stroke: #374151; stroke-width: 1; }
.band { fill: #93c5fd; fill-opacity: 0.65; }
.ready { fill: none; stroke: #1e3a8a; stroke-width: 1.6; stroke-linejoin: round; }
.on-demand { fill: none; stroke: #047857; stroke-width: 1.3; stroke-dasharray: 2 2; }
""",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A period that every panel shows."""

    title: str
    begin: float
    end: float
    mark: str = ""
    """Letter that marks this period in the chart of the whole time. Empty: the whole time itself."""


def columns(scenario: SpotScenarioSettings) -> list[Column]:
    """Return the periods: the first wave, the last one if it is separate, and the whole time.

    If a wave takes most of the time, return the whole time only.
    """
    waves = sorted((event for event in scenario.events if event.wave is not None), key=lambda event: event.at)
    found: list[Column] = []
    for place, event in (("first", waves[0]), ("last", waves[-1])) if waves else ():
        begin = max(0.0, event.at - _BEFORE_S)
        end = min(scenario.duration, event.nodes_end_at + _AFTER_S)
        if end - begin < scenario.duration / 2 and (not found or begin > found[-1].end):
            mark = "ab"[len(found)]
            which = "the wave" if len(waves) == 1 else f"the {place} of {len(waves)} waves"
            found.append(Column(f"{mark}: {which}", begin, end, mark))
    return [*found, Column("the whole time", 0.0, scenario.duration)]


def sample_times(scenario: SpotScenarioSettings) -> list[float]:
    """Return the sample times of a picture, ascending. They are closer within the column of a wave."""
    found: set[float] = set()
    for each in columns(scenario):
        found.update(each.begin + (each.end - each.begin) * number / _SAMPLES for number in range(_SAMPLES + 1))
    return sorted(found)


def render_picture(scenario: SpotScenarioSettings, reports: Sequence[PolicyReport]) -> str:
    """Return one SVG document."""
    wanted = sum(app.replicas for app in scenario.workloads)
    highest = max((max(each.ready.high, default=0) for each in reports), default=0)
    most = max(wanted, highest) * 1.1
    panel = _HEAD + _CHART + _BELOW
    height = _TOP + panel * len(reports) + _FOOT
    pods = ", ".join(f"{app.kind} of {app.replicas}" for app in scenario.workloads)
    runs = reports[0].runs if reports else 0
    about = f"{pods} · {format_duration(scenario.duration)} · {format_count(runs, 'run')} of each policy"
    lines = [*_legend()]
    shown = columns(scenario)
    for column, axes in zip(shown, _charts(shown, most, _TOP), strict=True):
        lines.append(f'<text class="column" x="{axes.left}" y="{_TOP - 12}">{escape(column.title)}</text>')
        middle = (axes.left + axes.right) / 2
        lines.append(f'<text x="{middle:.1f}" y="{height - 10}" text-anchor="middle">{_TIME}</text>')
    for number, each in enumerate(reports):
        top = _TOP + number * panel
        lines.append(f'<text class="policy" x="{LEFT}" y="{top + 18}">{escape(each.policy)}</text>')
        lines.append(f'<text x="{LEFT}" y="{top + 35}">{escape(report_headline(each))}</text>')
        middle = top + _HEAD + _CHART / 2
        turned = f'transform="translate({LEFT - 40} {middle:.1f}) rotate(-90)"'
        lines.append(f'<text class="small" text-anchor="middle" {turned}>{_PODS}</text>')
        for column, axes in zip(shown, _charts(shown, most, top + _HEAD), strict=True):
            lines += _chart(axes, scenario, each, wanted)
            if not column.mark:
                lines += _brackets(axes, shown)
    return document(scenario.name, about, height, _STYLE, lines)


def report_headline(report: PolicyReport) -> str:
    """Return the main numbers: means over the runs, for all workloads together."""
    service = report.together
    return (
        f"cost {report.cost.mean:.2f} · outage {service.outage_s.mean:,.0f} s · half or fewer "
        f"{service.half_s.mean:,.0f} s · {service.pod_s_short.mean:,.0f} pod-seconds short · "
        f"least ready {service.least_ready.mean:.1f} · {report.restarts.mean:.1f} restarts"
    )


def _legend() -> Iterator[str]:
    x = LEFT
    for name, kind, width in (
        ("ready, median run", "ready", 136),
        ("ready, nine runs of ten", "band", 160),
        ("on demand, median run", "on-demand", 164),
        ("replicas", "wanted", 66),
        ("half or fewer ready", "half", 136),
        ("notice", "notice", 56),
        ("spot nodes gone", "gone", 110),
    ):
        if kind in ("band", "half", "notice", "gone"):
            yield f'<rect class="{kind}" x="{x}" y="65" width="16" height="11"/>'
            yield f'<rect x="{x}" y="65" width="16" height="11" fill="none" stroke="#d1d5db" stroke-width="0.6"/>'
        else:
            yield f'<path class="{kind}" d="M{x} 71h16"/>'
        yield f'<text x="{x + 21}" y="75">{name}</text>'
        x += width + 22


def _charts(shown: Sequence[Column], most: float, top: float) -> Iterator[Axes]:
    left = float(LEFT)
    for column in shown:
        width = _WAVE_WIDTHS[len(shown) - 2] if column.mark else WIDTH - RIGHT - left
        yield Axes(column.begin, column.end, top, _CHART, most, left, left + width)
        left += width + _BETWEEN


def _brackets(axes: Axes, shown: Sequence[Column]) -> Iterator[str]:
    """Yield marks of the other columns above the chart of the whole time."""
    for each in shown:
        if each.mark:
            begin, end = axes.x(each.begin), axes.x(each.end)
            yield f'<path class="bracket" d="M{begin:.1f} {axes.top - 2}V{axes.top - 6}H{end:.1f}V{axes.top - 2}"/>'
            where = f'x="{(begin + end) / 2:.1f}" y="{axes.top - 9}" text-anchor="middle"'
            yield f'<text class="small" {where}>{each.mark}</text>'


def _chart(axes: Axes, scenario: SpotScenarioSettings, report: PolicyReport, wanted: int) -> Iterator[str]:
    left, right, bottom = axes.left, axes.right, axes.y(0)
    half = axes.y(wanted / 2)
    yield f'<rect class="half" x="{left}" y="{half:.1f}" width="{right - left}" height="{bottom - half:.1f}"/>'
    for event in scenario.events:
        yield from _wave(axes, event)
    for pods in sorted({0.0, wanted / 2, float(wanted)}):
        kind = "axis" if not pods else "grid"
        yield f'<path class="{kind}" d="M{left} {axes.y(pods):.1f}H{right}"/>'
        yield f'<text class="small" x="{left - 8}" y="{axes.y(pods) + 4:.1f}" text-anchor="end">{pods:g}</text>'
    yield f'<path class="wanted" d="M{left} {axes.y(wanted):.1f}H{right}"/>'
    yield f'<path class="band" d="{_area(axes, report.times, report.ready)}"/>'
    yield f'<path class="on-demand" d="{_line(axes, report.times, report.on_demand.middle)}"/>'
    yield f'<path class="ready" d="{_line(axes, report.times, report.ready.middle)}"/>'
    yield from _ticks(axes)


def _wave(axes: Axes, event: SpotEventSettings) -> Iterator[str]:
    """Yield the background of a wave: the notice, and the time without its nodes."""
    if event.wave is None:
        return
    ends = event.nodes_end_at
    back = axes.end if event.wave.back_after is None else ends + event.wave.back_after
    for kind, begin, end in (("notice", event.at, ends), ("gone", ends, back)):
        x, width = axes.x(begin), axes.x(end) - axes.x(begin)
        if width > 0:
            yield f'<rect class="{kind}" x="{x:.1f}" y="{axes.top}" width="{width:.1f}" height="{_CHART}"/>'


def _ticks(axes: Axes) -> Iterator[str]:
    lasting, most = axes.end - axes.begin, (axes.right - axes.left) / _TICK_PX
    step = next((each for each in _TICKS_S if lasting / each <= most), lasting)
    return time_marks(axes, step, format_duration, 16)


def _steps(axes: Axes, times: Sequence[float], values: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yield the corners of a step line, from left to right, without points at which nothing changes."""
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


def _line(axes: Axes, times: Sequence[float], values: Sequence[int]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in _steps(axes, times, values)) if times else ""


def _area(axes: Axes, times: Sequence[float], band: Band) -> str:
    if not times:
        return ""
    there = list(_steps(axes, times, band.high))
    back = reversed(list(_steps(axes, times, band.low)))
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (*there, *back)) + "Z"
