"""The API server of a history of decisions: objects by name, versions, preconditions, and an optional policy.

It is a small model with JSON patches, resourceVersions, UIDs, finalizers and deletion only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from situate.cluster.patch.patches import json_patch
from situate.sharding.fencing import admit as admitting
from situate.sharding.fencing.admit import Fence, Writer, admit
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.patches import Operations

PATHS: Final = FieldPaths()
FENCE: Final = Fence(PATHS)


class Refused(Enum):
    """A refusal by the server."""

    CONFLICT = 409
    INVALID = 422
    """A `test` operation of a patch has failed."""
    GONE = 404
    FORBIDDEN = 403
    """Refused by the policy."""
    FAILED = 500
    """A transient failure. Callers that retry treat 429, 500 and 503 alike."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of an object, parsed once for all readers."""

    content: Content
    view: ObjectView


@dataclass(frozen=True, slots=True)
class Election:
    """The supervisors' Lease."""

    holder: str = ""
    transitions: int = 0
    version: int = 0


Changed = Callable[[str, Stored | None, Stored | None], None]


class Store:
    """All stored objects."""

    def __init__(self, changed: Changed, *, policy: bool) -> None:
        """`changed` is called with each change: name, before, after."""
        self.objects: dict[str, Stored] = {}
        self.held_by: defaultdict[str, set[str]] = defaultdict(set)
        """By executor id: names of the objects assigned to it."""
        self.election = Election()
        self.policy = policy
        self._changed = changed
        self._version = 0

    def create(self, name: str, uid: str, **parts: Any) -> Stored:
        """Create an unassigned object. Raises `KeyError` if the name is taken."""
        if name in self.objects:
            raise KeyError(name)
        metadata = {"name": name, "namespace": "work", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
        content = {"apiVersion": "batch.example.com/v1", "kind": "Report", "metadata": metadata, "spec": {"pages": 3}}
        return self._put(name, content | parts)

    def get(self, name: str) -> Stored | Refused:
        return self.objects.get(name, Refused.GONE)

    def of_executor(self, executor: str) -> dict[str, Stored]:
        """Return the objects that a watch with the executor's label shows."""
        return {name: self.objects[name] for name in sorted(self.held_by[executor])}

    def patch(self, name: str, operations: Operations, writer: Writer, subresource: str = "") -> Stored | Refused:
        stored = self.objects.get(name)
        if stored is None:
            return Refused.GONE
        after = json_patch(stored.content, [*operations])
        if not isinstance(after, dict):
            return Refused.INVALID
        if after["metadata"]["resourceVersion"] != stored.content["metadata"]["resourceVersion"]:
            return Refused.CONFLICT
        return self._admitted(name, stored, after, writer, subresource)

    def edit(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Stored | Refused:
        """Change an object as a user, based on its present state."""
        stored = self.objects[name]
        return self._admitted(name, stored, change(dict(stored.content)), Writer(admitting.Role.OTHER), "")

    def delete(self, name: str, uid: str = "", version: str = "") -> Stored | Refused:
        """Delete an object under the given preconditions. An object with finalizers remains until they are removed."""
        stored = self.objects.get(name)
        if stored is None:
            return Refused.GONE
        if (uid and stored.view.uid != uid) or (version and stored.view.resource_version != version):
            return Refused.CONFLICT
        if stored.view.finalizers:
            if not stored.view.deleting:
                metadata = {**stored.content["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
                self._put(name, {**stored.content, "metadata": metadata})
        else:
            self._remove(name, stored)
        return stored

    def claim(self, holder: str, version: int) -> Election | Refused:
        """Take or renew the supervisors' Lease if it still has this version."""
        if version != self.election.version:
            return Refused.CONFLICT
        taken = self.election.holder != holder
        self.election = Election(holder, self.election.transitions + taken, version + 1)
        return self.election

    def _admitted(
        self, name: str, stored: Stored, after: dict[str, Any], writer: Writer, subresource: str
    ) -> Stored | Refused:
        if self.policy:
            request = admitting.Request(writer, after, subresource, leader_term=self.election.transitions)
            if admit(stored.content, request, FENCE) is not None:
                return Refused.FORBIDDEN
        return self._put(name, after)

    def _put(self, name: str, content: Content) -> Stored:
        self._version += 1
        metadata = {**content["metadata"], "resourceVersion": str(self._version)}
        content = {**content, "metadata": metadata}
        before, after = self.objects.get(name), Stored(content, view_of(content, PATHS))
        if after.view.deleting and not after.view.finalizers:
            assert before is not None, "only what is there can be deleted"
            self._remove(name, before)
            return after
        self.objects[name] = after
        if before is not None and before.view.executor:
            self.held_by[before.view.executor].discard(name)
        if after.view.executor:
            self.held_by[after.view.executor].add(name)
        self._changed(name, before, after)
        return after

    def _remove(self, name: str, stored: Stored) -> None:
        del self.objects[name]
        self.held_by[stored.view.executor].discard(name)
        self._changed(name, stored, None)
