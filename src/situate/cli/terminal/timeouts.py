"""Parse `--timeout`, the time that a command waits."""

from __future__ import annotations

import math

from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.section import format_value
from situate.objects.values.durations import BadDuration, parse_duration


def parse_timeout(text: str) -> float:
    """Return seconds; infinite for 0. Raises `WrongInput`."""
    try:
        found = parse_duration(text)
    except BadDuration as bad:
        raise WrongInput(f"--timeout: found {format_value(text)}; {bad}") from None
    if found < 0:
        raise WrongInput(
            f"--timeout: found {format_value(text)}, allowed: a duration such as 90s or 10m, or 0 for no limit"
        )
    return found or math.inf
