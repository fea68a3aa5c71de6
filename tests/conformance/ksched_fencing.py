"""Sequences of writes of ksched, each accepted or refused, through `admit` and the functions that make the writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from situate.sharding.fencing.admit import Fence, Refusal, Role, Writer, WriteRequest, admit
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.names import DRAIN, EPOCH, EXECUTOR_UID, FINALIZER
from situate.sharding.model.object_view import Holder, Placement, assigned_content, released_content, view_of
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, UnknownPhraseError, compared, failed
from tests.sharding.fencing.token_checker import TokenChecker

PATHS = FieldPaths()
FENCE = Fence(PATHS)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SUPERVISORS = ("supervisor", "s1", "s2")
_OWN = (
    r"(?:the )?re-?read shows (?:its |the )?own assignment(?:[:,;] (?:it is a )?success)?|recognises its own assignment"
)
_OTHER = (
    r"(?:the )?re-?read shows (?:another|the other|a newer|somebody else's|s\d's) (?:assignment|epoch|holder|owner)"
    r"(?:[:,;] (?:gives? up|drops? it|does nothing|nothing|backs? off|leaves? it))?|gives? up"
)
Json = Mapping[str, Any]


@dataclass
class Server:
    """One stored object, and a sink that its executors call."""

    stored: Content
    sink: TokenChecker
    last_token: str = ""
    version: int = 0
    """Rises with every write that is accepted."""

    def apply(self, request: WriteRequest) -> Refusal | None:
        refusal = admit(self.stored, request, FENCE)
        if refusal is None:
            self.stored = request.object
            self.version += 1
        return refusal


def fencing(case: Case) -> Outcome:
    server = Server(_stored(case["initial"]), TokenChecker(), version=case["initial"].get("rv", 0))
    for number, wire in enumerate(case["requests"]):
        wanted = wire["expect"]
        if wanted not in ("accept", "reject"):
            raise UnknownOperationError(f"expectation {wanted!r}; known: accept, reject")
        refusal = _perform(server, wire)
        if (refusal is None) != (wanted == "accept"):
            return failed(f"request {number}, {wire['op']} by {wire.get('by')}: expected {wanted}, got {refusal}")
        if "then" in wire and not _holds(server, wire):
            return failed(f"request {number}: {wire['then']}: the object says {view_of(server.stored, PATHS)}")
    return compared(_final(server), case.get("final") or {})


def _stored(wire: Json) -> Content:
    executor, epoch = wire.get("executor"), wire.get("epoch", 0)
    uid = {EXECUTOR_UID: wire.get("pod_uid") or f"p{executor}"} if executor else {}
    drain = {DRAIN: f"{epoch} 2026-01-01T00:00:30Z drain"} if wire.get("draining") else {}
    metadata = {
        "name": "o",
        "uid": "U1",
        "resourceVersion": str(wire.get("rv", 1)),
        "annotations": {EPOCH: str(epoch), **uid, **drain},
    }
    bare: Content = {"kind": "Work", "metadata": metadata, "spec": {"work": 1}, "status": {}}
    obj = PATHS.assign_to(bare, executor)
    return PATHS.complete(obj, NOW, True) if wire.get("completed") else obj


def _perform(server: Server, wire: Json) -> str | None:
    match wire["op"]:
        case "status_write":
            return server.apply(WriteRequest(_executor(wire), _written(server.stored, wire), "status", wire["epoch"]))
        case "release":
            return server.apply(
                WriteRequest(_executor(wire), released_content(server.stored, PATHS), epoch=wire["epoch"])
            )
        case "assign":
            return server.apply(WriteRequest(_assigner(wire), _assigned(server.stored, wire), epoch=wire["if_epoch"]))
        case "spec_edit":
            return server.apply(WriteRequest(_editor(wire), _edited(server.stored, wire["fields"])))
        case "external_call":
            accepted = server.sink.accepts(wire["token"])
            uid = wire["token"].rpartition(":")[0]
            server.last_token = server.sink.highest(uid)
            return None if accepted else f"the sink has seen {server.last_token}"
        case other:
            known = "assign, external_call, release, spec_edit, status_write"
            raise UnknownOperationError(f"op {other!r}; known: {known}")


def _executor(wire: Json) -> Writer:
    return Writer(Role.EXECUTOR, wire.get("pod_uid", f"p{wire['by']}"))


def _assigner(wire: Json) -> Writer:
    """Whoever is no supervisor is taken for an executor, whose pod bears its name."""
    if wire.get("by", "supervisor").lower() in _SUPERVISORS:
        return Writer(Role.SUPERVISOR)
    return Writer(Role.EXECUTOR, wire.get("pod_uid", f"p{wire['by']}"))


def _editor(wire: Json) -> Writer:
    return Writer(Role.OTHER) if wire.get("by", "user") == "user" else _assigner(wire)


def _written(stored: Content, wire: Json) -> Content:
    if wire.get("complete"):
        return PATHS.complete(stored, NOW, True)
    return {**stored, "status": {**stored["status"], "progress": stored["status"].get("progress", 0) + 1}}


def _assigned(stored: Content, wire: Json) -> Content:
    holder = Holder(wire["to"], wire.get("pod_uid", f"p{wire['to']}"))
    new: Any = assigned_content(view_of(stored, PATHS), PATHS, Placement(holder, 1, NOW, "new", FINALIZER))
    if "set_epoch" in wire:
        new["metadata"]["annotations"][EPOCH] = str(wire["set_epoch"])
    return dict(new)


def _edited(stored: Content, fields: list[str]) -> Content:
    """The object with these fields changed; what a case calls by its meaning is where we keep it."""
    for path in fields:
        steps = _MEANT.get(re.sub(r"[^a-z]", "", path.rpartition(".")[2].lower())) or tuple(path.split(".", 2))
        if len(steps) < 2:
            raise UnknownPhraseError(f"field {path!r}")
        stored = _with(stored, steps, "7" if steps[-1] == EPOCH else "edited")
    return stored


_ASSIGNED = ("spec", "assignedTo")
_MEANT = {
    **dict.fromkeys(("executor", "assignedto", "assignedexecutor", "assignment", "holder"), _ASSIGNED),
    **dict.fromkeys(("poduid", "executoruid"), ("metadata", "annotations", EXECUTOR_UID)),
    "epoch": ("metadata", "annotations", EPOCH),
}
"""Where we keep what a case calls by its meaning, whatever the path before it."""


def _with(content: Any, steps: tuple[str, ...], value: str) -> Content:
    first, *rest = steps
    return {**content, first: _with(content.get(first) or {}, tuple(rest), value) if rest else value}


def _holds(server: Server, wire: Json) -> bool:
    """Whether the stored object shows the caller what the sentence says."""
    view = view_of(server.stored, PATHS)
    is_own = bool(view.executor == wire.get("to") and view.epoch == wire["if_epoch"] + 1)
    if re.fullmatch(_OWN, wire["then"]):
        return is_own
    if re.fullmatch(_OTHER, wire["then"]):
        return not is_own and view.epoch != wire["if_epoch"]
    raise UnknownPhraseError(wire["then"])


def _final(server: Server) -> Json:
    view = view_of(server.stored, PATHS)
    return {
        "executor": view.executor or None,
        "epoch": view.epoch,
        "completed": view.completed,
        "pod_uid": view.executor_uid or None,
        "draining": view.drain is not None,
        "highest_token": server.last_token,
        "rv": server.version,
    }
