"""Simulated kubelets: bound pods start, report, are resized, and end. No container runs.

Annotations on a pod, with any value, suppress a part of this:
- `notready`: it stays Pending.
- `unready`: it runs but is not ready.
- `crashloop`: its containers crash repeatedly.
- `hold`: it stays Terminating.
- `noresize`: a resize is never reported.

For whole nodes see `kubelets`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Delete,
    ReconcileResult,
    merge_patch,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import NODES, PODS, Key, Obj
from situate.cluster.controllers.node import allocations
from situate.cluster.controllers.node.kubelets import KubeletStates
from situate.cluster.controllers.node.pod_status import ContainerHealth, running_status
from situate.cluster.controllers.node.pods import PodFacts
from situate.cluster.errors.times import timestamp

_LONGEST_BACK_OFF = 300.0


@dataclass(slots=True)
class _PodTimes:
    """Times at which the kubelet first saw a pod's states, in seconds since 1970; 0 if not yet."""

    uid: str
    bound: float = 0.0
    ending: float = 0.0
    resized: float = 0.0
    generation: int = 0
    crashes: int = 0
    crash_at: float = 0.0
    chance: float = 0.0


class KubeletController(Controller):
    name = "kubelet"
    user = "system:node"
    manager = "kubelet"
    watches = frozenset({NODES, PODS})

    def __init__(self, cluster: ControllerContext, kubelets: KubeletStates) -> None:
        self._cluster = cluster
        self._kubelets = kubelets
        self._settings = cluster.settings.kubelet
        self._pod_times: dict[Key, _PodTimes] = {}
        self._network = int(ipaddress.IPv4Network(self._settings.pod_network).network_address)
        self._addresses = 0
        self._deferred_resizes: dict[str, dict[Key, None]] = {}
        """Pods with a deferred resize by node, the one that has waited longest first."""

    def observe(self, change: Change, now: float) -> Iterator[Key]:
        if change.resource == NODES:
            # A kubelet that works again catches up with all of its pods.
            for pod in self._cluster.pods.pods_on_node(change.last.name):
                yield pod.key
        elif change.resource == PODS:
            bound = change.pod
            last = bound or change.pod_before
            if last is not None and last.node in self._deferred_resizes:
                yield from [key for key in self._deferred_resizes[last.node] if key != change.key]
            if bound is None:
                self._pod_times.pop(change.key, None)
                self._forget_resize(last.node if last is not None else "", change.key)
            elif bound.node:
                self._record_times(bound, now)
                self._record_address(change.object)
                yield change.key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        facts = self._cluster.pods.pods.get(key)
        seen = self._pod_times.get(key)
        if facts is None or seen is None or not facts.node or not self._kubelets.is_running(facts.node):
            return NO_WRITES
        if not facts.terminating and facts.finished:
            return NO_WRITES
        pod = self._cluster.get(PODS, *key)
        if pod is None:
            return NO_WRITES
        annotations = pod["metadata"].get("annotations") or {}
        if facts.terminating:
            return NO_WRITES if "hold" in annotations else self._remove_ended_pod(pod, facts, seen, now)
        if facts.phase in ("", "Pending"):
            if "notready" in annotations:
                return NO_WRITES
            due = seen.bound + self._delay(self._settings.start_delay, facts.node, seen)
            if now < due:
                return ReconcileResult(requeue_at=due)
        return self._report_status(pod, facts, seen, now)

    def _remove_ended_pod(self, pod: Obj, facts: PodFacts, seen: _PodTimes, now: float) -> ReconcileResult:
        """Remove the pod when its containers have ended, at the latest after its grace period."""
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        if grace == 0:
            return NO_WRITES
        due = seen.ending + min(self._delay(self._settings.stop_delay, facts.node, seen), grace)
        if now < due:
            return ReconcileResult(requeue_at=due)
        return sequential_writes([Delete(PODS, facts.namespace, facts.name, facts.uid, grace_seconds=0)])

    def _report_status(self, pod: Obj, facts: PodFacts, seen: _PodTimes, now: float) -> ReconcileResult:
        annotations = pod["metadata"].get("annotations") or {}
        status = pod.get("status") or {}
        again, pending, acting = None, None, False
        resize = facts.phase == "Running" and allocations.needs_resize(pod)
        if resize or (facts.phase == "Running" and status.get("observedGeneration", 0) != facts.generation):
            if "noresize" in annotations:
                return NO_WRITES
            pending = self._decide_resize(pod, facts) if resize else None
            due = seen.resized + self._delay(self._settings.resize_delay, facts.node, seen)
            if pending is None and now < due:
                again, acting = due, resize
        if pending is None or pending.reason != allocations.DEFERRED:
            self._forget_resize(facts.node, facts.key)
        health = ContainerHealth(ready="unready" not in annotations)
        if "crashloop" in annotations:
            health, crash_at = self._crash_state(seen, facts.restarts, now)
            again = crash_at if again is None else min(again, crash_at)
        else:
            seen.crashes = 0
        address = status.get("podIP") or self._free_address()
        wanted = running_status(pod, address, self._kubelets.addresses.get(facts.node, ""), health, now)
        if facts.phase == "Running":
            wanted = allocations.with_resize_state(pod, wanted, pending, acting=acting, at=timestamp(now))
        patch = merge_patch(dict(status), {**status, **wanted})
        if not patch:
            return ReconcileResult(requeue_at=again)
        return sequential_writes([uid_patch(PODS, pod, {"status": patch}, "status")], again)

    def _decide_resize(self, pod: Obj, facts: PodFacts) -> allocations.PendingResize | None:
        """Decide on the resize. A deferred pod waits for capacity, behind the pods that wait already."""
        node = self._cluster.get(NODES, "", facts.node) or {}
        others = (
            each for each in self._cluster.pods.pods_on_node(facts.node) if each.key != facts.key and not each.finished
        )
        there = [found for found in (self._cluster.get(PODS, *each.key) for each in others) if found is not None]
        pending = allocations.check_resize(pod, there, (node.get("status") or {}).get("allocatable") or {})
        if pending is not None and pending.reason == allocations.DEFERRED:
            self._deferred_resizes.setdefault(facts.node, {}).setdefault(facts.key)
        return pending

    def _forget_resize(self, node: str, key: Key) -> None:
        waiting = self._deferred_resizes.get(node, {})
        waiting.pop(key, None)
        if not waiting:
            self._deferred_resizes.pop(node, None)

    def _crash_state(self, seen: _PodTimes, restarts: int, now: float) -> tuple[ContainerHealth, float]:
        """Return the state of a crash loop, and the time of the next crash."""
        if not seen.crashes:
            seen.crashes = restarts + 1
            seen.crash_at = now
        back_off = self._back_off(seen.crashes)
        while now >= seen.crash_at + back_off:
            seen.crash_at += back_off
            seen.crashes += 1
            back_off = self._back_off(seen.crashes)
        return ContainerHealth(
            crashes=seen.crashes, back_off=back_off, crashed_at=seen.crash_at
        ), seen.crash_at + back_off

    def _back_off(self, crashes: int) -> float:
        return min(self._settings.crash_back_off * 2.0 ** min(crashes - 1, 30), _LONGEST_BACK_OFF)

    def _delay(self, seconds: float, node: str, seen: _PodTimes) -> float:
        return seconds * (1 + self._settings.jitter * seen.chance) + self._kubelets.delay_of(node)

    def _record_times(self, pod: PodFacts, now: float) -> None:
        seen = self._pod_times.get(pod.key)
        if seen is None or seen.uid != pod.uid:
            chance = self._cluster.rng.random() if self._settings.jitter else 0.0
            seen = self._pod_times[pod.key] = _PodTimes(pod.uid, bound=now, generation=pod.generation, chance=chance)
        if pod.terminating and not seen.ending:
            seen.ending = now
        if pod.generation != seen.generation:
            seen.generation = pod.generation
            seen.resized = now

    def _record_address(self, pod: Obj) -> None:
        """Record a stored pod's address, so that it is not allocated again."""
        address = (pod.get("status") or {}).get("podIP", "")
        parts = address.split(".")
        if len(parts) == 4 and all(part.isdigit() for part in parts):
            value = int.from_bytes(bytes(int(part) & 255 for part in parts), "big")
            if value >> 23 == self._network >> 23:
                self._addresses = max(self._addresses, value - self._network)

    def _free_address(self) -> str:
        self._addresses += 1
        return ".".join(str(part) for part in (self._network + self._addresses).to_bytes(4, "big"))
