"""Render a simulation as SVG text: demand, running vreplicas and pods over time, for each variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from situate.sim.svg import LEFT, RIGHT, WIDTH, Axes, document, style, time_marks
from situate.sim.vpod.ledger import Series
from situate.sim.vpod.report import VariantReport, time_text
from situate.sim.vpod.scenario import VPodScenario
from situate.sim.vpod.settings import VPodEventSettings

_HEAD, _LOAD, _PODS, _GAP = 58, 170, 62, 34  # heights: a panel's title, its two charts, the space below
_LABEL_ROW = 16
_TICKS_S = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
_MOST_TICKS = 13

_STYLE = style(
    "variant",
    """.band { fill: #f59e0b; opacity: 0.13; }
.moment { stroke: #b45309; stroke-width: 1; stroke-dasharray: 3 3; opacity: 0.7; }
.event { font-size: 11px; fill: #b45309; }
.running { fill: #93c5fd; fill-opacity: 0.6; }
.short { fill: #dc2626; }
.wanted { fill: none; stroke: #1e3a8a; stroke-width: 1.5; stroke-linejoin: round; }
.pods { fill: #6ee7b7; fill-opacity: 0.6; }
.pending { fill: #7c3aed; }
.edge { fill: none; stroke: #047857; stroke-width: 1.2; }
""",
)


def render_picture(scenario: VPodScenario, reports: Sequence[VariantReport]) -> str:
    """Return one SVG document. Panels share the axes, so that variants can be compared by eye."""
    settings = scenario.settings
    axis = Axes(0.0, settings.duration)
    rows = _label_rows(axis, settings.events)
    top = 64 + _LABEL_ROW * (1 + max(rows, default=-1)) + 8
    panel = _HEAD + _LOAD + _PODS + _GAP
    height = top + panel * len(reports) + 16
    title = settings.title or "vpod on a simulated cluster"
    sources, nodes = sum(each.count for each in settings.sources), sum(settings.cluster.zones.values())
    zones = len(settings.cluster.zones)
    subtitle = f"{time_text(settings.duration)} · sources: {sources} · nodes: {nodes} · zones: {zones}"
    lines = [*_legend(), *_labels(axis, settings.events, rows, 76)]
    most = _axis_end(max((max(each.series.wanted, default=0) for each in reports), default=0))
    most_pods = _axis_end(max((max(_existing_pod_counts(each.series), default=0) for each in reports), default=0))
    for number, each in enumerate(reports):
        lines += _events(axis, settings.events, top + number * panel + _HEAD)
        lines += _panel(axis, each, top + number * panel, most, most_pods)
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle}" y="{height - 10}" text-anchor="middle">time since the start</text>')
    return document(title, subtitle, height, _STYLE, lines)


def _panel(axis: Axes, report: VariantReport, top: float, most: float, most_pods: float) -> Iterator[str]:
    series = report.series
    yield f'<text class="variant" x="{LEFT}" y="{top + 20}">{escape(report.variant)}</text>'
    yield f'<text x="{LEFT}" y="{top + 40}">{escape(report_headline(report))}</text>'
    load = Axes(0.0, axis.end, top + _HEAD, _LOAD, most)
    pods = Axes(0.0, axis.end, top + _HEAD + _LOAD + 12, _PODS - 12, most_pods)
    yield from _grid(load, 4, "vreplicas")
    ran = [max(0, wanted - worst) for wanted, worst in zip(series.wanted, series.worst, strict=True)]
    yield f'<path class="running" d="{_area(load, series.time, ran)}"/>'
    yield f'<path class="short" d="{_area(load, series.time, series.wanted, ran)}"/>'
    yield f'<path class="wanted" d="{_line(load, series.time, series.wanted)}"/>'
    yield from _grid(pods, 2, "pods")
    existing = _existing_pod_counts(series)
    yield f'<path class="pods" d="{_area(pods, series.time, series.pods)}"/>'
    yield f'<path class="pending" d="{_area(pods, series.time, existing, series.pods)}"/>'
    yield f'<path class="edge" d="{_line(pods, series.time, existing)}"/>'
    step = next((each for each in _TICKS_S if axis.end / each <= _MOST_TICKS), axis.end)
    yield from time_marks(pods, step, time_text, 17)


def _existing_pod_counts(series: Series) -> list[int]:
    """Return the number of pods with and without a node."""
    return [bound + pending for bound, pending in zip(series.pods, series.pending, strict=True)]


def report_headline(report: VariantReport) -> str:
    """Return the main numbers of a report."""
    cost = f"cost {report.cost:,.2f} · " if report.cost else ""
    longest = f", longest shortage {time_text(report.longest.seconds)}" if report.longest is not None else ""
    return (
        f"{report.pod_hours:,.1f} pod-hours · {cost}{report.utilisation:.0%} used · "
        f"{report.all_moves:,} moves · {report.available_share:.3%} ran{longest}"
    )


def _legend() -> Iterator[str]:
    x = WIDTH - RIGHT - 392
    for name, kind, width in (
        ("wanted", "wanted", 88),
        ("ran", "running", 52),
        ("short", "short", 62),
        ("pods", "pods", 60),
        ("Pending pods", "pending", 110),
    ):
        if kind == "wanted":
            yield f'<path class="wanted" d="M{x} 28H{x + 14}"/>'
        else:
            yield f'<rect class="{kind}" x="{x}" y="22" width="14" height="11" rx="2"/>'
        yield f'<text x="{x + 19}" y="32">{name}</text>'
        x += width + 5


def _labels(axis: Axes, events: Sequence[VPodEventSettings], rows: Sequence[int], top: float) -> Iterator[str]:
    for event, row in zip(events, rows, strict=True):
        if event.at <= axis.end:
            anchor = ' text-anchor="end"' if _is_right_aligned(axis, event) else ""
            where = f'x="{axis.x(event.at):.1f}" y="{top + row * _LABEL_ROW}"'
            yield f'<text class="event" {where}{anchor}>{escape(_event_text(event))}</text>'


def _events(axis: Axes, events: Sequence[VPodEventSettings], top: float) -> Iterator[str]:
    """Yield the events behind the charts of one panel."""
    height = _LOAD + _PODS
    for event in events:
        if event.at > axis.end:
            continue
        x = axis.x(event.at)
        if event.lasts is not None:
            width = max(1.5, axis.x(min(event.at + event.lasts, axis.end)) - x)
            yield f'<rect class="band" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}"/>'
        yield f'<path class="moment" d="M{x:.1f} {top}v{height}"/>'


def _label_rows(axis: Axes, events: Sequence[VPodEventSettings]) -> list[int]:
    """Return a row for each label: the first one in which it covers no other label."""
    taken: list[list[tuple[float, float]]] = []
    rows = []
    for event in events:
        width = 6.4 * len(_event_text(event)) + 10
        x = axis.x(min(event.at, axis.end))
        span = (x - width, x) if _is_right_aligned(axis, event) else (x, x + width)
        row = next((i for i, spans in enumerate(taken) if all(span[1] < a or b < span[0] for a, b in spans)), None)
        if row is None:
            taken.append([])
            row = len(taken) - 1
        taken[row].append(span)
        rows.append(row)
    return rows


def _is_right_aligned(axis: Axes, event: VPodEventSettings) -> bool:
    return event.at > 0.8 * axis.end


def _event_text(event: VPodEventSettings) -> str:
    name, value = event.key_and_value()
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return words if value is True else f"{words} {value}"


def _grid(axis: Axes, lines: int, unit: str) -> Iterator[str]:
    for number in range(lines + 1):
        value = axis.most * number / lines
        y = axis.y(value)
        kind = "grid" if number else "axis"
        yield f'<path class="{kind}" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="small" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    middle = axis.top + axis.height / 2
    yield (
        f'<text class="small" text-anchor="middle" transform="translate({LEFT - 46} {middle:.1f}) rotate(-90)">'
        f"{unit}</text>"
    )


def _line(axis: Axes, times: Sequence[float], values: Sequence[float]) -> str:
    """Return a step line, in which each value holds since the sample before.

    Points at which nothing changes are left out.
    """
    if not times:
        return ""
    path = [f"M{axis.x(0):.1f} {axis.y(values[0]):.1f}"]
    for when, value, after in zip(times, values, [*values[1:], None], strict=True):
        if after != value:
            path.append(f"H{axis.x(when):.1f}" + ("" if after is None else f"V{axis.y(after):.1f}"))
    return "".join(path)


def _area(axis: Axes, times: Sequence[float], upper: Sequence[float], lower: Sequence[float] | None = None) -> str:
    """Return the area between two lines, or above the axis, without empty runs."""
    below = lower if lower is not None else [0] * len(upper)
    path = []
    begin = 0
    while begin < len(upper):
        end = begin
        while end < len(upper) and (upper[end] > below[end]) == (upper[begin] > below[begin]):
            end += 1
        if upper[begin] > below[begin]:
            edges = [times[begin - 1] if begin else 0.0, *times[begin:end]]
            there = [f"V{axis.y(upper[i]):.1f}H{axis.x(edges[i - begin + 1]):.1f}" for i in range(begin, end)]
            back = [f"V{axis.y(below[i]):.1f}H{axis.x(edges[i - begin]):.1f}" for i in reversed(range(begin, end))]
            path.append(f"M{axis.x(edges[0]):.1f} {axis.y(below[begin]):.1f}{''.join(there)}{''.join(back)}Z")
        begin = end
    return "".join(path)


def _axis_end(value: float) -> float:
    """Return the end of an axis: the next multiple of 4 with one or two significant digits."""
    for scale in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000):
        for digits in range(4, 40, 4):
            if digits * scale >= value:
                return float(digits * scale)
    return value
