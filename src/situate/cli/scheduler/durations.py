"""Parse the time that a command runs."""

from __future__ import annotations

from situate.cli.terminal.failures import WrongInput
from situate.objects.values.durations import BadDuration, parse_duration


def seconds_of(text: str, option: str) -> float:
    """Return a positive number of seconds. Raises `WrongInput`, which names the option."""
    try:
        seconds = parse_duration(text)
    except BadDuration as problem:
        raise WrongInput(f"{option} {text}: {problem}") from None
    if seconds <= 0:
        raise WrongInput(f"{option}: found {text}, allowed: a duration longer than 0, such as 10m")
    return seconds
