"""Safety rules of vpod, checked after every step and at every write of a history.

They compare the objects on the API server with the memory of the processes. A breach is a sentence with the rule's
code. `situate.testing.vpod.decisions` checks each decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.store import Event
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.watchdog import HistoryBreach, Watchdog, check_processes
from situate.testing.virtual_time.processes import ProcessState
from situate.testing.vpod.invariants.decisions import breach_of, is_rebalance
from situate.testing.vpod.invariants.demand import SourceDemand
from situate.testing.vpod.invariants.liveness import LivenessChecks
from situate.testing.vpod.invariants.memory import ReservationMemory
from situate.testing.vpod.invariants.outages import Outages
from situate.testing.vpod.world.world import GROUPS, STABILIZATION_S, STATEFULSET, VPodMember, VPodWorld
from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.model.vpod import WEIGHT_ANNOTATION_KEY, Key, ordinal_of
from situate.vpod.placement.decide import Decision
from situate.vpod.scaling.autoscaler import limit_replicas
from situate.vpod.scaling.demand import pods_needed
from situate.vpod.state.knative_json import differences
from situate.vpod.state.state import State

Counts = Mapping[str, int]
_LEASES = "leases.coordination.k8s.io"
_STATEFULSETS = "statefulsets.apps"
_ON_THE_WAY_S = 0.01
"""Maximum seconds from a decision to its write on the server. Periods begin with decisions, and writes are observed."""


class _Spec(msgspec.Struct, rename="camel"):
    """The fields of Leases and StatefulSets that the checks read. These objects are written most often."""

    holder_identity: str = ""
    replicas: int = 0


class _ObjectWithSpec(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_ObjectWithSpec).decode


@dataclass(slots=True)
class _SourceState:
    """A ConsumerGroup on the server."""

    content: dict[str, Any]
    placements: dict[str, int]
    """Vreplicas on our pods, from the readable entries of the status."""
    weight: int
    revision: int


@dataclass
class VpodWatchdog(Watchdog):
    """Watches a world from its first moment on. It reads the server's store directly, which costs nothing."""

    world: VPodWorld
    excused: dict[str, int] = field(default_factory=dict)
    """Pods that may hold more units than their capacity, with the maximum of each.

    A smaller capacity or another writer caused the excess. It must not grow.
    """
    liveness: LivenessChecks = field(init=False)
    reservations: ReservationMemory = field(init=False)
    _outages: Outages = field(init=False)
    _groups: dict[str, _SourceState] = field(default_factory=dict)
    _units: dict[str, int] = field(default_factory=dict)
    """Units on each of our pods, by the statuses on the server."""
    _replicas: tuple[int, int] = (0, 0)
    """spec.replicas before and after the last change of the StatefulSet."""
    _rises: list[tuple[float, int]] = field(default_factory=list)
    """Times at which processes of vpod raised the scale, with the new scale."""
    _cut: tuple[int, int] | None = None
    """spec.replicas after and before its last change, if that was a scale-down after a drain."""
    _holder: str = ""
    _limit: int = 0
    """The capacity at the last check."""
    _unseen: dict[str, int] = field(default_factory=dict)
    """Revisions of the statuses that another writer changed and that the leader may not know yet."""
    _checked_turns: dict[str, int] = field(default_factory=dict)
    """By process: its number of turns when its memory was checked last."""
    _evened_out: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By process: the time of its last rebalancing, and the number of moves."""

    def __post_init__(self) -> None:
        self.liveness = LivenessChecks(self.world)
        self.reservations = ReservationMemory(self.world)
        self._outages = Outages(self.world.happened)
        self._limit = self.world.capacity
        store = self.world.cluster.api.store
        store.subscribe(self._on_change)
        for table in store.tables():
            for each in table.objects.values():
                self._on_change(Event("ADDED", table.resource, each.revision, None, each))
        self.world.request_listeners.append(self._check_write)
        self.world.audit_listeners.append(self._check_decision)

    def check(self) -> None:
        """Check all rules after a step. Raises `HistoryBreach`."""
        self.raise_first_breach()
        self.check_capacity()
        _raise_breach(self.liveness.check())
        for member in self.world.members:
            self._check_memory(member)
        check_processes(self.world.world.processes)

    def record_outside_write(self, key: str) -> None:
        """Record that another writer changed this status.

        Neither its placements nor those that the leader adds before it can know are a breach.
        """
        if key in self._groups:
            self._unseen[key] = self._groups[key].revision
        self._excuse_excess()

    def load(self) -> Counts:
        """Return the units on each of our pods, by the statuses on the server."""
        return {pod: units for pod, units in self._units.items() if units}

    def placements(self) -> dict[str, dict[str, int]]:
        """Return the readable placements of every status on our pods."""
        return {key: group.placements for key, group in self._groups.items()}

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return every ConsumerGroup on the server, by `namespace/name`."""
        return {key: group.content for key, group in self._groups.items()}

    def replicas(self) -> int:
        return self._replicas[1]

    def was_raised(self) -> bool:
        """Return whether the last change of spec.replicas was a rise."""
        return self._replicas[1] > self._replicas[0]

    def check_capacity(self) -> None:
        """Check S1: a pod above its capacity must be excused, and hold no more than at the time of the excuse."""
        self._excuse_seen_writes()
        limit = self._capacity()
        if limit < self._limit:
            self._excuse_excess()
        self._limit = limit
        over = {pod: units for pod, units in self._units.items() if units > limit}
        if not over and not self.excused:
            return
        foreign = self._unseen_units()
        for pod, units in over.items():
            if units > max(limit, self.excused.get(pod, 0)) + foreign.get(pod, 0):
                raise HistoryBreach(f"S1: {pod} holds {units} of {limit}: {self._describe_pod(pod)}")
        decided = self._decided_loads()
        for pod, most in [*self.excused.items()]:
            now = max(self._units.get(pod, 0), decided.get(pod, 0))
            if now <= limit:
                del self.excused[pod]
            else:
                self.excused[pod] = min(most, now)

    def _excuse_excess(self) -> None:
        """Excuse all units above capacity now, including those that are decided and not yet written."""
        load = self._decided_loads()
        for pod, units in self._units.items():
            load[pod] = max(units, load.get(pod, 0))
        limit = min(self._limit, self._capacity())
        for pod, units in load.items():
            if units > limit:
                self.excused[pod] = max(units, self.excused.get(pod, 0))

    def _decided_loads(self) -> dict[str, int]:
        """Return the units on each pod by the decisions of the processes, written or not."""
        load: dict[str, int] = {}
        for state in self._living_states():
            for slot in state.slots.values():
                load[slot.name] = max(load.get(slot.name, 0), slot.adding)
        return load

    def _capacity(self) -> int:
        """Return the largest capacity that a process still uses. New settings reach each process at another time."""
        believed = [state.options.capacity for state in self._living_states()]
        return max([self.world.capacity, *believed])

    def _living_states(self) -> Iterator[State]:
        for member in self.world.members:
            state = member.controller.reconciler.state
            if state is not None and member.process.state is not ProcessState.KILLED:
                yield state

    def _excuse_seen_writes(self) -> None:
        """Excuse an outside write in its present state once the leader has seen it."""
        if not self._unseen:
            return
        leader = self.world.leader()
        if leader is None or leader.controller.reconciler.state is None:
            return
        for key, revision in [*self._unseen.items()]:
            group = self._groups.get(key)
            found = leader.controller.reconciler.sources.find(Key.parse(key))
            seen = found is not None and int(found.object.metadata.resource_version) >= revision
            if group is None or seen:
                self._excuse_excess()
                del self._unseen[key]

    def _unseen_units(self) -> Mapping[str, int]:
        """Return the units by pod from statuses of other writers that the leader may not know."""
        found: dict[str, int] = {}
        for key in self._unseen:
            group = self._groups.get(key)
            for pod, vreplicas in group.placements.items() if group is not None else ():
                found[pod] = found.get(pod, 0) + vreplicas * group.weight if group is not None else 0
        return found

    def _describe_pod(self, pod: str) -> str:
        return ", ".join(f"{key}: {on[pod]}" for key, on in self.placements().items() if pod in on)

    def _check_memory(self, member: VPodMember) -> None:
        """Check S10: the state equals a rebuild from the same stores.

        Check S6: nothing is reserved for absent vpods.
        """
        placing = member.controller.reconciler
        state = placing.state
        if state is None or member.process.state is not ProcessState.RUNNING:
            return
        if self._checked_turns.get(member.identity) == member.process.turns:
            return
        self._checked_turns[member.identity] = member.process.turns
        if state.options.safe:
            _raise_breach(self.reservations.breach_in(member.identity, state))
        self._outages.count_outages(state)
        found = differences(state, placing.rebuild_state(state.options, state.now))
        if found:
            raise HistoryBreach(f"S10: {member.identity}: the kept state differs from the rebuilt one: {found[:3]}")

    def _check_decision(self, member: str, state: State, decision: Decision) -> None:
        breach = self.liveness.check_decision(member, state, decision)
        if state.options.safe:
            breach = (
                breach or breach_of(state, decision) or self.reservations.check_first_decision(member, state, decision)
            )
        if breach is not None:
            self.record_breach(f"{breach} ({member}, {self.world.now:.3f} s)")
        group = self._groups.get(str(decision.key))
        if group is None or str(group.revision) != decision.resource_version:
            self.world.happened["decided on an old sight"] += 1
        if self._first_breach is None and is_rebalance(state, decision):
            self._count_moves(member, state, decision)

    def _count_moves(self, member: str, state: State, decision: Decision) -> None:
        """Check B7: all vpods together make no more moves in an interval than allowed.

        One run takes no virtual time.
        """
        now, options = self.world.now, state.options.rebalance
        last, moves = self._evened_out.get(member, (float("-inf"), 0))
        if last < now < last + options.interval - _ON_THE_WAY_S:
            self.record_breach(f"B7: {member} rebalances at {last:.3f} s and again at {now:.3f} s")
        moves = sum(decision.moves.values()) + (moves if last == now else 0)
        allowed = options.allowed_moves(sum(entry.reserved_total for entry in state.vpods.values()))
        if moves > allowed:
            self.record_breach(f"B7: {member} makes {moves} moves at {now:.3f} s, {allowed} are allowed")
        self._evened_out[member] = now, moves

    def _on_change(self, event: Event) -> None:
        """Handle a change of the server's store."""
        if event.resource == GROUPS:
            key = event.last.key
            self._count_units(key, -1)
            if event.new is None:
                self._groups.pop(key, None)
                self.liveness.record_source(key, None)
            else:
                content = event.new.object()
                annotations = content["metadata"].get("annotations") or {}
                weight = int(annotations.get(WEIGHT_ANNOTATION_KEY, 1))
                placements = _readable_placements(content)
                self._groups[key] = _SourceState(content, placements, weight, event.new.revision)
                self._count_units(key, 1)
                wanted = content["spec"].get("replicas", 1)
                self.liveness.record_source(key, SourceDemand(wanted, sum(placements.values()), weight))
        elif event.resource == _LEASES and event.new is not None:
            self._holder = _decode(event.new.raw).spec.holder_identity
        elif event.resource == _STATEFULSETS and event.new is not None:
            replicas = _decode(event.new.raw).spec.replicas
            if replicas != self._replicas[1]:
                self._replicas = (self._replicas[1], replicas)
                self._cut = None
                self.liveness.record_scale(replicas)

    def _count_units(self, key: str, sign: int) -> None:
        group = self._groups.get(key)
        if group is not None:
            for pod, vreplicas in group.placements.items():
                self._units[pod] = self._units.get(pod, 0) + sign * vreplicas * group.weight

    def _check_write(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        """Check every write of a process that reached the server."""
        if isinstance(answer, Watch):
            return
        line = f"{self.world.now!r} {identity.user} {request.method} {request.path} {answer.status} "
        self._digest.update(line.encode() + request.body)
        if answer.status >= 300 or "/leases" in request.path or request.path.endswith("/events"):
            return
        self.writes += 1
        _raise_breach(self.liveness.check_write())
        if self._holder != identity.user:
            said = f"{identity.user} wrote {request.method} {request.path} while {self._holder} holds the Lease"
            raise HistoryBreach(f"S7: {said}")
        if request.path.endswith("/status"):
            self.check_capacity()
            self._check_published(request, identity)
        elif request.path.endswith(f"/statefulsets/{STATEFULSET}/scale"):
            self._check_scale(msgspec.json.decode(request.body)["spec"]["replicas"], self._state_of(identity))

    def _state_of(self, identity: Identity) -> State | None:
        member = next((each for each in self.world.members if each.identity == identity.user), None)
        return member.controller.reconciler.state if member is not None else None

    def _check_published(self, request: Request, identity: Identity) -> None:
        """Check D18: if a status reports a shortage, it also has all placed vreplicas, so that they run.

        B4: no vreplica is placed on pods that a drain has just removed.
        """
        namespace, name = request.path.split("/")[-4], request.path.split("/")[-2]
        key = Key(namespace, name)
        if request.headers.get("content-type") != "application/merge-patch+json":
            self.reservations.record_eviction(key)
            return
        state, group = self._state_of(identity), self._groups.get(str(key))
        entry = state.vpods.get(key) if state is not None else None
        if state is None or entry is None or group is None:
            return
        if self._cut is not None and str(key) not in self._unseen:
            for pod in group.placements:
                if self._cut[0] <= (ordinal_of(pod, STATEFULSET) or 0) < self._cut[1]:
                    raise HistoryBreach(f"B4: {key} is placed on {pod}, which has been removed")
        if entry.short_since is None or not state.options.safe:
            return
        decided = {state.slots[o].name: n for o, n in (entry.reserved or {}).items()}
        if group.placements != decided:
            raise HistoryBreach(f"D18: {key} is short, {decided} are placed and {dict(group.placements)} are published")

    def _check_scale(self, replicas: int, state: State | None) -> None:
        """Check B6: the scale does not fall below a recent rise of ours before the stabilization time is over.

        A rise by another writer does not count as a need. S8: no voluntary scale-down removes an ordinal that holds
        vreplicas. Raising the scale is always allowed.
        """
        before, after = self._replicas
        if after != replicas:
            return
        now = self.world.now
        if replicas > before:
            self._rises.append((now, replicas))
            _raise_breach(self.liveness.check_rise(before, replicas))
        if replicas >= before or self.world.settings.profile != "safe":
            return
        self._rises = [rise for rise in self._rises if now - rise[0] < STABILIZATION_S - _ON_THE_WAY_S]
        for at, needed in self._rises:
            if replicas < needed:
                raise HistoryBreach(
                    f"B6: the scale is cut from {before} to {replicas} {now - at:.3f} s after {needed} were needed"
                )
        if self.world.settings.drain:
            self._check_emptied(replicas, before, state)
            self._cut = replicas, before

    def _check_emptied(self, replicas: int, before: int, state: State | None) -> None:
        """Check S8 by the statuses on the server and by the reservations of the process that scales down."""
        said = f"S8: the scale is cut from {before} to {replicas} while"
        for key, group in self._groups.items():
            for pod in group.placements if key not in self._unseen else ():
                ordinal = ordinal_of(pod, STATEFULSET)
                if ordinal is not None and replicas <= ordinal < before:
                    raise HistoryBreach(f"{said} {key} is on {pod}")
        for entry in state.vpods.values() if state is not None else ():
            for ordinal in entry.reserved or ():
                if replicas <= ordinal < before:
                    raise HistoryBreach(f"{said} ordinal {ordinal} is reserved for {entry.key}")


def _raise_breach(breach: str | None) -> None:
    if breach is not None:
        raise HistoryBreach(breach)


def unsatisfied_reason(watchdog: VpodWatchdog) -> str | None:
    """Check L1 to L5 after all faults have ended. Return why the cluster is not as it should be, or None.

    All wanted vreplicas must run on accepting pods within their capacity.
    """
    member = watchdog.world.leader()
    state = member.controller.reconciler.state if member is not None else None
    if member is None or state is None:
        return "no process leads"
    placements = watchdog.placements()
    capped = state.options.max_replicas is not None and watchdog.replicas() >= state.options.max_replicas
    for key, content in watchdog.groups().items():
        wanted = content["spec"].get("replicas", 1)
        placed = sum(placements[key].values())
        entry = state.vpods.get(Key.parse(key))
        ruled_out = capped or (entry is not None and entry.is_limited_by_rule)
        if (placed < wanted and not ruled_out) or (wanted == 0 and placed):
            return f"{key} wants {wanted} and has {placed}: {json.dumps(placements[key])}"
        for pod in placements[key]:
            ordinal = ordinal_of(pod, STATEFULSET)
            verdict = state.verdict(-1 if ordinal is None else ordinal)
            # vreplicas on a drained pod run there until they have moved; `running_drain` waits for that
            if verdict.pod_class is not PodClass.ACCEPT and verdict.cause not in (Cause.CORDONED, Cause.DRAINING):
                return f"{key} is on {pod}, which is {verdict.cause}"
    short = [
        entry.key
        for entry in state.vpods.values()
        if entry.reserved_total < entry.wanted and not entry.is_limited_by_rule
    ]
    spare = [entry.key for entry in state.vpods.values() if entry.listed and entry.reserved_total > entry.wanted]
    if short and spare and state.options.safe:
        return f"{short[0]} has too few vreplicas while {spare[0]} has too many"
    over = {pod: units for pod, units in watchdog.load().items() if units > watchdog.world.capacity}
    if over:
        return f"pods have more vreplicas than {watchdog.world.capacity}: {over}"
    return None


def running_drain(watchdog: VpodWatchdog) -> str | None:
    """Return a message about a running drain, or None.

    Unused pods may be found at any time after the last fault.
    """
    member = watchdog.world.leader()
    state = member.controller.reconciler.state if member is not None else None
    if state is None or state.drain is None:
        return None
    return f"pods from {state.drain.target} on are still drained"


def unused_pod(watchdog: VpodWatchdog) -> str | None:
    """Check L4 after a long calm: return a message about the highest pod if it is empty and not needed, or None."""
    member = watchdog.world.leader()
    state = member.controller.reconciler.state if member is not None else None
    top = watchdog.replicas() - 1
    if state is None or state.is_used_from(top) or limit_replicas(state.options, pods_needed(state)) > top:
        return None
    return f"{STATEFULSET}-{top} has no vreplicas"


def _readable_placements(content: Mapping[str, Any]) -> dict[str, int]:
    status = content.get("status")
    found: dict[str, int] = {}
    for pod, vreplicas in _valid_entries(status.get("placements") if isinstance(status, dict) else None):
        found[pod] = found.get(pod, 0) + vreplicas
    return found


def _valid_entries(placements: object) -> Iterator[tuple[str, int]]:
    for entry in placements if isinstance(placements, list) else ():
        pod, vreplicas = entry.get("podName"), entry.get("vreplicas", 0)
        if (
            isinstance(pod, str)
            and isinstance(vreplicas, int)
            and vreplicas > 0
            and ordinal_of(pod, STATEFULSET) is not None
        ):
            yield pod, vreplicas
