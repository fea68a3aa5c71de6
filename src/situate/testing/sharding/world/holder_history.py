"""The eligible and the lost executors, as an observer sees them that reads all stored objects at once.

They follow from stored pods, Leases and nodes alone (docs/spec/sharding.md), without code of the supervisor.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import msgspec

from situate.cluster.storage.store import Event
from situate.cluster.storage.stored_object import StoredObject
from situate.sharding.leases.membership import OUT_OF_SERVICE
from situate.sharding.model.names import CORDON, EXECUTOR_UID, STATUS

_LEASES: Final = "leases.coordination.k8s.io"
_EMPTY: Final[dict[str, Any]] = {}


@dataclass(slots=True)
class IncarnationState:
    """The state of one incarnation."""

    pod_since: float | None = -inf
    """Since when its pod makes it ineligible. None: the pod does not."""
    lease_since: float | None = -inf
    """Since when its Lease reports a release or a drain. None: it does not."""
    renewed_at: float = -inf
    """When the last renewal was stored."""
    ended_at: float | None = None
    """When its Lease was released or its death proven. None: neither."""
    full: bool = False
    """Whether it reports in its Lease that it is full."""
    spec: Any = None
    """The last spec of its Lease."""
    node: str = ""


class EligibilityHistory:
    """The states of all incarnations, by the pod's UID."""

    def __init__(self, labels: dict[str, str], lease_s: float) -> None:
        """`labels` selects executors' pods.

        `lease_s` is the earliest time after which an observer may judge a Lease expired.
        """
        self.states: dict[str, IncarnationState] = {}
        self._changed_at = -inf
        self._labels = labels
        self._lease_s = lease_s

    def ineligible_since(self, uid: str, now: float) -> float | None:
        """Return since when the executor has been ineligible without a gap. None: it is eligible."""
        each = self.states.get(uid)
        if each is None:
            return -inf
        since = [at for at in (each.pod_since, each.lease_since, each.ended_at) if at is not None]
        if now - each.renewed_at >= self._lease_s:
            since.append(each.renewed_at + self._lease_s)
        return min(since, default=None)

    def is_any_eligible(self, now: float, full: Collection[str] = ()) -> bool:
        """Return whether an executor is eligible that is not in `full` and does not report to be full."""
        return any(
            self.ineligible_since(uid, now) is None
            for uid, each in self.states.items()
            if not each.full and uid not in full
        )

    def changed_at(self, now: float) -> float:
        """Return when an executor last became eligible or ineligible."""
        ends = [each.renewed_at + self._lease_s for each in self.states.values()]
        return max((end for end in (self._changed_at, *ends) if end <= now), default=-inf)

    def record_change(self, event: Event, now: float) -> None:
        """Handle a stored change."""
        if event.resource == "pods":
            uid = (event.new or event.last).uid
            self._on_pod_change(event.new, self._state_of(uid), now)
        elif event.resource == _LEASES and event.new is not None:
            self._on_lease_change(event.new.object(), now)
        elif event.resource == "nodes" and event.new is not None:
            self._on_node_change(event.new.object(), now)

    def _record_eligibility(
        self, each: IncarnationState, now: float, *, pod: bool | None = None, lease: bool | None = None
    ) -> None:
        """Record whether the executor's pod or Lease makes it eligible from now on."""
        if pod is not None and pod is not (each.pod_since is None):
            each.pod_since, self._changed_at = None if pod else now, now
        if lease is not None and lease is not (each.lease_since is None):
            each.lease_since, self._changed_at = None if lease else now, now

    def _record_end(self, each: IncarnationState, now: float) -> None:
        if each.ended_at is None:
            each.ended_at = self._changed_at = now

    def _state_of(self, uid: str) -> IncarnationState:
        return self.states.setdefault(uid, IncarnationState())

    def _on_pod_change(self, new: StoredObject | None, each: IncarnationState, now: float) -> None:
        if new is None:
            self._record_eligibility(each, now, pod=False)
            return
        pod = new.object()
        metadata, status = pod["metadata"], pod.get("status", _EMPTY)
        containers = status.get("containerStatuses", ())
        ready = next((one["status"] for one in status.get("conditions", ()) if one["type"] == "Ready"), "")
        ours = self._labels.items() <= metadata.get("labels", _EMPTY).items()
        may = (
            ours
            and "deletionTimestamp" not in metadata
            and metadata.get("annotations", _EMPTY).get(CORDON) != "true"
            and ready == "True"
            and bool(containers)
            and all(one["ready"] for one in containers)
        )
        self._record_eligibility(each, now, pod=may)
        each.node = pod["spec"].get("nodeName", "")
        if ours and containers and all("terminated" in one["state"] for one in containers):
            self._record_end(each, now)  # supervisors do not watch other pods

    def _on_lease_change(self, lease: dict[str, Any], now: float) -> None:
        annotations, spec = lease["metadata"].get("annotations", _EMPTY), lease["spec"]
        if EXECUTOR_UID not in annotations:
            return
        each = self._state_of(annotations[EXECUTOR_UID])
        before = each.spec or _EMPTY
        if spec != before:
            if now - each.renewed_at >= self._lease_s:
                self._changed_at = now
            each.spec, each.renewed_at = spec, now
        if not spec.get("holderIdentity"):
            self._record_end(each, now)
        elif each.ended_at is not None and spec.get("acquireTime") != before.get("acquireTime"):
            each.ended_at, self._changed_at = None, now
        report = msgspec.json.decode(annotations.get(STATUS, "{}"))
        each.full = report.get("capacity") is not None and report.get("open", 0) >= report["capacity"]
        self._record_eligibility(each, now, lease=annotations.get(CORDON) != "true" and not report.get("draining"))

    def _on_node_change(self, node: dict[str, Any], now: float) -> None:
        name, taints = node["metadata"]["name"], node.get("spec", _EMPTY).get("taints", ())
        if any(taint["key"] == OUT_OF_SERVICE for taint in taints):
            for each in self.states.values():
                if each.node == name:
                    self._record_end(each, now)
