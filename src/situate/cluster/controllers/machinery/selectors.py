"""Label selectors as workload objects carry them, kept per namespace for finding who selects a pod."""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.storage.selection import Labels, LabelTest, object_selector


def nothing(_: Labels) -> bool:
    """The selector of an object that has none."""
    return False


def label_selector(selector: Obj | None) -> LabelTest:
    """The selector of a workload or a budget: none selects nothing, an empty one everything (meta/v1 helpers.go)."""
    return nothing if selector is None else object_selector(selector)


class Selectors:
    """The selectors of all objects of one resource, by namespace and name."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._known: dict[str, dict[str, LabelTest]] = {}

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
