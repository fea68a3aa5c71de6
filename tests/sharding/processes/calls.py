"""The calls of a supervisor and of an executor, by name: what a life may end at (see `mortal`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from situate.objects.messages import Request
from situate.testing.sharding.world.reports import REPORTS

LEASE: Final = f"{REPORTS.group_resource}.default.supervisor"
READS: Final = {
    "executor": ("reads its Lease", "watches", "lists", "reads an object"),
    "supervisor": ("watches", "reads its Lease", "lists", "reads an object", "reads a record"),
}
"""By role."""
WRITES: Final = {
    "executor": (
        "makes its Lease",
        "renews its Lease",
        "writes a status",
        "completes",
        "fails",
        "releases",
        "gives its Lease back",
    ),
    "supervisor": (
        "takes its Lease",
        "renews its Lease",
        "reports",
        "assigns",
        "asks to drain",
        "takes back",
        "ends as failed",
        "says why",
        "tells",
        "stores a record",
        "lets go",
        "deletes",
        "gives its Lease back",
    ),
}
"""By role, of a unit of work's life and of the process's own."""
UNFENCED: Final = frozenset(("reports", "tells", "stores a record"))
"""Writes that do no harm when they arrive late: a report in the Lease, an Event, a record, which no older one
replaces."""
NOW_AND_THEN: Final = frozenset(("asks after an executor",))

NOTHING: Final = "nothing"
PAIRS: Final = {
    "executor": (
        (NOTHING, "reads its Lease"),
        ("reads its Lease", "makes its Lease"),
        ("reads its Lease", "renews its Lease"),
        ("renews its Lease", "renews its Lease"),
        (NOTHING, "watches"),
        ("watches", "lists"),
        (NOTHING, "reads an object"),
        ("reads an object", "writes a status"),
        ("writes a status", "writes a status"),
        ("reads an object", "completes"),
        ("reads an object", "fails"),
        (NOTHING, "releases"),
        ("writes a status", "releases"),
        ("releases", "reads an object"),
    ),
    "supervisor": (
        (NOTHING, "reads its Lease"),
        ("reads its Lease", "takes its Lease"),
        ("takes its Lease", "reports"),
        ("reports", "renews its Lease"),
        (NOTHING, "watches"),
        ("watches", "lists"),
        (NOTHING, "assigns"),
        (NOTHING, "asks to drain"),
        ("assigns", "asks to drain"),
        ("asks to drain", "reads an object"),
        ("asks to drain", "takes back"),
        (NOTHING, "takes back"),
        ("takes back", "says why"),
        (NOTHING, "ends as failed"),
        ("ends as failed", "reads an object"),
        (NOTHING, "says why"),
        (NOTHING, "tells"),
        (NOTHING, "reads an object"),
        ("assigns", "reads an object"),
        ("reads an object", "stores a record"),
        ("stores a record", "reads a record"),
        ("reads a record", "lets go"),
        ("lets go", "deletes"),
        ("reads an object", "deletes"),
    ),
}
"""By role: a call, and one that follows it about the same thing in the life of a process; those that must have
occurred. Others may: whatever occurs ends a life."""


class Call(NamedTuple):
    """One call."""

    name: str
    """One of the above; what has no name is called as it is sent."""
    about: str
    """The object's name, or what else it is about: calls about one thing follow one another."""


def call_of(request: Request, role: str) -> Call:
    method, path = request.method, request.path
    body: Any = json.loads(request.body) if request.body else {}
    collection, _, name = path.rpartition("/")
    if method == "GET" and name in ("leases", "pods", "nodes", REPORTS.plural):
        return Call("lists", name)
    if collection.endswith("/leases") or name == "leases":
        if method == "GET" and role == "supervisor" and name != LEASE:
            return Call("asks after an executor", name)
        return Call(_of_lease(method, body, role), "its Lease")
    if "/events" in path and method in ("POST", "PATCH"):
        return Call("tells", "Events")
    if f"/{REPORTS.plural}/" in path:
        named = path.removesuffix("/status").rpartition("/")[2]
        return Call(_of_object(method, path, body, role), named)
    return Call(f"{method} {path}", path)


def _of_lease(method: str, body: Any, role: str) -> str:
    if method == "GET":
        return "reads its Lease"
    spec = body.get("spec")
    if not spec:
        return "reports"
    if not spec["holderIdentity"]:
        return "gives its Lease back"
    if method == "POST":
        return "makes its Lease"
    begins = role == "supervisor" and spec["acquireTime"] == spec["renewTime"]
    return "takes its Lease" if begins else "renews its Lease"


def _of_object(method: str, path: str, body: Any, role: str) -> str:
    if method in ("GET", "DELETE"):
        return {"GET": "reads an object", "DELETE": "deletes"}[method]
    if path.endswith("/status"):
        said = dict(_said(body))
        if "completedAt" not in said:
            return "says why" if role == "supervisor" else "writes a status"
        ended = "completes" if said.get("successful") else "fails"
        return "ends as failed" if role == "supervisor" else ended
    if role == "executor":
        return "releases"
    written = {each["path"].rpartition("~1")[2]: each["op"] for each in body}
    if written.get("revoked") in ("add", "replace"):
        return "takes back"
    if "epoch" in written or "/metadata/annotations" in written:
        return "assigns"
    return "asks to drain" if "drain" in written else "lets go"


def _said(body: Any) -> Iterator[tuple[str, Any]]:
    """The fields that the patch of a status writes."""
    for each in body:
        value, field = each.get("value"), each["path"].rpartition("/")[2]
        if field == "status" and isinstance(value, Mapping):
            yield from value.items()
        elif each["op"] != "test":
            yield field, value
