"""Label selectors as workload objects carry them, kept per namespace for finding who selects a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from situate.cluster.controllers.changes import Change, Obj

Labels: TypeAlias = Mapping[str, str]
Selector: TypeAlias = Callable[[Labels], bool]


def nothing(_: Labels) -> bool:
    """The selector of an object that has none."""
    return False


def label_selector(selector: Obj | None) -> Selector:
    """A LabelSelector as a predicate: none selects nothing, an empty one everything (meta/v1 helpers.go)."""
    if selector is None:
        return nothing
    wanted = dict(selector.get("matchLabels") or {})
    expressions = tuple(selector.get("matchExpressions") or ())

    def matches(labels: Labels) -> bool:
        for name, value in wanted.items():
            if labels.get(name) != value:
                return False
        return all(_holds(expression, labels) for expression in expressions)

    return matches


def _holds(expression: Obj, labels: Labels) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value is not None and value in (expression.get("values") or ())
        case "NotIn":
            return value is None or value not in (expression.get("values") or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


class Selectors:
    """The selectors of all objects of one resource, by namespace and name."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._known: dict[str, dict[str, Selector]] = {}

    def apply(self, change: Change) -> None:
        """Take in a change of the resource; others are passed over."""
        if change.resource != self._resource:
            return
        namespace, name = change.key
        if change.new is None:
            self._known.get(namespace, {}).pop(name, None)
        else:
            spec = change.object.get("spec") or {}
            self._known.setdefault(namespace, {})[name] = label_selector(spec.get("selector"))

    def selecting(self, namespace: str, labels: Labels) -> Iterator[str]:
        """Names of the objects of a namespace that select these labels."""
        for name, selector in self._known.get(namespace, {}).items():
            if selector(labels):
                yield name
