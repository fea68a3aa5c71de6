"""Overrides: single values from the environment and from flags that replace those of a configuration file.

They change the plain data before it is parsed. An override is therefore checked like the file itself, and a mistake in
it names its source. The owner of the settings defines the variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from situate.objects.settings.section import Mistake, format_value
from situate.objects.settings.yaml_text import load_yaml

_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)((?:\[(?:\d{1,6}|\*)\])*)")


@dataclass(frozen=True, slots=True)
class Override:
    """A value to set at a path."""

    path: str
    """Keys joined by dots; `[2]` is the entry with index 2 of a list, `[*]` every entry: `vpod[*].podCapacity`."""
    value: object
    """Plain data, parsed as YAML from the given text."""
    source: str
    """For messages: `environment variable POD_CAPACITY`, `flag --set`."""


def override_from_text(path: str, text: str, source: str) -> tuple[Override | None, tuple[Mistake, ...]]:
    """Parse the value as YAML, so that `20` is a number and `[a, b]` a list; empty text stays text."""
    if _parse_path(path) is None:
        allowed = "a path such as vpod[0].podCapacity or leaderElection.namespace"
        return None, (Mistake(source, format_value(path), allowed),)
    value, mistakes = load_yaml(text)
    if mistakes:
        return None, tuple(replace(each, path=source) for each in mistakes)
    return Override(path, value if text.strip() else text, source), ()


def with_overrides(data: object, overrides: Iterable[Override]) -> tuple[object, tuple[Mistake, ...]]:
    """Return a changed copy; a later override wins. Missing mappings on the path are created.

    `[*]` on an absent list changes nothing; an entry beyond the end of a list is a mistake.
    """
    mistakes: list[Mistake] = []
    for override in overrides:
        steps = _parse_path(override.path)
        if steps is None:
            mistakes.append(Mistake(override.source, format_value(override.path), "a path such as vpod[0].podCapacity"))
            continue
        data = _apply_override(data, steps, override, override.path, mistakes)
    return data, tuple(mistakes)


def with_sources(mistakes: Iterable[Mistake], overrides: Iterable[Override]) -> tuple[Mistake, ...]:
    """Add the source of the value to each mistake about an overridden value."""
    patterns = [(_pattern(each.path), each.source) for each in overrides]

    def traced(mistake: Mistake) -> Mistake:
        sources = [source for pattern, source in patterns if pattern.match(mistake.path)]
        if not sources:
            return mistake
        hint = f"the value comes from {sources[-1]}"
        return replace(mistake, hint=f"{mistake.hint}; {hint}" if mistake.hint else hint)

    return tuple(traced(each) for each in mistakes)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path).replace(r"\[\*\]", r"\[\d+\]") + r"($|[.\[])")


def _parse_path(path: str) -> list[str | int] | None:
    """Return keys and indexes, with -1 for every entry; None if the path is invalid."""
    steps: list[str | int] = []
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            return None
        steps.append(match[1])
        steps.extend(-1 if index == "*" else int(index) for index in re.findall(r"\[(\d+|\*)\]", match[2]))
    return steps


def _apply_override(
    data: object, steps: list[str | int], override: Override, path: str, mistakes: list[Mistake]
) -> object:
    if not steps:
        return override.value
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        if data is not None and not isinstance(data, Mapping):
            hint = f"name an entry by its number, such as [0].{step}" if isinstance(data, list) else ""
            mistakes.append(Mistake(path, format_value(data), f"a mapping, to set its key {step}", hint))
            return data
        if rest and rest[0] == -1 and not isinstance((data or {}).get(step), list):
            return data
        return {**(data or {}), step: _apply_override((data or {}).get(step), rest, override, path, mistakes)}
    if not isinstance(data, list):
        mistakes.append(Mistake(path, format_value(data), "a list, to override its entry"))
        return data
    if step >= len(data):
        mistakes.append(Mistake(path, f"entry {step}", f"a number below {len(data)}, the length of the list"))
        return data
    chosen = range(len(data)) if step == -1 else (step,)
    return [
        _apply_override(each, rest, override, path, mistakes) if n in chosen else each for n, each in enumerate(data)
    ]
