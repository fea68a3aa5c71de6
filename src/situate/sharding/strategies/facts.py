"""The part of an object that strategies see: a small frozen value instead of the object itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import msgspec

from situate.objects.settings.section import format_value
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import PRIORITY
from situate.sharding.model.object_view import ObjectView, Source, content_of

HIGHEST_PRIORITY: Final = 1_000_000_000
"""As the highest value of a PriorityClass that users may create; the lowest is its negative."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


class ObjectFacts(msgspec.Struct, frozen=True, eq=False):
    """The facts of one object, as passed to a strategy."""

    uid: str
    namespace: str = ""
    name: str = ""
    executor: str = ""
    """The executor to which the object is assigned; empty if it is unassigned."""
    owner_uid: str = ""
    """UID of the controlling owner; empty if there is none."""
    weight: int = 1
    """Units of work, in which the capacity of executors is counted. At least 1."""
    priority: int = 0
    selector: str = ""
    """Label selector over executors, from the object's annotation; empty: any executor."""
    moved: bool = False
    """Whether the object was assigned before."""
    completed: bool = False
    source: Source = msgspec.field(default_factory=dict)
    """Not compared: the other fields contain its facts."""

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectFacts and _fact_fields(self) == _fact_fields(other)

    def __hash__(self) -> int:
        return hash(_fact_fields(self))

    @property
    def content(self) -> Content:
        """The whole object, for strategies and rules of users. Read it once: it may have to be decoded from JSON."""
        return content_of(self.source)


_fact_fields = attrgetter(*ObjectFacts.__struct_fields__[:-1])


def facts_of(view: ObjectView, weight_of: Callable[[ObjectView], int] | None = None) -> ObjectFacts:
    """Return the facts of an object. An unreadable priority counts as 0, see `priority_oddity`."""
    return ObjectFacts(
        uid=view.uid,
        namespace=view.namespace,
        name=view.name,
        executor=view.executor,
        owner_uid=view.owner_uid,
        weight=1 if weight_of is None else max(1, weight_of(view)),
        priority=0 if view.priority is None else _priority(view.priority) or 0,
        selector=view.executor_selector,
        moved=view.epoch > 0,
        completed=view.completed,
        source=view.source,
    )


def priority_oddity(view: ObjectView) -> str | None:
    """Return the mistake in the priority annotation; None if there is none."""
    text = view.priority
    if text is None or _priority(text) is not None:
        return None
    allowed = f"whole numbers from {-HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
    return f"annotation {PRIORITY} is {format_value(text)}, allowed: {allowed}; it counts as 0 until it is corrected"


def oddities_of(view: ObjectView) -> tuple[str, ...]:
    """Return a sentence about each annotation that counts as absent because it cannot be read."""
    priority = priority_oddity(view)
    return view.oddities if priority is None else (*view.oddities, priority)


def _priority(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    return int(text) if abs(int(text)) <= HIGHEST_PRIORITY else None
