"""Label selectors of workload objects, indexed by namespace to find the owners that select a pod."""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.storage.selection import Labels, LabelTest, object_selector


def select_nothing(_: Labels) -> bool:
    """Match no object: the selector of an object without one."""
    return False


def selector_test(selector: Obj | None) -> LabelTest:
    """Build the test of a workload's or budget's selector (meta/v1 helpers.go).

    A missing selector matches nothing, an empty one everything.
    """
    return select_nothing if selector is None else object_selector(selector)


class Selectors:
    """The selectors of all objects of one resource, by namespace and name."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._known: dict[str, dict[str, LabelTest]] = {}

    def apply(self, change: Change) -> None:
        """Take in a change of the resource. Other resources are ignored."""
        if change.resource != self._resource:
            return
        namespace, name = change.key
        if change.new is None:
            self._known.get(namespace, {}).pop(name, None)
        else:
            spec = change.object.get("spec") or {}
            self._known.setdefault(namespace, {})[name] = selector_test(spec.get("selector"))

    def names_selecting(self, namespace: str, labels: Labels) -> Iterator[str]:
        """Yield the names of the objects in a namespace that select these labels."""
        for name, selector in self._known.get(namespace, {}).items():
            if selector(labels):
                yield name
