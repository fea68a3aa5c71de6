"""Compute the status of disruption budgets: how many pods may be evicted now (upstream: pkg/controller/disruption).

The eviction subresource decides by this status. For budgets with a percentage or maxUnavailable, pods count only if
their controller is a ReplicaSet or StatefulSet. For other controllers, upstream queries the scale subresource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    EventTemplate,
    ReconcileResult,
    RecordEvent,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.selectors import Selectors
from situate.cluster.controllers.machinery.tables import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Key,
    Obj,
)
from situate.cluster.controllers.node.pods import PodFacts, condition, conditions_with, controller_of
from situate.cluster.controllers.workloads.deployment.rollout import scaled_value
from situate.cluster.errors.times import parse_seconds as parse_time
from situate.cluster.errors.times import timestamp

_DELETION_TIMEOUT = 120.0
"""Seconds within which an evicted pod must be deleted. After that it counts as not disrupted again."""


class _SelectedPods:
    """The pods that a budget selects."""

    def __init__(self) -> None:
        self.pods: dict[str, PodFacts] = {}
        self.healthy = 0
        self.owners: Counter[tuple[str, str]] = Counter()

    def set(self, name: str, pod: PodFacts | None) -> None:
        before = self.pods.pop(name, None)
        for sign, facts in ((-1, before), (1, pod)):
            if facts is not None:
                self.healthy += sign * _is_healthy(facts)
                self.owners[facts.owner_kind, facts.owner_name] += sign
        if before is not None and not self.owners[before.owner_kind, before.owner_name]:
            del self.owners[before.owner_kind, before.owner_name]
        if pod is not None:
            self.pods[name] = pod


class DisruptionController(Controller):
    name = "disruption"
    user = "system:serviceaccount:kube-system:disruption-controller"
    manager = "disruption-controller"
    watches = frozenset({PODS, DISRUPTION_BUDGETS, REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._selectors = Selectors(DISRUPTION_BUDGETS)
        self._members: dict[Key, _SelectedPods] = {}
        self._budgets_by_pod: dict[Key, tuple[str, ...]] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == PODS:
            yield from self._observe_pod(change)
        elif change.resource == DISRUPTION_BUDGETS:
            generation = self._spec_may_differ(change.key)
            self._selectors.apply(change)
            if change.new is None:
                self._members.pop(change.key, None)
            elif change.key not in self._members or generation:
                self._reselect_pods(change.key)
            yield change.key
        elif change.resource in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS):
            # Percentages and maxUnavailable refer to their size.
            for key in self._members:
                if key[0] == change.last.namespace:
                    yield key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        budget = self._cluster.get(DISRUPTION_BUDGETS, *key)
        members = self._members.get(key)
        if budget is None or members is None:
            return NO_WRITES
        expected, desired = self._expected_counts(budget, members)
        disrupted, again = _disrupted_pods(budget, members, now)
        healthy = members.healthy - sum(_is_healthy(members.pods[name]) for name in disrupted)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        before = budget.get("status") or {}
        after: dict[str, Any] = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        actions: list[Action] = []
        if not members.pods and not before.get("observedGeneration"):
            actions.append(RecordEvent(EventTemplate(budget, "NoPods", "No matching pods found")))
        same = all(before.get(field, -1) == value for field, value in after.items())
        if not same or (before.get("disruptedPods") or {}) != disrupted or not _condition_is_current(budget, allowed):
            gone = dict.fromkeys((before.get("disruptedPods") or {}).keys() - disrupted.keys())
            after["disruptedPods"] = {**disrupted, **gone}
            after["conditions"] = conditions_with(budget, _condition(budget, allowed, now))
            actions.append(uid_patch(DISRUPTION_BUDGETS, budget, {"status": after}, "status"))
        return sequential_writes(actions, again)

    def _observe_pod(self, change: Change) -> Iterator[Key]:
        key = change.key
        before = self._budgets_by_pod.pop(key, ())
        after: tuple[str, ...] = ()
        if change.pod is not None:
            after = tuple(self._selectors.names_selecting(key[0], change.pod.labels))
        if after:
            self._budgets_by_pod[key] = after
        for name in dict.fromkeys((*before, *after)):
            members = self._members.setdefault((key[0], name), _SelectedPods())
            members.set(key[1], change.pod if name in after else None)
            yield key[0], name

    def _spec_may_differ(self, key: Key) -> bool:
        """Return whether the spec may have changed since the budget's last count."""
        budget = self._cluster.get(DISRUPTION_BUDGETS, *key)
        if budget is None:
            return False
        observed = (budget.get("status") or {}).get("observedGeneration", 0)
        return bool(observed != budget["metadata"].get("generation", 0))

    def _reselect_pods(self, key: Key) -> None:
        """Select the members again from all pods."""
        self._members[key] = members = _SelectedPods()
        for pod in self._cluster.pods.pods.values():
            if pod.namespace != key[0]:
                continue
            names = tuple(self._selectors.names_selecting(key[0], pod.labels))
            self._budgets_by_pod[pod.key] = names
            if key[1] in names:
                members.set(pod.name, pod)

    def _expected_counts(self, budget: Obj, members: _SelectedPods) -> tuple[int, int]:
        """Return the number of expected pods, and how many of them must be healthy."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            expected = self._expected_replicas(budget["metadata"]["namespace"], members)
            return expected, max(0, expected - scaled_value(spec["maxUnavailable"], expected, up=True))
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(members.pods), least
        expected = self._expected_replicas(budget["metadata"]["namespace"], members)
        return expected, scaled_value(least, expected, up=True)

    def _expected_replicas(self, namespace: str, members: _SelectedPods) -> int:
        """Return the replicas of all controllers of the members, each counted once."""
        sizes: dict[str, int] = {}
        for kind, name in members.owners:
            resource = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}.get(kind)
            owner = self._cluster.get(resource, namespace, name) if resource else None
            if owner is None:
                continue
            above = controller_of(owner)
            if kind == "ReplicaSet" and above is not None and above["kind"] == "Deployment":
                owner = self._cluster.get(DEPLOYMENTS, namespace, above["name"]) or owner
            sizes[owner["metadata"]["uid"]] = owner["spec"].get("replicas", 1)
        return sum(sizes.values())


def _is_healthy(pod: PodFacts) -> bool:
    return pod.ready and not pod.terminating


def _disrupted_pods(budget: Obj, members: _SelectedPods, now: float) -> tuple[dict[str, str], float | None]:
    """Return evicted pods that are not deleted yet, and when the first of them stops to count as disrupted."""
    kept: dict[str, str] = {}
    again = None
    for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
        pod = members.pods.get(name)
        due = parse_time(since) + _DELETION_TIMEOUT
        if pod is None or pod.terminating or due <= now:
            continue
        kept[name] = since
        again = due if again is None else min(again, due)
    return kept, again


def _condition(budget: Obj, allowed: int, now: float) -> dict[str, Any]:
    return {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": timestamp(now),
    }


def _condition_is_current(budget: Obj, allowed: int) -> bool:
    present = condition(budget, "DisruptionAllowed")
    if present is None or present.get("observedGeneration", 0) != budget["metadata"].get("generation", 0):
        return False
    return bool(present.get("status") == ("True" if allowed else "False"))
