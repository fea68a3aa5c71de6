"""What must hold in every history, after every step and at every write: the safety rules of vpod, on what the API
server holds and on what the processes remember. A breach is a sentence with the rule's number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from situate.cluster.effects import Identity
from situate.cluster.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.vpod.world import GROUPS_PATH, NAMESPACE, STATEFULSET, Member, VPodWorld
from situate.vpod.model import ordinal_of
from situate.vpod.pods import Cause, PodClass
from situate.vpod.state_json import differences

Counts = Mapping[str, int]


class Breach(AssertionError):
    """An invariant does not hold; we are wrong."""


@dataclass(slots=True)
class Watchdog:
    """Watches a world from its first moment on."""

    world: VPodWorld
    excused: dict[str, int] = field(default_factory=dict)
    """Pods that may hold more than their capacity, and how much at the most: a smaller capacity or somebody else's
    write caused it, and it must not grow."""
    moved: int = 0
    """Vreplicas that changed their pod."""
    writes: int = 0
    """By processes of vpod, Leases and Events apart."""

    def __post_init__(self) -> None:
        self.world.told.append(self._written)

    def check(self) -> None:
        """After a step. Raises `Breach`."""
        self._check_capacity()
        for member in self.world.members:
            self._check_memory(member)
            if member.process.complaints:
                raise Breach(f"{member.identity}: asyncio complains: {member.process.complaints[0]}")
            if (failure := member.process.failure()) is not None:
                raise Breach(f"{member.identity} ended: {failure!r}") from failure

    def excuse(self) -> None:
        """What lies above capacity now was put there by somebody else, or capacity has become smaller.

        What was decided before and is still being written counts as well.
        """
        load = self.load()
        for member in self.world.members:
            state = member.controller.placing.state
            for slot in state.slots.values() if state is not None else ():
                load[slot.name] = max(load.get(slot.name, 0), slot.adding)
        for pod, units in load.items():
            if units > self.world.capacity:
                self.excused[pod] = max(units, self.excused.get(pod, 0))

    def load(self) -> dict[str, int]:
        """Vreplicas on each of our pods, by the statuses on the server."""
        load: dict[str, int] = {}
        for placements in self.placements().values():
            for pod, vreplicas in placements.items():
                load[pod] = load.get(pod, 0) + vreplicas
        return load

    def placements(self) -> dict[str, dict[str, int]]:
        """What every status says of our pods, as far as it can be read."""
        return {key: _readable(content) for key, content in self.groups().items()}

    def groups(self) -> dict[str, dict[str, Any]]:
        """Every ConsumerGroup on the server, by `namespace/name`."""
        listing = self.world.call("GET", f"{GROUPS_PATH}/consumergroups")
        return {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in listing["items"]}

    def replicas(self) -> int:
        content = self.world.call("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}")
        return int(content["spec"]["replicas"])

    def _check_capacity(self) -> None:
        """S1. Pods that hold too much must have an excuse, and hold no more than when it was given."""
        load = self.load()
        for pod, units in load.items():
            if units <= self.world.capacity:
                self.excused.pop(pod, None)
            elif units > self.excused.get(pod, 0):
                raise Breach(f"S1: {pod} holds {units} of {self.world.capacity}: {self._who_is_on(pod)}")
            else:
                self.excused[pod] = units
        for pod in [pod for pod in self.excused if pod not in load]:
            del self.excused[pod]

    def _who_is_on(self, pod: str) -> str:
        return ", ".join(f"{key}: {on[pod]}" for key, on in self.placements().items() if pod in on)

    def _check_memory(self, member: Member) -> None:
        """S10: what is kept is what a rebuild from the same stores gives. S6: nothing reserved for absent vpods."""
        state = member.controller.placing.state
        if state is None:
            return
        found = differences(state, member.controller.placing.rebuilt(state.options, state.now))
        if found:
            raise Breach(f"S10: {member.identity}: the kept state differs from the rebuilt one: {found[:3]}")
        for key, entry in state.vpods.items():
            if entry.reserved is not None and not entry.listed:
                raise Breach(f"S6: {member.identity} keeps a reservation for {key}, which does not exist")

    def _written(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        """At every write of a process that the server carried out."""
        if request.method == "GET" or isinstance(answer, Watch) or answer.status >= 300:
            return
        if "/leases" in request.path or request.path.endswith("/events"):
            return
        self.writes += 1
        self._check_leader(request, identity)
        if request.path.endswith(f"/statefulsets/{STATEFULSET}/scale"):
            self._check_scale(msgspec.json.decode(request.body)["spec"]["replicas"])

    def _check_leader(self, request: Request, identity: Identity) -> None:
        """S7: the writer holds the Lease at this moment."""
        leases = self.world.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
        holder = leases[0]["spec"].get("holderIdentity") if leases else None
        if holder != identity.user:
            raise Breach(f"S7: {identity.user} wrote {request.method} {request.path} while {holder} holds the Lease")

    def _check_scale(self, replicas: int) -> None:
        """S8: no voluntary cut below an ordinal that still holds something. Raising the scale is always fine."""
        state = next((m.controller.placing.state for m in self.world.members if m.controller.placing.state), None)
        if state is None or replicas >= state.replicas or not state.options.drain.enabled:
            return
        for key, placements in self.placements().items():
            for pod in placements:
                ordinal = ordinal_of(pod, STATEFULSET)
                if ordinal is not None and replicas <= ordinal < state.replicas:
                    raise Breach(f"S8: the scale is cut to {replicas} while {key} is on {pod}")


def satisfied(watchdog: Watchdog) -> str | None:
    """L1 to L5, once all is calm: why the cluster is not as it should be; None if it is.

    Everything that is wanted runs, on accepting pods within their capacity, on as few pods as are needed.
    """
    member = watchdog.world.leader()
    state = member.controller.placing.state if member is not None else None
    if member is None or state is None:
        return "nobody leads"
    placements = watchdog.placements()
    for key, content in watchdog.groups().items():
        wanted = content["spec"].get("replicas", 1)
        placed = sum(placements[key].values())
        if placed < wanted or (wanted == 0 and placed):
            return f"{key} wants {wanted} and has {placed}: {json.dumps(placements[key])}"
        for pod in placements[key]:
            ordinal = ordinal_of(pod, STATEFULSET)
            verdict = state.verdict(-1 if ordinal is None else ordinal)
            if verdict.pod_class is not PodClass.ACCEPT and verdict.cause is not Cause.CORDONED:
                return f"{key} is on {pod}, which is {verdict.cause}"
    over = {pod: units for pod, units in watchdog.load().items() if units > watchdog.world.capacity}
    if over:
        return f"pods hold more than {watchdog.world.capacity}: {over}"
    if state.drain is not None:
        return f"pods from {state.drain.target} on are still drained"
    return None


def _readable(content: Mapping[str, Any]) -> dict[str, int]:
    status = content.get("status")
    found: dict[str, int] = {}
    for pod, vreplicas in _entries(status.get("placements") if isinstance(status, dict) else None):
        found[pod] = found.get(pod, 0) + vreplicas
    return found


def _entries(placements: object) -> Iterator[tuple[str, int]]:
    for entry in placements if isinstance(placements, list) else ():
        pod, vreplicas = entry.get("podName"), entry.get("vreplicas", 0)
        if (
            isinstance(pod, str)
            and isinstance(vreplicas, int)
            and vreplicas > 0
            and ordinal_of(pod, STATEFULSET) is not None
        ):
            yield pod, vreplicas
