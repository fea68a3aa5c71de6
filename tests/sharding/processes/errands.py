"""Gives a supervisor and an executor occasion for the calls that they are to make yet."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any, Final

from situate.sharding.model.names import EXECUTOR, EXECUTOR_SELECTOR, EXECUTOR_UID, FINALIZER, POOL, REVOKED, Cause
from situate.sharding.model.object_view import Holder, Placement, assigned_content, view_of
from situate.testing.sharding.world.reports import PATHS, REPORTS, report
from tests.sharding.processes.company import Company
from tests.sharding.processes.units import KINDS, kind_of

GHOST: Final = "ghost"
"""An executor that has given its Lease back, and works no more."""
NOBODY: Final = "like=nobody"
LOST_TOO_OFTEN: Final = 3
_STAY: Final = 2


class Errands:
    """Units of work of each kind, in turn with what was made of the earlier ones."""

    def __init__(self, company: Company) -> None:
        self.made: set[str] = set()
        self.dropped: set[str] = set()
        """Those that a user has deleted."""
        self._company = company
        self._place = company.place
        self._number = itertools.count()
        self._ghost = Holder(GHOST, self._place.pod(GHOST))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        path = self._place.lease_path(GHOST, self._ghost.uid)
        metadata = {
            "name": path.rpartition("/")[2],
            "labels": {POOL: "default"},
            "annotations": {EXECUTOR: GHOST, EXECUTOR_UID: self._ghost.uid},
        }
        spec = {"holderIdentity": "", "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now}
        self._place.call("POST", path.rpartition("/")[0], {"metadata": metadata, "spec": spec})
        for _ in range(_STAY):
            self._create("stay")

    def run(self, needed: set[str]) -> None:
        """`needed`: calls that are to be made yet."""
        found = self._company.reports()
        for kind, calls in KINDS.items():
            if calls & needed:
                of_kind = {name: each for name, each in found.items() if kind_of(name) == kind}
                self._occasion(kind, of_kind)

    def _occasion(self, kind: str, found: dict[str, dict[str, Any]]) -> None:
        match kind:
            case "quick" | "failing" | "doomed" if len(found) < _STAY:
                self._begun(kind)
            case "stubborn" if all(REVOKED in _annotations(each) for each in found.values()):
                self._begun(kind)
            case "orphan" if all(REVOKED in _annotations(each) for each in found.values()):
                self._anew(kind, found)
            case "lone" if all("status" in each for each in found.values()):
                self._anew(kind, found)
            case "odd" if len(found) < _STAY:
                self._spoil(self._create("odd", {EXECUTOR_SELECTOR: NOBODY}))
        if kind in ("stay", "stubborn"):
            self._drop(kind, found)

    def _anew(self, kind: str, found: dict[str, dict[str, Any]]) -> None:
        """Of what nobody works on there are some, not ever more."""
        if len(found) < 2 * _STAY:
            self._begun(kind)
        else:
            self._delete(min(found, key=lambda name: int(name.partition("-")[2])))

    def _begun(self, kind: str) -> None:
        if kind == "doomed":
            self._lost(kind, {}, LOST_TOO_OFTEN)
        elif kind == "orphan":
            self._lost(kind, {EXECUTOR_SELECTOR: NOBODY}, 0)
        else:
            self._create(kind, {EXECUTOR_SELECTOR: NOBODY} if kind == "lone" else None)

    def _drop(self, kind: str, found: dict[str, dict[str, Any]]) -> None:
        """A user deletes one that is worked on, unless another one of its kind is still on its way out."""
        going = [name for name, each in found.items() if "deletionTimestamp" in each["metadata"]]
        held = [name for name, each in found.items() if name not in going and (each.get("status") or {}).get("token")]
        if held and not [name for name in going if REVOKED not in _annotations(found[name])]:
            self._delete(held[0])
            if kind == "stay":
                self._create(kind)

    def _delete(self, name: str) -> None:
        status, answer = self._place.ask("DELETE", REPORTS.path(self._company.namespace, name))
        assert status in (200, 404), answer
        self.dropped.add(name)

    def _create(self, kind: str, annotations: dict[str, str] | None = None) -> str:
        name = self._named(kind)
        self._company.create(name, annotations)
        return name

    def _lost(self, kind: str, annotations: dict[str, str], losses: int) -> None:
        """One that the ghost holds, as a supervisor has given it. Nothing is made if another one leads by now."""
        content = report(self._named(kind))
        content["metadata"]["annotations"] = annotations
        now = datetime.now(UTC)
        term = self._place.call("GET", self._company.lease)["spec"].get("leaseTransitions", 0)
        placement = Placement(self._ghost, term, now, Cause.NEW, FINALIZER, (now,) * losses)
        given = assigned_content(view_of(content, PATHS), PATHS, placement)
        path = REPORTS.path(self._company.namespace)
        status, answer = self._place.ask("POST", path, given, headers=self._place.us)
        assert status in (201, 403), answer
        if status == 403:
            self.made.discard(given["metadata"]["name"])

    def _spoil(self, name: str) -> None:
        """By a completion that is no time, unless somebody else has written meanwhile."""
        path = REPORTS.path(self._company.namespace, name)
        odd = self._place.call("GET", path) | {"status": {"completedAt": True}}
        self._place.ask("PUT", f"{path}/status", odd)

    def _named(self, kind: str) -> str:
        name = f"{kind}-{next(self._number)}"
        self.made.add(name)
        return name


def _annotations(content: dict[str, Any]) -> dict[str, str]:
    return content["metadata"].get("annotations") or {}
