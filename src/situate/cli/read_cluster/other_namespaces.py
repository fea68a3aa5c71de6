"""Report objects that a list omits because they are in other namespaces."""

from __future__ import annotations

from situate.cli.terminal.streams import say
from situate.objects.values.counts import counted


def tell_of_others(number: int, noun: str, listed: str | None) -> None:
    """Print one line if a list of namespace `listed` omits `number` objects; nothing if there are none."""
    if number and listed is not None:
        say(f"not listed: {counted(number, noun)} in namespaces other than {listed}; -A lists all")
