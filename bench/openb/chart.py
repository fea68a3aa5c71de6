"""The study as a picture: an SVG of two panels, in use and fragmented, over what has been asked for.

Written by hand, since two panels of lines need no library. Colours tell the policies apart for colour-blind readers
too, names stand at the ends of the lines, and a dark page gets a dark picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, ceil, degrees, floor

from bench.openb.report import ALLOCATED_AT, FRAGMENTED_AT, Band, Policy, Published, Study

WIDTH, HEIGHT = 1120, 520
TOP, BOTTOM = 118, 430
FROM, TO = 80, 130
"""Of the first panel, in percent asked for: before, every policy finds room for nearly everything."""
LABEL_GAP = 17

LIGHT = {
    "Random": "#767676",
    "DotProd": "#2b8cc4",
    "GpuClustering": "#00876a",
    "GpuPacking": "#b87a00",
    "BestFit": "#b0578d",
    "FGD": "#d04a00",
}
DARK = {
    "Random": "#a0a0a0",
    "DotProd": "#6ec1f0",
    "GpuClustering": "#2bc49a",
    "GpuPacking": "#f0b030",
    "BestFit": "#e08dc0",
    "FGD": "#ff7a2f",
}
DASHES = {"Random": "2 4", "DotProd": "8 4"}
THICK = {"FGD": 3.2}


@dataclass(frozen=True, slots=True)
class Panel:
    """A place for lines, in the units of its axes."""

    left: float
    right: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (self.right - self.left)

    def y(self, value: float) -> float:
        return BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (BOTTOM - TOP)


def chart(listed: str, study: Study, known: Mapping[str, Published], gpus: int, seeds: str) -> str:
    """The whole file. `known`: what was published, by policy; empty where nothing was."""
    low = min(*(each.allocated.low[FROM] for each in study.values()), *(min(each.allocated) for each in known.values()))
    top = max(
        *(max(each.fragmented.high) for each in study.values()), *(max(each.fragmented) for each in known.values())
    )
    used = Panel(62, 410, FROM, TO, 5 * floor(low / 5), 100)
    broken = Panel(636, 938, 0, TO, 0, 5 * ceil(top / 5))
    best = max(study, key=lambda policy: study[policy].allocated.mean[TO])
    note = "band: lowest and highest seed"
    if known:
        note += " · ring: published mean (Weng et al., USENIX ATC 2023)"
    parts = [
        _text(24, 36, f"Placing openb's pods ({listed} list) on {gpus:,} shared GPUs", "title"),
        _text(24, 60, f"Pods arrive one by one and stay; one that fits nowhere is dropped. Mean of {seeds}.", "muted"),
        _head(used, "GPUs in use"),
        _head(broken, "GPUs idle but fragmented"),
        *_axes(used, range(FROM, TO + 1, 10), 5),
        *_axes(broken, range(0, TO + 1, 20), 5),
        _everything(used),
    ]
    parts += _lines(study, used, lambda policy: policy.allocated, best)
    parts += _lines(study, broken, lambda policy: policy.fragmented, best)
    for policy, each in known.items():
        if policy in study:
            parts += _rings(policy, used, zip(ALLOCATED_AT, each.allocated, strict=True))
            parts += _rings(policy, broken, zip(FRAGMENTED_AT, each.fragmented, strict=True))
    asked = "GPUs asked for by the pods so far, % of the cluster"
    parts += [
        _text((used.left + used.right) / 2, BOTTOM + 44, asked, "muted middle"),
        _text((broken.left + broken.right) / 2, BOTTOM + 44, asked, "muted middle"),
        _text(24, HEIGHT - 18, note, "small"),
    ]
    body = "\n".join(parts)
    told = f"In use when {TO} % have been asked for: " + ", ".join(
        f"{policy} {each.allocated.mean[TO]:.1f} %" for policy, each in study.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="what told">\n<title id="what">GPUs in use and fragmented, {escape(listed)} list</title>\n'
        f'<desc id="told">{escape(told)}</desc>\n<style>{_style()}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>\n{body}\n</svg>\n'
    )


def _axes(panel: Panel, marks: Iterable[int], step: int) -> list[str]:
    parts = []
    value = panel.y_low
    while value <= panel.y_high:
        y = panel.y(value)
        parts.append(f'<line class="grid" x1="{panel.left}" x2="{panel.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(panel.left - 8, y + 4, f"{value:g}", "tick end"))
        value += step
    for mark in marks:
        x = panel.x(mark)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>')
        parts.append(_text(x, BOTTOM + 20, str(mark), "tick middle"))
    parts.append(f'<line class="axis" x1="{panel.left}" x2="{panel.right}" y1="{BOTTOM}" y2="{BOTTOM}"/>')
    return parts


def _everything(panel: Panel) -> str:
    """Where a line would be if nothing were ever refused."""
    begin = max(panel.x_low, panel.y_low)
    line = _path(panel, [(begin, begin), (100, 100)])
    x, y = panel.x(91), panel.y(91)
    slope = degrees(atan2(panel.y(100) - panel.y(90), panel.x(100) - panel.x(90)))
    along = f"translate({x - 9:.1f} {y - 5:.1f}) rotate({slope:.1f})"
    return f'<path class="all" d="{line}"/><text class="small middle" transform="{along}">all that is asked for</text>'


def _head(panel: Panel, what: str) -> str:
    return (
        f'<text class="head" x="{panel.left - 38:g}" y="98">{what}'
        f'<tspan class="muted plain" dx="8">% of the cluster</tspan></text>'
        f'<text class="small end" x="{panel.right + 162:g}" y="98">at {TO} %</text>'
    )


def _lines(study: Study, panel: Panel, of: Callable[[Policy], Band], best: str) -> list[str]:
    order = sorted(study, key=lambda policy: policy == best)  # the best one on top
    bands, lines, labels = [], [], []
    percents = range(int(panel.x_low), int(panel.x_high) + 1)
    for policy in order:
        band = of(study[policy])
        around = [(at, band.high[at]) for at in percents] + [(at, band.low[at]) for at in reversed(percents)]
        bands.append(f'<path class="band fill-{policy}" d="{_path(panel, around)}Z"/>')
        dashes = f' stroke-dasharray="{DASHES[policy]}"' if policy in DASHES else ""
        line = _path(panel, [(at, band.mean[at]) for at in percents])
        lines.append(f'<path class="line {policy}" stroke-width="{THICK.get(policy, 2)}"{dashes} d="{line}"/>')
    ends = {policy: of(study[policy]).mean[int(panel.x_high)] for policy in study}
    for policy, y in apart({policy: panel.y(value) for policy, value in ends.items()}).items():
        bent = f"M{panel.right + 3:.1f} {panel.y(ends[policy]):.1f}L{panel.right + 14:.1f} {y:.1f}h8"
        labels.append(f'<path class="lead {policy}" d="{bent}"/>')
        weight = " strong" if policy == best else ""
        labels.append(_text(panel.right + 28, y + 4.5, policy, f"label{weight}"))
        labels.append(_text(panel.right + 162, y + 4.5, f"{ends[policy]:.1f}", f"label end{weight}"))
    return bands + lines + labels


def _rings(policy: str, panel: Panel, points: Iterable[tuple[int, float]]) -> list[str]:
    return [
        f'<circle class="ring {policy}" cx="{panel.x(at):.1f}" cy="{panel.y(value):.1f}" r="4"/>'
        for at, value in points
    ]


def apart(wanted: Mapping[str, float]) -> dict[str, float]:
    """As near to where they are wanted as they can be with `LABEL_GAP` between them."""
    groups: list[tuple[list[str], float]] = []
    for name in sorted(wanted, key=lambda name: wanted[name]):
        members, middle = [name], wanted[name]
        while groups and middle - groups[-1][1] < LABEL_GAP * (len(members) + len(groups[-1][0])) / 2:
            before, _ = groups.pop()
            members = before + members
            middle = sum(wanted[member] for member in members) / len(members)
        groups.append((members, middle))
    return {
        name: middle + (number - (len(members) - 1) / 2) * LABEL_GAP
        for members, middle in groups
        for number, name in enumerate(members)
    }


def _path(panel: Panel, points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{panel.x(x):.1f} {panel.y(min(max(y, panel.y_low), panel.y_high)):.1f}" for x, y in points)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:.1f}">{escape(text)}</text>'


def _style() -> str:
    return (
        'text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:#1f2328}'
        ".plain{font-size:13px;font-weight:400}.title{font-size:20px;font-weight:600}.head{font-size:15px;font-weight:600}.strong{font-weight:700}"
        ".small{font-size:12px}.middle{text-anchor:middle}.end{text-anchor:end}"
        ".muted,.small,.tick{fill:#59636e}.page{fill:#ffffff}.grid{stroke:#d8dee4}.axis{stroke:#818b98}"
        ".all{fill:none;stroke:#818b98;stroke-dasharray:1 4;stroke-linecap:round;stroke-width:1.6}"
        ".line,.lead,.ring{fill:none;stroke-linejoin:round;stroke-linecap:round}"
        ".band{opacity:.16;stroke:none}.ring{stroke-width:1.6}"
        + _colours(LIGHT)
        + "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.muted,.small,.tick{fill:#9198a1}.page{fill:#0d1117}"
        ".grid{stroke:#2a313c}.axis,.all{stroke:#6e7681}.band{opacity:.22}" + _colours(DARK) + "}"
    )


def _colours(colours: Mapping[str, str]) -> str:
    return "".join(f".{policy}{{stroke:{colour}}}.fill-{policy}{{fill:{colour}}}" for policy, colour in colours.items())
