"""`make recording`: play the demo and write its pictures as one animated SVG, which the landing page shows.

The pictures are those that `situate demo` draws on a terminal of 100 columns. A picture is taken when a chapter begins
and when it ends. On the way there are further ones, at most one in `BETWEEN_S`. The SVG shows each for some seconds.
"""

from __future__ import annotations

import asyncio
import html
import io
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from rich.color import Color, ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import DIMMED_MONOKAI

from situate.cli.demo.command import play
from situate.cli.demo.vpod.picture import Picture

TARGET: Final = Path(__file__).parent / "getting-started" / "demo.svg"
COLUMNS: Final = 100
ROWS: Final = 30
BETWEEN_S: Final = 1.0
"""Shortest time between two pictures of one chapter."""
SHOWN_S: Final = 1.0
HELD_S: Final = 3.0
"""How long the last picture of a chapter is shown."""
_WIDTH: Final = 8.4
_HEIGHT: Final = 17
_MARGIN: Final = 12


Frame: TypeAlias = tuple[float, list[str]]
"""Seconds to show it, and its lines as SVG text elements."""


@dataclass
class Recorder:
    """A screen that keeps the pictures."""

    frames: list[Frame] = field(default_factory=list)
    first_ended: int = 0
    """Index of the picture with which the first chapter ended."""
    _taken: float = 0.0
    _chapter: tuple[str, int] = ("", 0)

    def update(self, picture: Picture, /) -> None:
        chapter = (picture.title, len(picture.finished_steps))
        now = time.monotonic()
        if chapter == self._chapter and now - self._taken < BETWEEN_S:
            return
        ended = chapter[1] > self._chapter[1]
        self._taken, self._chapter = now, chapter
        if ended and chapter[1] == 1:
            self.first_ended = len(self.frames)
        self.frames.append((HELD_S if ended else SHOWN_S, drawn(replace(picture, hints=()))))  # hints name a folder


def drawn(picture: Picture) -> list[str]:
    """Return the lines of a picture as SVG text elements."""
    console = Console(
        file=io.StringIO(), width=COLUMNS, height=ROWS, force_terminal=True, color_system="truecolor", highlight=False
    )
    lines = console.render_lines(picture, console.options.update(height=ROWS), pad=False)
    return [text for number, line in enumerate(lines) if (text := _line(number, line))]


def _line(number: int, segments: list[Segment]) -> str:
    column, parts, backgrounds = 0, [], []
    for segment in segments:
        style = segment.style
        if style is not None and style.bgcolor is not None:
            box = f'x="{_MARGIN + column * _WIDTH:.1f}" y="{_MARGIN + number * _HEIGHT + 4}" height="{_HEIGHT}"'
            fill = _colour(style.bgcolor, foreground=False)
            backgrounds.append(f'<rect {box} width="{segment.cell_length * _WIDTH:.1f}" fill="{fill}"/>')
        if segment.text.strip():
            attributes = ""
            if style is not None and style.color is not None:
                attributes += f' fill="{_colour(style.color, foreground=True)}"'
            if style is not None and style.bold:
                attributes += ' font-weight="700"'
            if style is not None and style.dim:
                attributes += ' opacity="0.7"'
            x = _MARGIN + column * _WIDTH
            length = segment.cell_length * _WIDTH
            text = html.escape(segment.text)
            parts.append(f'<tspan x="{x:.1f}" textLength="{length:.1f}"{attributes}>{text}</tspan>')
        column += segment.cell_length
    text = f'<text y="{_MARGIN + (number + 1) * _HEIGHT}">{"".join(parts)}</text>' if parts else ""
    return "".join(backgrounds) + text


def _colour(colour: Color, *, foreground: bool) -> str:
    return colour.downgrade(ColorSystem.TRUECOLOR).get_truecolor(DIMMED_MONOKAI, foreground=foreground).hex


def animated(frames: list[Frame]) -> str:
    """Return one SVG that shows the frames in turn, in a loop. With reduced motion it shows the last one.

    Frames share equal lines, which makes the file a fraction as large.
    """
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, ROWS * _HEIGHT + 2 * _MARGIN
    total = sum(seconds for seconds, _ in frames)
    styles, groups, begin = [], [], 0.0
    shared: dict[str, int] = {}
    for number, (seconds, lines) in enumerate(frames):
        first, last = 100 * begin / total, 100 * (begin + seconds) / total
        hidden = f"0%,{first:.3f}%{{visibility:hidden}}" if number else ""
        shown = f"{first + 0.001 if number else 0:.3f}%,{last:.3f}%{{visibility:visible}}"
        after = f"{last + 0.001:.3f}%,100%{{visibility:hidden}}" if number < len(frames) - 1 else ""
        styles.append(f"@keyframes f{number}{{{hidden}{shown}{after}}}#f{number}{{animation-name:f{number}}}")
        uses = "".join(f'<use href="#t{shared.setdefault(line, len(shared))}"/>' for line in lines)
        groups.append(f'<g class="f" id="f{number}">{uses}</g>')
        begin += seconds
    last_id = len(frames) - 1
    style = (
        f".f{{visibility:hidden;animation:{total:g}s step-end infinite}}text{{white-space:pre}}{''.join(styles)}"
        f"@media (prefers-reduced-motion:reduce){{.f{{animation:none!important}}#f{last_id}{{visibility:visible}}}}"
    )
    definitions = "".join(f'<g id="t{number}">{line}</g>' for line, number in shared.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="The demo of situate on a terminal: thirteen chapters">\n<style>{style}</style>\n'
        f"<defs>{definitions}</defs>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#17181c"/>\n'
        '<g font-family="ui-monospace,Menlo,Consolas,monospace" '
        f'font-size="14" fill="#d8dade">\n{chr(10).join(groups)}\n</g>\n</svg>\n'
    )


def main() -> None:
    recorder = Recorder()
    with tempfile.TemporaryDirectory(prefix="situate-recording-") as folder:
        failed = asyncio.run(play(Path(folder), None, once=True, screen=recorder))
    if failed:
        sys.exit("a chapter failed: the recording stays as it was")
    frames = recorder.frames[recorder.first_ended :]  # the first picture is the one that readers see while it loads
    TARGET.write_text(animated(frames), encoding="utf-8")
    print(f"{len(frames)} pictures in {TARGET.name}, {TARGET.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
