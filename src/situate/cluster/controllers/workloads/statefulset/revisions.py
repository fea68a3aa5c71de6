"""History of a StatefulSet's template as ControllerRevisions (upstream: pkg/controller/history).

Names have upstream's form, but the hash in them is that of our own JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from situate.cluster.controllers.machinery.actions import Action, Create, Delete, uid_patch
from situate.cluster.controllers.machinery.owners import controller_reference
from situate.cluster.controllers.machinery.tables import REVISIONS, Obj
from situate.cluster.controllers.workloads.templates import safe_hash

HASH_LABEL = "controller.kubernetes.io/hash"


@dataclass(frozen=True)
class Revisions:
    """Position of a StatefulSet in its history."""

    current: Obj
    update: Obj
    history: Sequence[Obj]
    """All revisions, oldest first."""


def sort_revisions(revisions: Collection[Obj]) -> list[Obj]:
    """Sort revisions by their number, lowest first."""

    def key(revision: Obj) -> tuple[int, str, str]:
        metadata = revision["metadata"]
        return revision["revision"], metadata.get("creationTimestamp", ""), metadata["name"]

    return sorted(revisions, key=key)


def revision_name(revision: Obj) -> str:
    return revision["metadata"]["name"]  # type: ignore[no-any-return]  # decoded JSON


def revision_template(revision: Obj) -> Obj:
    """Return the pod template in a revision."""
    template = dict(revision["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template


def revision_data(stateful_set: Obj) -> dict[str, Any]:
    return {"spec": {"template": {**stateful_set["spec"]["template"], "$patch": "replace"}}}


def resolve_revisions(stateful_set: Obj, history: Sequence[Obj]) -> Revisions | Action:
    """Return the present revisions, or the write that is needed first.

    That write creates a revision, or makes an old one the newest.
    """
    data = revision_data(stateful_set)
    newest = history[-1]["revision"] if history else 0
    update = next((entry for entry in reversed(history) if entry["data"] == data), None)
    if update is None:
        return _create(stateful_set, data, newest + 1)
    if update["revision"] != newest:
        return uid_patch(REVISIONS, update, {"revision": newest + 1})
    named = (stateful_set.get("status") or {}).get("currentRevision")
    current = next((entry for entry in history if revision_name(entry) == named), update)
    return Revisions(current, update, history)


def collision_count(stateful_set: Obj, taken: Collection[str]) -> int:
    """Return the first count, from that in the status on, for which the template gets a free name."""
    count: int = (stateful_set.get("status") or {}).get("collisionCount", 0)
    while _name(stateful_set, revision_data(stateful_set), count)[0] in taken:
        count += 1
    return count


def surplus_deletions(stateful_set: Obj, revisions: Revisions, live: Collection[str]) -> list[Action]:
    """Delete revisions beyond revisionHistoryLimit that no pod and no status refers to, oldest first."""
    limit = stateful_set["spec"].get("revisionHistoryLimit", 10)
    kept = {revision_name(revisions.current), revision_name(revisions.update), *live}
    spare = [entry["metadata"] for entry in revisions.history if revision_name(entry) not in kept]
    gone = spare[: max(0, len(spare) - limit)]
    return [Delete(REVISIONS, metadata["namespace"], metadata["name"], metadata["uid"]) for metadata in gone]


def _create(stateful_set: Obj, data: dict[str, Any], revision: int) -> Create:
    metadata = stateful_set["metadata"]
    name, label = _name(stateful_set, data, (stateful_set.get("status") or {}).get("collisionCount", 0))
    template_labels = (stateful_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**template_labels, HASH_LABEL: label},
            "ownerReferences": [controller_reference(stateful_set)],
        },
        "data": data,
        "revision": revision,
    }
    if metadata.get("annotations"):
        body["metadata"]["annotations"] = dict(metadata["annotations"])
    return Create(REVISIONS, metadata["namespace"], body)


def _name(stateful_set: Obj, data: dict[str, Any], count: int) -> tuple[str, str]:
    label = safe_hash(msgspec.json.encode(data, order="sorted") + str(count).encode())
    return f"{stateful_set['metadata']['name'][:223]}-{label}", label
