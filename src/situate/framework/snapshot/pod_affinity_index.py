"""Which pods in place attract or repel others.

Most pods say nothing about others. So the templates of those that do are kept apart, and whoever asks what the pods in
place think of a new one looks at these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any, Final, TypeVar

from situate.framework.pod.pods import PodTemplate

T = TypeVar("T")

_REMEMBERED: Final = 4096


class LiveTerms:
    """The templates with affinity terms, and so many pods of each; mutable, of one owner."""

    def __init__(self) -> None:
        self._pods: dict[PodTemplate, int] = {}
        self._selecting = 0
        self._plans: dict[Hashable, Any] = {}

    @property
    def templates(self) -> Collection[PodTemplate]:
        """In the order in which they came."""
        return self._pods.keys()

    @property
    def select_namespaces(self) -> bool:
        """Whether the labels of namespaces matter to one of the terms."""
        return self._selecting > 0

    def move(self, template: PodTemplate, change: int) -> None:
        """So many pods of a template come, or go if it is negative."""
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
                self._selecting += 1 if before + change else -1

    def plan(self, key: Hashable, build: Callable[[], T]) -> T:
        """What `build` makes of the templates, made once while they are the same.

        Whatever a key names by `id` has to be kept by the result.
        """
        known: T | None = self._plans.get(key)
        if known is None:
            if len(self._plans) >= _REMEMBERED:
                self._plans.clear()
            known = self._plans[key] = build()
        return known

    def copy(self) -> LiveTerms:
        twin = LiveTerms()
        twin._pods = dict(self._pods)
        twin._selecting = self._selecting
        return twin
