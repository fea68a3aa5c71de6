"""Report objects that a list omits because they are in other namespaces."""

from __future__ import annotations

from situate.cli.terminal.streams import print_line
from situate.objects.values.counts import format_count


def report_other_namespaces(number: int, noun: str, listed: str | None) -> None:
    """Print one line if a list of namespace `listed` omits `number` objects; nothing if there are none."""
    if number and listed is not None:
        print_line(f"not listed: {format_count(number, noun)} in namespaces other than {listed}; -A lists all")
