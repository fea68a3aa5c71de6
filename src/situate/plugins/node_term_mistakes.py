"""Validation of node selector terms in a configuration (component-helpers nodeaffinity NewNodeSelector).

In a Pod, an invalid term matches no node. In a configuration it is an error, because it would exclude every Pod from
every node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from situate.framework.pod.node_selection import NAME_FIELD
from situate.objects.kinds.pods import NodeSelectorRequirement, NodeSelectorTerm
from situate.objects.selection.label_selectors import valid_label_key, valid_label_value
from situate.objects.settings.section import Mistake, format_value

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def term_mistakes(term: NodeSelectorTerm, path: str) -> Iterable[Mistake]:
    """Yield the mistakes of all requirements."""
    for number, requirement in enumerate(term.match_expressions):
        yield from _label_mistakes(requirement, f"{path}.matchExpressions[{number}]")
    for number, requirement in enumerate(term.match_fields):
        yield from _field_mistakes(requirement, f"{path}.matchFields[{number}]")


def _label_mistakes(requirement: NodeSelectorRequirement, path: str) -> Iterable[Mistake]:
    operator, values = requirement.operator, requirement.values
    if not valid_label_key(requirement.key):
        yield Mistake(f"{path}.key", format_value(requirement.key), "the key of a node label")
    match operator:
        case "In" | "NotIn":
            if not values:
                yield Mistake(f"{path}.values", "[]", f"at least one value with operator {operator}")
            for number, value in enumerate(values):
                if not valid_label_value(value):
                    yield Mistake(f"{path}.values[{number}]", format_value(value), "the value of a label")
        case "Exists" | "DoesNotExist":
            if values:
                yield Mistake(f"{path}.values", format_value(list(values)), f"none with operator {operator}")
        case "Gt" | "Lt":
            if len(values) != 1 or not _INTEGER.fullmatch(values[0]):
                yield Mistake(f"{path}.values", format_value(list(values)), f"one integer with operator {operator}")
        case _:
            yield Mistake(f"{path}.operator", format_value(operator), "one of " + ", ".join(_OPERATORS))


def _field_mistakes(requirement: NodeSelectorRequirement, path: str) -> Iterable[Mistake]:
    if requirement.key != NAME_FIELD:
        yield Mistake(f"{path}.key", format_value(requirement.key), NAME_FIELD)
    if requirement.operator not in ("In", "NotIn"):
        yield Mistake(f"{path}.operator", format_value(requirement.operator), "In or NotIn")
    if len(requirement.values) != 1:
        yield Mistake(f"{path}.values", format_value(list(requirement.values)), "one name")
