"""The policy in a ConfigMap: `data.predicates` and `data.priorities`, each a JSON array in a string.

An invalid ConfigMap yields every mistake, each with its path, the value found and the allowed values. The last valid
policy then stays in force (D16). Unknown plugin names are skipped with a note, as upstream skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from situate.objects.settings.section import Mistake, format_value, spelling_hint
from situate.vpod.policy.arguments import InvalidArguments
from situate.vpod.policy.registry import FILTERS, MAX_WEIGHT, MIN_WEIGHT, SCORES, Policy, Predicate, Priority


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """The result of parsing. `policy` is None exactly if there are mistakes."""

    policy: Policy | None
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Findings:
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_mistake(self, path: str, found: object, allowed: str) -> None:
        self.mistakes.append(Mistake(path, "" if found is None else format_value(found), allowed))


def parse_policy(data: object) -> ParsedPolicy:
    """Parse the policy in a ConfigMap's `data`, or return all mistakes. Never raises, for any `data`."""
    findings = _Findings()
    if not isinstance(data, Mapping):
        findings.add_mistake("data", data, "an object with the keys predicates and priorities")
        return ParsedPolicy(None, tuple(findings.mistakes))
    predicates = tuple(_predicates(data, findings))
    priorities = tuple(_priorities(data, findings))
    policy = None if findings.mistakes else Policy(predicates, priorities)
    return ParsedPolicy(policy, tuple(findings.mistakes), tuple(findings.notes))


def _predicates(data: Mapping[object, object], findings: _Findings) -> Iterator[Predicate]:
    for path, entry in _entries(data, "predicates", findings):
        fields = _fields(path, entry, ("name", "args"), findings)
        name = _plugin_name(path, fields, FILTERS, findings)
        args = _parse_args(path, fields, FILTERS.get(name), findings)
        yield Predicate(name, args)


def _priorities(data: Mapping[object, object], findings: _Findings) -> Iterator[Priority]:
    for path, entry in _entries(data, "priorities", findings):
        fields = _fields(path, entry, ("name", "weight", "args"), findings)
        name = _plugin_name(path, fields, SCORES, findings)
        weight = _parse_weight(path, fields, findings)
        args = _parse_args(path, fields, SCORES.get(name), findings)
        yield Priority(name, weight, args)


def _entries(
    data: Mapping[object, object], key: str, findings: _Findings
) -> Iterator[tuple[str, Mapping[str, object]]]:
    path = f"data.{key}"
    allowed = 'a JSON array in a string, such as [{"Name": "PodFitsResources"}] or []'
    if key not in data:
        findings.add_mistake(path, None, allowed)
        return
    text = data[key]
    if not isinstance(text, str):
        findings.add_mistake(path, text, allowed)
        return
    try:
        array = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        findings.add_mistake(path, text, f"{allowed} ({error})")
        return
    if array is not None and not isinstance(array, list):
        findings.add_mistake(path, text, allowed)
        return
    for index, entry in enumerate(array or ()):
        if isinstance(entry, dict):
            yield f"{path}[{index}]", entry
        else:
            findings.add_mistake(f"{path}[{index}]", entry, 'an object such as {"Name": "PodFitsResources"}')


def _fields(
    path: str, entry: Mapping[str, object], known: tuple[str, ...], findings: _Findings
) -> Mapping[str, object]:
    """Return the entry's fields by lower-case name. If two spellings occur, the last one wins, as in Go."""
    fields: dict[str, object] = {}
    for name, value in entry.items():
        folded = name.casefold()
        if folded in known:
            fields[folded] = value
        else:
            findings.notes.append(f"{path}: field {format_value(name)} is ignored; known fields are {', '.join(known)}")
    return fields


def _plugin_name(path: str, fields: Mapping[str, object], known: Mapping[str, object], findings: _Findings) -> str:
    """Return the name as written. An unknown name stays in the policy, which skips it, and gets a note."""
    name = fields.get("name")
    if not isinstance(name, str):
        findings.add_mistake(f"{path}.name", name, f"the name of a plugin: {', '.join(sorted(known))}")
        return ""
    if name not in known:
        hint = spelling_hint(name[:80], known) or f"known plugins are {', '.join(sorted(known))}"
        findings.notes.append(f"{path}: no plugin is named {format_value(name)}, so vpod skips it; {hint}")
    return name


def _parse_weight(path: str, fields: Mapping[str, object], findings: _Findings) -> int:
    weight = fields.get("weight")
    if weight is None:
        return 0
    if isinstance(weight, int) and not isinstance(weight, bool) and MIN_WEIGHT <= weight <= MAX_WEIGHT:
        return weight
    findings.add_mistake(f"{path}.weight", weight, f"an integer from {MIN_WEIGHT} to {MAX_WEIGHT}")
    return 0


def _parse_args(
    path: str, fields: Mapping[str, object], plugin: Callable[[str | None], object] | None, findings: _Findings
) -> str | None:
    args = fields.get("args")
    if args is not None and not isinstance(args, str):
        findings.add_mistake(f"{path}.args", args, 'JSON inside a string, such as "{\\"MaxSkew\\": 2}"')
        return None
    if plugin is not None:
        try:
            plugin(args)
        except InvalidArguments as error:
            findings.add_mistake(f"{path}.args", error.found, error.allowed)
    return args
