"""The town of a history: fencing by clients or policy, a faulty archive, and processes that die at any call.

If clients send no preconditions, the server's entry removes them from executors' patches. A client without
checks would send the rest. The policy is `admit`, which tests prove equal to the shipped ValidatingAdmissionPolicy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import msgspec

from situate.archive.protocol import Archiver
from situate.archive.records.record import ByName, ByUid, Record
from situate.cluster.patch.patches import json_patch
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.store import Event
from situate.cluster.storage.stored_object import StoredObject
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.sharding.fencing import admit as admitting
from situate.sharding.fencing.admit import Fence, Role, Writer, admit
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import ARCHIVED, DRAIN
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.builders.archive import Call, Fault, FaultyArchiver, ForwardingArchiver
from situate.testing.sharding import events
from situate.testing.sharding.history import FASTEST, LEASE_S, ShardingHistorySettings
from situate.testing.sharding.steps import ExecutorCall, SupervisorCall
from situate.testing.sharding.world.executor_world import TABLE, ExecutorProcess, annotation_path
from situate.testing.sharding.world.promptness import CHECK_S, Promptness
from situate.testing.sharding.world.reports import PATHS
from situate.testing.sharding.world.supervisor_world import LoggedArchiver, SupervisorProcess, SupervisorWorld
from situate.testing.virtual_time.network import NO_FAULTS
from situate.testing.virtual_time.processes import ProcessState

REPAIRED_S: Final = 60.0
"""Seconds after bad weather in which missed events are found (L6) and unanswered requests are repeated."""
BEGUN_S: Final = 2.0
"""Seconds after a supervisor begins to lead (B2), or after an executor becomes eligible."""
CUT_S: Final = 5.0
"""Seconds after watches were cut until all are open again."""
_FENCE: Final = Fence()
_FORBIDDEN: Final = b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"%s"}'
_CONFLICT: Final = b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"nothing to do"}'
_JSON: Final = {"content-type": "application/json"}
_REFUSALS: Final = {403: "FORBIDDEN", 409: "CONFLICT", 422: "INVALID"}
_EXECUTOR_PATHS: Final = ("/status", "/spec/assignedTo", "sharding.situate.dev")
_WHOLE_PATHS: Final = ("/metadata/labels", "/metadata/annotations")
"""Paths of the removal of the last label or annotation."""
ARCHIVE_FAULTS: Final[dict[str, tuple[Fault | None, Fault | None]]] = {
    "": (None, None),
    "error": (Fault.ERROR, None),  # also a full disk, a torn hidden file, an abandoned upload
    "stored but timed out": (Fault.LOST, None),  # also a commit with an unknown result
    "read missing": (None, Fault.MISSING),
    "read corrupt": (None, Fault.CORRUPT),
    "read back another digest": (None, Fault.OTHER),
    "too large": (Fault.TOO_LARGE, None),
    "outage": (Fault.ERROR, Fault.ERROR),
}
"""The archive's row of the fault table. By name: the fault of a put, and the fault of a get."""


class ShardingWorld(SupervisorWorld):
    """The town of one history. Call `close_and_judge` at the end."""

    def __init__(self, seed: int, settings: ShardingHistorySettings, config: SupervisorConfig) -> None:
        fastest = FASTEST if settings.drifting else 1.0
        super().__init__(config, archive=True, seed=seed, lease_s=LEASE_S / fastest)
        self.archive_fault = ""
        """The present fault of the archive, a name in `ARCHIVE_FAULTS`."""
        self.writes = 0
        self.ended_leaders: list[SupervisorProcess] = []
        """Supervisors that have ended."""
        self.removed_objects: dict[str, Content] = {}
        """By UID: the last version of each removed object."""
        self.planned_kills: dict[str, tuple[ExecutorCall | SupervisorCall, bool]] = {}
        """By an executor's UID or a supervisor's name: the call at which it dies, and whether before it."""
        self._has_policy = settings.fencing in ("policy", "both")
        self._skips_preconditions = settings.fencing in ("policy", "none")
        self._term = 0
        self._capacity = settings.capacity
        # only the policy can refuse a write that outlives its term: clients can only give it up in time
        self.drops_late_writes = not self._has_policy
        self.promptness = Promptness(
            self.eligibility,
            self.happened,
            lease_s=LEASE_S,
            drain_s=config.drain_timeout,
            now=lambda: self.world.now,
            fill_up=settings.capacity is not None,
        )
        self._last_leader: tuple[SupervisorProcess, object] | None = None
        faulty = FaultyArchiver(self.memory_archiver, self._draw_archive_fault)
        self._archive = LoggedArchiver(self, faulty)
        self.api.store.subscribe(self._on_change)
        self.api.store.subscribe(self.promptness.record_change)
        if settings.capacity is not None:
            self.api.store.subscribe(lambda _: self._check_free_capacity())
        self._update_calm_regularly()

    def start_leader(self, name: str, speed: float, **scope: Any) -> SupervisorProcess:
        """Start a supervisor."""
        return self.start_supervisor(
            name, archiver=_InterruptedArchiver(self, name, self._archive), speed=speed, **scope
        )

    def kill_if_planned(self, who: str, call: str, *, before: bool) -> bool:
        """Kill the process if this is its planned moment, and return whether it was."""
        if self.planned_kills.get(who) != (call, before):
            return False
        del self.planned_kills[who]
        victims: list[ExecutorProcess | SupervisorProcess] = [each for each in self.members if each.uid == who]
        for each in victims or [each for each in self.leaders if each.name == who]:
            if each.process.is_alive:
                each.crash()
                self.happened[f"killed {'before' if before else 'after'} {call}"] += 1
                self.happened[f"killed at {call}"] += 1
        return True

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        who = identity.uid or identity.user.removeprefix("supervisor ")
        call = _call_kind(request, executes=bool(identity.uid)) if who in self.planned_kills else ""
        if call and self.kill_if_planned(who, call, before=True):
            return None
        answer = super().answer(request, now, identity)
        if call and self.kill_if_planned(who, call, before=False):
            return None
        return answer

    def execute(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        if request.method != "PATCH" or "/reports/" not in request.path:
            return super().execute(request, now, identity)
        role = Role.EXECUTOR if identity.uid else Role.SUPERVISOR
        answer: Response | Watch | None = None
        if self._skips_preconditions and role is Role.EXECUTOR:
            request = _without_preconditions(request)
            if request.body == b"[]":
                answer = Response(409, _CONFLICT, _JSON)
        stored = self.stored_object(request)
        if self._has_policy and stored is not None:
            after = json_patch(stored, msgspec.json.decode(request.body))
            subresource = "status" if request.path.endswith("/status") else ""
            if isinstance(after, dict) and (
                refusal := self.policy_refusal(stored, after, Writer(role, identity.uid), subresource)
            ):
                answer = Response(403, _FORBIDDEN % refusal.encode(), _JSON)
        answer = answer or super().execute(request, now, identity)
        self.writes += answer.status < 300
        if role is Role.EXECUTOR and answer.status in _REFUSALS:
            self.happened[f"write of an executor refused: {_REFUSALS[answer.status]}"] += 1
        return answer

    def ordered_objects(self) -> list[StoredObject]:
        """Return the objects in the order of their names."""
        return self.api.store.table(TABLE).sorted_objects()

    def policy_refusal(self, stored: Content, after: Content, writer: Writer, subresource: str = "") -> str:
        """Return the policy's refusal of a write. Empty: none, or no policy."""
        if not self._has_policy:
            return ""
        request = admitting.WriteRequest(writer, after, subresource, leader_term=self._term)
        return str(admit(stored, request, _FENCE) or "")

    def audit(self, request: Request, stored: Content, answer: Response, role: Role, uid: str) -> None:
        """Audit a write where no policy applies and clients are as shipped: the policy would have admitted it."""
        if not self._has_policy and not self._skips_preconditions:
            super().audit(request, stored, answer, role, uid)

    def epoch_of(self, request: Request) -> int:
        """Return the write's epoch.

        A policy sees only incarnations, so an executor may write an object that it holds again.
        """
        if self._skips_preconditions and self._has_policy and (stored := self.stored_object(request)) is not None:
            return view_of(stored, PATHS).epoch
        return super().epoch_of(request)

    def log_event(self, event: events.Event) -> None:
        super().log_event(event)
        if isinstance(event, events.Ack):
            self.happened["ack"] += 1
        elif isinstance(event, events.ObjectCompleted):
            self.happened["completed"] += 1

    @property
    def calm_since(self) -> float:
        return self.promptness.calm_since

    def update_calm(self) -> None:
        """Update whether it is calm, and check for objects that wait too long."""
        disturbed = self.promptness.record_disturbance
        if self.network.faults is not NO_FAULTS:
            disturbed(REPAIRED_S)
        leader = self.current_leader
        leads = leader is not None and leader.process.state is ProcessState.RUNNING
        led = None if leader is None or not leads else (leader, leader.supervisor.term)
        if led is None or led != self._last_leader:
            disturbed(BEGUN_S)
        self._last_leader = led
        if leader is not None and any(wire.mute or wire.deaf for wire in leader.wires):
            disturbed(REPAIRED_S)
        self._check_free_capacity()
        self.promptness.check_waits()

    def _check_free_capacity(self) -> None:
        if not self.eligibility.is_any_eligible(self.world.now, self._full_executors()):
            self.promptness.record_disturbance(BEGUN_S)

    def _full_executors(self) -> Collection[str]:
        """Return the UIDs of executors without free capacity."""
        capacity = self._capacity
        return (
            () if capacity is None else [uid for uid, held in self.promptness.open_counts().items() if held >= capacity]
        )

    def check_choice(self, view: ObjectView) -> None:
        """Check also the last part of the rule: the executor had free capacity."""
        super().check_choice(view)
        now, capacity = self.world.now, self._capacity
        if capacity is None or now - self.s4_slack_s < self.calm_since:
            return
        if (held := self.promptness.open_counts()[view.executor_uid]) > capacity:
            self.late_assignments.append(
                f"S4: {view.name} to {view.executor} at {now:g} s, which holds {held} of {capacity} by it"
            )

    def cut_watches(self) -> None:
        """Cut all watches."""
        self.network.cut_watches()
        self.promptness.record_disturbance(CUT_S)

    def _update_calm_regularly(self) -> None:
        self.update_calm()
        self.world.timeline.call_after(CHECK_S, self._update_calm_regularly)

    def close_and_judge(self) -> list[str]:
        """Unwind every process. Return all breaches but those in the log."""
        leaders = [*self.leaders, *self.ended_leaders]
        failures = [each.process.failure() for each in leaders if not each.process.is_alive]
        for leader in leaders:
            for wire in leader.wires:
                wire.disconnect()
        found = [*(each for each in failures if each is not None), *self.close_processes(), *self.forbidden_writes]
        found += [*self.late_assignments, *self.promptness.breaches]
        return [str(each) if isinstance(each, str) else repr(each) for each in found]

    def _on_change(self, event: Event) -> None:
        if event.resource == TABLE and event.type == "DELETED" and event.old is not None:
            self.removed_objects[str(event.old.object()["metadata"]["uid"])] = event.old.object()
        elif event.resource == "leases.coordination.k8s.io" and event.new is not None:
            lease = event.new.object()
            if lease["metadata"]["name"].endswith(".supervisor"):
                term = int(lease["spec"].get("leaseTransitions") or 0)
                self.happened["term"] += term > self._term
                self._term = term

    def _draw_archive_fault(self, call: Call, _: int) -> Fault | None:
        put, get = ARCHIVE_FAULTS[self.archive_fault]
        fault = {"put": put, "get": get}.get(call.method)
        if fault is not None:
            self.happened[f"archive: {self.archive_fault}"] += 1
        return fault


class _InterruptedArchiver(ForwardingArchiver):
    """The archive of one supervisor, which may die before or after each of its calls."""

    def __init__(self, stage: ShardingWorld, name: str, archiver: Archiver) -> None:
        self._world = stage
        self._name = name
        super().__init__(archiver)

    async def put(self, record: Record) -> None:
        await self._kill_if_planned("archive", before=True)
        await self._archiver.put(record)
        await self._kill_if_planned("archive", before=False)

    async def get(self, key: ByUid | ByName) -> Record:
        await self._kill_if_planned("read archive", before=True)
        record = await self._archiver.get(key)
        await self._kill_if_planned("read archive", before=False)
        return record

    async def _kill_if_planned(self, call: SupervisorCall, *, before: bool) -> None:
        if self._world.kill_if_planned(self._name, call, before=before):
            await asyncio.get_running_loop().create_future()


def _call_kind(request: Request, *, executes: bool) -> str:
    """Return which call of the steps a request is. Empty: none."""
    method, writes = request.method, request.method in ("PATCH", "PUT", "POST")
    if "/leases" in request.path:
        if executes:
            return "renewal" if writes else ""
        return "claim" if writes and b"holderIdentity" in request.body else ""
    if "/reports/" not in request.path:
        return ""
    if method == "GET":
        return "read object"
    if executes:
        return "status" if request.path.endswith("/status") else "release"
    if method == "DELETE":
        return "delete"
    done = {each["path"]: each["op"] for each in msgspec.json.decode(request.body)}
    if "/spec/assignedTo" in done:
        return "revoke" if done["/spec/assignedTo"] == "remove" else "assign"
    if annotation_path(DRAIN) in done:
        return "requestdrain"
    return "finalizer" if annotation_path(ARCHIVED) in done else ""


def _without_preconditions(request: Request) -> Request:
    """Return the patch without its preconditions.

    It also drops operations that would write other clients' edits back. A client that reads the present version first
    has none of these.
    """
    operations = [each for each in msgspec.json.decode(request.body) if each["op"] != "test"]
    kept = [
        each
        for each in operations
        if each["path"] in _WHOLE_PATHS or any(part in each["path"] for part in _EXECUTOR_PATHS)
    ]
    return msgspec.structs.replace(request, body=msgspec.json.encode(kept))
