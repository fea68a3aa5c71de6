"""Templates of placed Pods whose affinity terms attract or repel other Pods.

Most Pods have no such terms. The templates that have some are listed separately, so that a search for terms that match
a new Pod reads only these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, Final, TypeVar

from situate.framework.pod.pods import PodTemplate

T = TypeVar("T")

_CACHE_LIMIT: Final = 4096


class PodAffinityIndex:
    """The templates with affinity terms, and the number of Pods of each; mutable, of one owner."""

    def __init__(self) -> None:
        self._pods: dict[PodTemplate, int] = {}
        self._namespace_selector_count = 0
        self._plans: dict[Hashable, Any] = {}

    @property
    def templates(self) -> Collection[PodTemplate]:
        """The templates in the order of arrival."""
        return self._pods.keys()

    @property
    def select_namespaces(self) -> bool:
        """Whether one of the terms selects namespaces by their labels."""
        return self._namespace_selector_count > 0

    def move(self, template: PodTemplate, change: int) -> None:
        """Add this number of Pods of a template, or remove them if the number is negative."""
        if not template.has_terms:
            return
        before = self._pods.get(template, 0)
        if before + change:
            self._pods[template] = before + change
        else:
            del self._pods[template]
        if not before or not before + change:
            self._plans.clear()
            if template.selects_namespaces:
                self._namespace_selector_count += 1 if before + change else -1

    def plan(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the result of `build`, computed once while the set of templates stays the same.

        The result must reference each object that the key names by `id`.
        """
        known: T | None = self._plans.get(key)
        if known is None:
            if len(self._plans) >= _CACHE_LIMIT:
                self._plans.clear()
            known = self._plans[key] = build()
        return known

    def copy(self) -> PodAffinityIndex:
        twin = PodAffinityIndex()
        twin._pods = dict(self._pods)
        twin._namespace_selector_count = self._namespace_selector_count
        return twin
