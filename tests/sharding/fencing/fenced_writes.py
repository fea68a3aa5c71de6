"""Objects with fenced fields, and writes of them, as tests of `admit` and of the policy want them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from situate.sharding.fencing.admission_policy import POD_UID, ServiceAccounts
from situate.sharding.fencing.admit import Fence, Role, Writer, WriteRequest
from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.names import (
    ASSIGNED_AT,
    DRAIN,
    EPOCH,
    EXECUTOR,
    EXECUTOR_UID,
    FINALIZER,
    LOSSES,
    REVOKED,
    TERM,
    WHY,
    Cause,
)
from situate.sharding.model.object_view import (
    Holder,
    Placement,
    assigned_content,
    released_content,
    revoked_content,
    view_of,
)

PATHS = FieldPaths()
FENCE = Fence(PATHS)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNTS = ServiceAccounts(("shop:supervisor",), ("shop:executor", "shop:executor-2"))
SUPERVISOR = Writer(Role.SUPERVISOR)
USER = Writer(Role.OTHER)
A, B = Writer(Role.EXECUTOR, "uid-a"), Writer(Role.EXECUTOR, "uid-b")
HOLDER_A, HOLDER_B = Holder("a", "uid-a"), Holder("b", "uid-b")


def work(*, completed: bool = False, **annotations: str) -> Content:
    """Nobody's yet; `annotations` by the last part of their names, with `_` for `-`."""
    found = {f"sharding.situate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    obj: Content = {
        "apiVersion": "batch.example.com/v1",
        "kind": "Report",
        "metadata": {"name": "r", "namespace": "shop", "uid": "U", "resourceVersion": "7", "annotations": found},
        "spec": {"work": 1},
        "status": {"progress": 1},
    }
    return PATHS.complete(obj, NOW, True) if completed else obj


def assigned(obj: Content, holder: Holder, term: int = 1) -> Content:
    return assigned_content(view_of(obj, PATHS), PATHS, Placement(holder, term, NOW, "new", FINALIZER))


def taken(obj: Content, term: int = 1) -> Content:
    return revoked_content(view_of(obj, PATHS), PATHS, term, Cause.DRAIN)


def given_up(obj: Content) -> Content:
    return released_content(obj, PATHS)


def of_a(*, drained: bool = False) -> Content:
    """Held by a under epoch 1."""
    obj = assigned(work(), HOLDER_A)
    return annotated(obj, {DRAIN: "1 2026-01-01T00:00:30Z drain"}) if drained else obj


def annotated(obj: Content, annotations: Mapping[str, str | None]) -> Content:
    merged = {**obj["metadata"].get("annotations", {}), **annotations}
    kept = {key: value for key, value in merged.items() if value is not None}
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def with_status(obj: Content, **status: Any) -> Content:
    return {**obj, "status": {**obj.get("status", {}), **status}}


def with_spec(obj: Content, **spec: Any) -> Content:
    return {**obj, "spec": {**obj.get("spec", {}), **spec}}


def user_info(writer: Writer) -> dict[str, Any]:
    """As a server tells of the writer."""
    name = {
        Role.SUPERVISOR: "system:serviceaccount:shop:supervisor",
        Role.EXECUTOR: "system:serviceaccount:shop:executor-2",
        Role.OTHER: "jane",
    }[writer.role]
    info: dict[str, Any] = {"username": name, "groups": ["system:authenticated"]}
    return info | ({"extra": {POD_UID: [writer.pod_uid]}} if writer.pod_uid else {})


_NUMBERS = st.sampled_from(["", "0", "1", "2", "3", "07", "-1", "1.5", "x", "9" * 19, "1\n"])
_UIDS = st.sampled_from(["", "uid-a", "uid-b"])
_EXECUTORS: st.SearchStrategy[Any] = st.sampled_from([None, "", "a", "b", 5, ["a"], {"a": "b"}])
_TIMES: st.SearchStrategy[Any] = st.sampled_from([None, "", "2026-01-01T00:00:00Z", "2027-01-01t00:00:00Z", "soon", 3])
_WRITERS = st.sampled_from([SUPERVISOR, Writer(Role.SUPERVISOR, "uid-a"), USER, A, B, Writer(Role.EXECUTOR)])
_ANNOTATED = (EPOCH, TERM, EXECUTOR_UID, DRAIN, WHY, REVOKED, LOSSES, ASSIGNED_AT)


@st.composite
def objects(draw: st.DrawFn) -> Content:
    """Whatever anybody may have written, as far as a server takes it."""
    chosen: dict[str, st.SearchStrategy[str]] = {EPOCH: _NUMBERS, TERM: _NUMBERS, EXECUTOR_UID: _UIDS}
    other: st.SearchStrategy[str] = st.sampled_from(["", "x", "y"])
    present = [name for name in _ANNOTATED if draw(st.booleans())]
    annotations = {name: draw(chosen.get(name, other)) for name in present}
    metadata: dict[str, Any] = {"name": "r", "uid": "U"}
    without_any: bool = draw(st.booleans())
    if annotations or not without_any:
        metadata["annotations"] = annotations
    if draw(st.booleans()):
        metadata["labels"] = {EXECUTOR: draw(st.sampled_from(["a", "b"]))}
    if draw(st.booleans()):
        metadata["finalizers"] = draw(st.sampled_from([[], [FINALIZER], ["other"], ["other", FINALIZER]]))
    obj: dict[str, Any] = {"metadata": metadata}
    if draw(st.booleans()):
        obj["spec"] = {"work": 1}
        if draw(st.booleans()):
            obj["spec"]["assignedTo"] = draw(_EXECUTORS)
    if draw(st.booleans()):
        obj["status"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "completedAt": _TIMES,
                    "successful": st.sampled_from([True, False]),
                    "progress": st.integers(1, 2),
                    "conditions": st.sampled_from([[], [{"type": "Assigned"}], [{"type": "ArchiveFailed"}]]),
                },
            )
        )
    return obj


@st.composite
def changes(draw: st.DrawFn, old: Content) -> Content:
    """Mostly a write that one of the parts makes, sometimes with something wrong about it; else any other object."""
    which = draw(st.integers(0, 9))
    if which == 0:
        return draw(objects())
    readable = view_of(old, PATHS)
    new = old
    if which <= 3:
        new = assigned(old, draw(st.sampled_from([HOLDER_A, HOLDER_B])), draw(st.integers(0, 3)))
    elif which == 4:
        new = taken(old, draw(st.integers(0, 3)))
    elif which <= 6:
        new = given_up(old)
    elif which == 7:
        new = with_status({**old, "status": {**(old.get("status") or {})}}, progress=draw(st.integers(1, 3)))
    elif not readable.completed:
        new = PATHS.complete(old, NOW, draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        new = annotated(new, {draw(st.sampled_from(_ANNOTATED)): draw(st.sampled_from([None, "x", "1", "2", "uid-a"]))})
    if draw(st.integers(0, 5)) == 0:
        new = with_status(new, conditions=[{"type": "Assigned"}])
    if draw(st.integers(0, 5)) == 0:
        kept = [each for each in new["metadata"].get("finalizers", []) if each != FINALIZER]
        new = {**new, "metadata": {**new["metadata"], "finalizers": kept}}
    return new


@st.composite
def writes(draw: st.DrawFn) -> tuple[Content | None, WriteRequest]:
    """What is stored, None before a creation, and a write of it."""
    stored: Content | None = None if draw(st.integers(0, 7)) == 0 else draw(objects())
    new = draw(objects()) if stored is None else draw(changes(stored))
    subresource = "" if stored is None else draw(st.sampled_from(["", "status"]))
    return stored, WriteRequest(draw(_WRITERS), new, subresource, leader_term=draw(st.integers(0, 3)))
