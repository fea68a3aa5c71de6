"""The common parts of the simulations' pictures: an SVG document, and a chart's axes with marks of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 1120
LEFT: Final = 62
"""Where the charts begin."""
RIGHT: Final = 26
"""Width of the margin on the right."""

_STYLE: Final = """
text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #4b5563; }
.title { font-size: 20px; font-weight: 600; fill: #111827; }
.PANEL { font-size: 15px; font-weight: 600; fill: #111827; }
.small { font-size: 11px; fill: #6b7280; }
.grid { stroke: #e5e7eb; stroke-width: 1; }
.axis { stroke: #9ca3af; stroke-width: 1; }
"""


def style(panel: str, further: str) -> str:
    """Return the CSS rules of a picture. `panel` is the class of its panels' titles."""
    return _STYLE.replace("PANEL", panel) + further


def document(title: str, subtitle: str, height: float, rules: str, content: Iterable[str]) -> str:
    """Return an SVG document with these CSS rules."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{rules}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{LEFT}" y="32">{escape(title)}</text>',
        f'<text class="small" x="{LEFT}" y="52">{escape(subtitle)}</text>',
        *content,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Axes:
    """Maps seconds to x, and values to y of a chart. Seconds outside the chart are at its edges."""

    begin: float
    end: float
    top: float = 0.0
    height: float = 1.0
    most: float = 1.0
    """The value at the top. The value at the bottom is 0."""
    left: float = LEFT
    right: float = WIDTH - RIGHT

    def x(self, seconds: float) -> float:
        within = min(max(seconds, self.begin), self.end)
        return self.left + (self.right - self.left) * (within - self.begin) / (self.end - self.begin)

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.most)


def time_marks(axes: Axes, step: float, label: Callable[[float], str], label_offset: int) -> Iterator[str]:
    """Yield a mark below a chart at each multiple of `step`, with its label `label_offset` below the chart."""
    bottom = axes.top + axes.height
    when = math.ceil(axes.begin / step) * step
    while when <= axes.end:
        x = axes.x(when)
        yield f'<path class="axis" d="M{x:.1f} {bottom:.1f}v4"/>'
        where = f'x="{x:.1f}" y="{bottom + label_offset:.1f}" text-anchor="middle"'
        yield f'<text class="small" {where}>{label(when)}</text>'
        when += step
