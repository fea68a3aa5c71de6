"""Match nodes with a Pod's node selector and node affinity (component-helpers scheduling/corev1/nodeaffinity).

A term is evaluated for one label set and one node name. `situate.framework.snapshot.labels` spreads the result over the
nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.kinds.pods import NodeSelectorRequirement, NodeSelectorTerm
from situate.objects.selection.label_selectors import valid_label_value

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64_LIMIT: Final = 2**63
_NO_INTEGER: Final = "for 'Gt', 'Lt' operators, the value must be an integer"
NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class Term:
    """A node selector term. `matches` is exact for invalid input too: an invalid requirement matches no node."""

    expressions: tuple[NodeSelectorRequirement, ...]
    fields: tuple[NodeSelectorRequirement, ...]
    problems: tuple[str, ...] = ()
    """The invalid values, each with its path below the term."""

    @classmethod
    def from_selector_term(cls, wire: NodeSelectorTerm) -> Term:
        problems = [
            f".matchExpressions[{number}]{problem}"
            for number, expression in enumerate(wire.match_expressions)
            for problem in _problems(expression)
        ]
        return cls(wire.match_expressions, wire.match_fields, tuple(problems))

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that the term reads."""
        return frozenset(expression.key for expression in self.expressions)

    @property
    def names(self) -> frozenset[str] | None:
        """The only node names that the term's fields admit; None without a restriction by name (upstream PreFilter)."""
        if not self.fields:
            return None
        admitted: frozenset[str] | None = None
        for requirement in self.fields:
            if requirement.key == NAME_FIELD and requirement.operator == "In":
                named = frozenset(requirement.values)
                admitted = named if admitted is None else admitted & named
        return admitted

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether the node meets all requirements. A term without requirements matches no node."""
        if not self.expressions and not self.fields:
            return False
        return self.matches_labels(labels) and self.matches_name(name)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        return not self.problems and all(meets_requirement(requirement, labels) for requirement in self.expressions)

    def matches_name(self, name: str) -> bool:
        return all(_name_meets_requirement(requirement, name) for requirement in self.fields)


def _problems(requirement: NodeSelectorRequirement) -> Iterable[str]:
    """Yield the values that the API server admits but upstream cannot parse, in upstream's words."""
    comparing = requirement.operator in ("Gt", "Lt")
    for number, value in enumerate(requirement.values):
        if comparing and not _is_integer(value):
            yield f'.values[{number}]: Invalid value: "{value}": {_NO_INTEGER}'
        if not valid_label_value(value):
            yield f'.values[{number}][{requirement.key}]: Invalid value: "{value}": a label has no such value'


def _is_integer(text: str) -> bool:
    """Return whether the text is a 64-bit integer."""
    return _INTEGER.fullmatch(text) is not None and -_INT64_LIMIT <= int(text) < _INT64_LIMIT


def meets_requirement(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether these labels of a node meet the requirement. An absent label meets `NotIn` and `DoesNotExist`."""
    value = labels.get(requirement.key)
    values = requirement.values
    match requirement.operator:
        case "In":
            return bool(values) and value is not None and value in values
        case "NotIn":
            return bool(values) and (value is None or value not in values)
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
        case "Gt" | "Lt" if len(values) == 1 and value is not None:
            return _compare_integers(value, requirement.operator, values[0])
        case _:
            return False


def _compare_integers(value: str, operator: str, bound: str) -> bool:
    if not (_is_integer(value) and _is_integer(bound)):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)


def _name_meets_requirement(requirement: NodeSelectorRequirement, name: str) -> bool:
    if requirement.key != NAME_FIELD or len(requirement.values) != 1:
        return False
    (wanted,) = requirement.values
    return {"In": name == wanted, "NotIn": name != wanted}.get(requirement.operator, False)
