"""A plain, honest cluster of VMs, pods, nodes and migrations, for histories of `situate.vm.ledger.step` alone.

Each call takes effect at once and returns the events that a watch would deliver. The caller chooses the time: the
simulation (`situate.sim.vm.simulation`), or random histories that also delay, repeat and lose events. Agents, third
parties and crashes are the caller's task too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from situate.vm.model.actions import (
    Action,
    Approve,
    CancelMove,
    Condition,
    EndMove,
    Evict,
    HandOver,
    NoteMoved,
    ResizePod,
    Retarget,
    ShrinkClaim,
    StartMove,
)
from situate.vm.model.events import (
    Event,
    InitialListCompleted,
    MigrationObserved,
    MigrationPhase,
    MigrationRemoved,
    NodeObserved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
    WrittenClaim,
)
from situate.vm.model.migrations import Claim, CopyProgress
from situate.vm.model.pods_and_nodes import Load, Machine, Node, Phase, Pod, Ref, Role
from situate.vm.model.resource_amounts import Amounts

NAMESPACE = "default"
DEFAULT_COPIED_BYTES = 2**30
"""Bytes that a migration copies if its VM gives no number."""


@dataclass
class VirtualMachine:
    """A VM. `name` is also the name of its first pod, so that tests can use it for both."""

    name: str
    use: Amounts
    approved: Amounts
    requested: Amounts
    unit: Amounts
    migratable: bool
    created_at: float
    priority: int = 0
    maximum: Amounts | None = None
    overcommit: int = 1000
    phase: Phase = Phase.RUNNING
    runs_in: str = ""
    """UID of its pod."""
    closed_claim: str = ""
    moved_at: tuple[float, ...] = ()
    minimum: Amounts | None = None
    affinity: Mapping[str, str] = field(default_factory=dict)
    """Labels that its node must have."""
    load: Load = Load()  # noqa: RUF009  # frozen
    shown: bool = True
    """Whether its annotations of request and approval exist, as they do after its agent's first request."""

    @property
    def ref(self) -> Ref:
        return Ref(NAMESPACE, self.name, f"vm-{self.name}")


@dataclass
class WorldPod:
    uid: str
    machine: str = ""
    """Name of its VM. Empty: a plain pod."""
    node: str = ""
    """Empty: not bound."""
    role: Role = Role.IDLE
    amount: Amounts | None = None
    """Size of a plain pod."""
    left_behind: Pod | None = None
    """The last state of a pod that its VM has left."""
    priority: int = 0
    needs_node: bool = False
    """Its condition NeedsNode."""

    @property
    def ref(self) -> Ref:
        return Ref(NAMESPACE, self.uid, self.uid)


@dataclass
class Migration:
    name: str
    uid: str
    machine: str
    source: str
    source_node: str
    target_node: str
    own: bool
    amount: Amounts
    created_at: float
    plan: str = ""
    claim: Claim | None = None
    target: str = ""
    phase: str = ""
    """Phase as in NeonVM: "", Pending, Running, Succeeded, Failed."""
    remaining: int = DEFAULT_COPIED_BYTES
    copied: int = DEFAULT_COPIED_BYTES
    """Total bytes."""
    changed_at: float = 0.0
    rechosen_at: float | None = None
    for_node: bool = False
    reserves: Amounts | None = None
    """Amount that it reserves on its target, by its annotation."""


@dataclass
class VMWorld:
    nodes: dict[str, Node] = field(default_factory=dict)
    machines: dict[str, VirtualMachine] = field(default_factory=dict)
    pods: dict[str, WorldPod] = field(default_factory=dict)
    migrations: dict[str, Migration] = field(default_factory=dict)
    created_count: int = 0
    """Number of objects created so far. It gives new ones their UIDs."""
    sign: str = "-"
    """Text between the name of a VM and the number of a pod created for it."""

    # objects

    def add_node(self, name: str, total: Amounts, watermark: Amounts | None = None) -> Event:
        nothing = total - total
        self.nodes[name] = Node(name, total, watermark or total, nothing, nothing, nothing)
        return NodeObserved(self.nodes[name])

    def add_machine(self, machine: VirtualMachine, node: str) -> Event:
        self.machines[machine.name] = machine
        machine.runs_in = machine.runs_in or machine.name
        self.pods[machine.runs_in] = WorldPod(machine.runs_in, machine.name, node)
        return self.pod_event(machine.runs_in)

    def add_waiting(self, machine: VirtualMachine) -> None:
        """Add a VM whose pod has no node yet. Watches do not report it."""
        self.machines[machine.name] = machine
        self.pods[machine.runs_in] = WorldPod(machine.runs_in, machine.name)

    def add_pod(self, uid: str, amount: Amounts, node: str) -> Event:
        self.pods[uid] = WorldPod(uid, node=node, amount=amount)
        return self.pod_event(uid)

    def listing(self) -> Iterator[Event]:
        """Yield the events of a starting scheduler's first list."""
        for node in self.nodes.values():
            yield NodeObserved(node)
        for pod in self.pods.values():
            if pod.node:
                yield self.pod_event(pod.uid)
        for name in self.migrations:
            yield self.migration_event(name)
        yield InitialListCompleted()

    def pod_event(self, uid: str) -> Event:
        pod = self.pods[uid]
        assert pod.node, f"pod {uid} is not bound"
        return PodObserved(self.pod(uid), pod.node)

    def _events_if_bound(self, uid: str) -> list[Event]:
        """Return the pod's event if it is bound. A reserved pod may be written before it is bound."""
        return [self.pod_event(uid)] if self.pods[uid].node else []

    def pod(self, uid: str) -> Pod:
        """Return the pod as the ledger reads it."""
        pod = self.pods[uid]
        if pod.left_behind is not None:
            return pod.left_behind
        if not pod.machine:
            assert pod.amount is not None
            none = pod.amount - pod.amount
            whole = Amounts((1000,) * len(none))
            return Pod(pod.ref, pod.amount, pod.amount, pod.amount, none, whole, priority=pod.priority)
        vm = self.machines[pod.machine]
        return Pod(
            pod.ref,
            vm.approved,
            vm.requested,
            vm.use,
            vm.unit,
            Amounts((vm.overcommit,) * len(vm.use)),
            vm.created_at,
            vm.priority,
            Machine(
                vm.ref,
                autoscaled=True,
                role=pod.role,
                migratable=vm.migratable and pod.role is not Role.TARGET,
                phase=vm.phase,
                minimum=vm.minimum,
                maximum=vm.maximum,
                load=vm.load,
                closed_claim=vm.closed_claim,
                moved_at=vm.moved_at,
            ),
            approved=vm.shown,
            needs_node=pod.needs_node,
        )

    def migration_event(self, name: str) -> Event:
        move = self.migrations[name]
        target = self.pods.get(move.target)
        written = None
        if move.claim is not None:
            claim = move.claim
            written = WrittenClaim(
                claim.id, claim.plan, claim.node, claim.beneficiary, claim.source_uid, claim.amount, claim.deadline
            )
        return MigrationObserved(
            machine=Ref(NAMESPACE, move.machine),
            name=name,
            uid=move.uid,
            own=move.own,
            phase=MigrationPhase(
                starting=move.phase in ("", "Pending"),
                copying=move.phase == "Running",
                succeeded=move.phase == "Succeeded",
                failed=move.phase == "Failed",
            ),
            source=Ref(NAMESPACE, move.source),
            source_node=move.source_node,
            target=None if target is None else Ref(NAMESPACE, target.uid),
            target_node=move.target_node,
            amount=move.reserves,
            plan=move.plan,
            claim=written,
            progress=CopyProgress(move.remaining, move.copied, move.changed_at) if move.phase == "Running" else None,
            created_at=move.created_at,
            rechosen_at=move.rechosen_at,
            for_node=move.for_node,
        )

    # writes of the scheduler

    def perform(self, action: Action, now: float) -> list[Event] | None:
        """Carry out an action and return its events. None: a precondition failed, and nothing was written."""
        match action:
            case Approve(amount=amount, unit=unit, requested=requested, closed_claim=closed):
                vm = next((each for each in self.machines.values() if each.ref == action.machine), None)
                if vm is None or (vm.runs_in, vm.unit, vm.requested) != (action.pod.uid, unit, requested):
                    return None
                vm.approved, vm.shown = amount, True
                vm.closed_claim = closed or vm.closed_claim
                return self._events_if_bound(vm.runs_in)
            case ResizePod(pod=pod, amount=amount):
                if pod.uid not in self.pods:
                    return None
                self.pods[pod.uid].amount = amount
                return [self.pod_event(pod.uid)]
            case NoteMoved(machine=machine, at=at):
                if machine.name not in self.machines:
                    return None
                self.machines[machine.name].moved_at = at
                return self._events_if_bound(self.machines[machine.name].runs_in)
            case StartMove(move=move, claim=claim):
                if move.name in self.migrations:
                    return []
                vm = self.machines.get(move.machine.name)
                if vm is None or vm.runs_in != move.source.uid:
                    return None
                self._create_migration(move.name, vm, move.target_node, now, own=True, plan=move.plan, claim=claim)
                self.migrations[move.name].for_node = move.for_node
                self.migrations[move.name].reserves = move.amount if move.target_node else None
                return [self.migration_event(move.name)]
            case CancelMove(name=name, uid=uid) | EndMove(name=name, uid=uid):
                found = self.migrations.get(name)
                if found is None:
                    return []
                return self.delete_migration(name, now) if uid in ("", found.uid) else None
            case ShrinkClaim(claim=claim, name=name, uid=uid):
                found = self.migrations.get(name)
                if found is None or (uid and found.uid != uid):
                    return None
                found.claim = claim
                return [self.migration_event(name)]
            case Retarget(name=name, uid=uid, target_node=target_node, at=at):
                found = self.migrations.get(name)
                if found is None or found.uid != uid:
                    return None
                found.target_node, found.rechosen_at = target_node, at
                return [self.migration_event(name)]
            case HandOver(name=name, uid=uid, source=source):
                found = self.migrations.get(name)
                if found is None or found.uid != uid or found.phase != "Succeeded":
                    return None
                return self.delete_pod(source.uid, now)
            case Condition(pod=pod, type="NeedsNode", holds=holds) if pod.uid in self.pods:
                self.pods[pod.uid].needs_node = holds
                return self._events_if_bound(pod.uid)
            case Evict(pod=pod):
                return self.delete_pod(pod.uid, now)
        return []

    def request(self, machine: str, unit: Amounts, amount: Amounts) -> list[Event]:
        """Write an agent's request before it is decided (C15)."""
        vm = self.machines[machine]
        if (vm.unit, vm.requested) == (unit, amount):
            return []
        vm.unit, vm.requested = unit, amount
        return [self.pod_event(vm.runs_in)]

    # acts of the controllers

    def start_manual_migration(self, machine: str, now: float) -> list[Event]:
        self._create_migration(f"by-hand-{self._next_number()}", self.machines[machine], "", now, own=False)
        return [self.migration_event(next(reversed(self.migrations)))]

    def _create_migration(
        self,
        name: str,
        vm: VirtualMachine,
        target: str,
        now: float,
        *,
        own: bool,
        plan: str = "",
        claim: Claim | None = None,
    ) -> None:
        self.migrations[name] = Migration(
            name,
            f"uid-{self._next_number()}",
            vm.name,
            vm.runs_in,
            self.pods[vm.runs_in].node,
            target,
            own,
            vm.approved,
            now,
            plan,
            claim,
            remaining=vm.load.memory_used or DEFAULT_COPIED_BYTES,
            copied=vm.load.memory_used or DEFAULT_COPIED_BYTES,
        )

    def _next_number(self) -> int:
        self.created_count += 1
        return self.created_count

    def freeze(self, name: str) -> list[Event]:
        """Move from "" to Pending: the VM freezes, and its target pod waits for a node."""
        move = self.migrations[name]
        vm = self.machines[move.machine]
        vm.phase, move.phase = Phase.FROZEN, "Pending"
        self.pods[move.source].role = Role.SOURCE
        move.target = f"{move.machine}{self.sign}{self._next_number()}"
        self.pods[move.target] = WorldPod(move.target, move.machine, role=Role.TARGET)
        return [self.migration_event(name), self.pod_event(move.source)]

    def bind(self, uid: str, node: str) -> list[Event]:
        self.pods[uid].node = node
        return [self.pod_event(uid)]

    def copy(self, name: str, remaining: int, now: float) -> list[Event]:
        """Enter or continue Running."""
        move = self.migrations[name]
        move.phase, move.changed_at = "Running", now
        move.remaining = min(move.remaining, remaining)
        return [self.migration_event(name)]

    def succeed(self, name: str) -> list[Event]:
        """Let the VM run at its target. The source is not deleted yet."""
        move = self.migrations[name]
        vm = self.machines[move.machine]
        source, target = self.pods[move.source], self.pods[move.target]
        source.left_behind = _capped_request(self.pod(source.uid))
        move.phase, vm.phase, vm.runs_in = "Succeeded", Phase.RUNNING, target.uid
        target.role = Role.IDLE
        return [self.migration_event(name), self.pod_event(target.uid), self.pod_event(source.uid)]

    def fail(self, name: str, now: float) -> list[Event]:
        move = self.migrations[name]
        move.phase = "Failed"
        return [self.migration_event(name), *self._continue_on_source(move, now)]

    def delete_migration(self, name: str, now: float) -> list[Event]:
        """Delete a migration. If it is not over, this cancels it."""
        move = self.migrations.pop(name)
        gone: Event = MigrationRemoved(Ref(NAMESPACE, move.machine), name)
        return [gone] if move.phase in ("Succeeded", "Failed") else [gone, *self._continue_on_source(move, now)]

    def _continue_on_source(self, move: Migration, now: float) -> list[Event]:
        """Let the VM continue on its source, if this migration froze it."""
        events: list[Event] = []
        vm = self.machines.get(move.machine)
        if move.target and vm is not None and move.source in self.pods:
            vm.phase = Phase.RUNNING
            self.pods[move.source].role = Role.IDLE
            events.append(self.pod_event(move.source))
        if move.target in self.pods:
            events += self.delete_pod(move.target, now)
        return events

    def delete_pod(self, uid: str, now: float) -> list[Event]:
        """Delete a pod. If a VM runs in it, the VM is deleted too."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return []
        events: list[Event] = [PodRemoved(uid)]
        vm = self.machines.get(pod.machine)
        if vm is not None and vm.runs_in == uid:
            del self.machines[vm.name]
        for name, move in list(self.migrations.items()):
            if uid in (move.source, move.target) and move.phase not in ("Succeeded", "Failed"):
                events += self.fail(name, now)
        return events

    def drop_node(self, name: str) -> Event:
        del self.nodes[name]
        return NodeRemoved(name)


def _capped_request(pod: Pod) -> Pod:
    """Return the pod with its request capped at its reserved amount. Its VM requests more elsewhere."""
    assert pod.machine is not None, f"pod {pod.uid} belongs to no VM"
    return replace(pod, machine=replace(pod.machine, limit=pod.reserved))
