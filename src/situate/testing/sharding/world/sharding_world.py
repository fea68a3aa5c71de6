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
from situate.cluster.storage.stored_object import Stored
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
from situate.testing.sharding.history import FASTEST, LEASE_S, Settings
from situate.testing.sharding.steps import ExecutorCall, SupervisorCall
from situate.testing.sharding.world.archive_faults import Trouble
from situate.testing.sharding.world.executor_world import TABLE, Member
from situate.testing.sharding.world.promptness import LOOK_S, Promptness
from situate.testing.sharding.world.reports import PATHS
from situate.testing.sharding.world.supervisor_world import Leader, NotedArchive, Town
from situate.testing.virtual_time.network import CALM
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
_OF_EXECUTORS: Final = ("/status", "/spec/assignedTo", "sharding.situate.dev")
_WHOLE: Final = ("/metadata/labels", "/metadata/annotations")
"""Paths of the removal of the last label or annotation."""
_PUT: Final = {
    Trouble.ERROR: Fault.ERROR,
    Trouble.UNKNOWN: Fault.LOST,
    Trouble.REFUSED: Fault.TOO_LARGE,
    Trouble.DOWN: Fault.ERROR,
}
_GET: Final = {
    Trouble.MISSING: Fault.MISSING,
    Trouble.CORRUPT: Fault.CORRUPT,
    Trouble.OTHER: Fault.OTHER,
    Trouble.DOWN: Fault.ERROR,
}


class Stage(Town):
    """The town of one history. Call `end` at the end."""

    def __init__(self, seed: int, settings: Settings, config: SupervisorConfig) -> None:
        fastest = FASTEST if settings.drifting else 1.0
        super().__init__(config, archive=True, seed=seed, lease_s=LEASE_S / fastest)
        self.trouble = Trouble.NONE
        """The present fault of the archive."""
        self.writes = 0
        self.buried: list[Leader] = []
        """Supervisors that have ended."""
        self.gone: dict[str, Content] = {}
        """By UID: the last version of each removed object."""
        self.dying: dict[str, tuple[ExecutorCall | SupervisorCall, bool]] = {}
        """By an executor's UID or a supervisor's name: the call at which it dies, and whether before it."""
        self._fenced = settings.fencing in ("policy", "both")
        self._careless = settings.fencing in ("policy", "none")
        self._term = 0
        self._capacity = settings.capacity
        # only the policy can refuse a write that outlives its term: clients can only give it up in time
        self.orders_in_time = not self._fenced
        self.prompt = Promptness(
            self.standings,
            self.happened,
            lease_s=LEASE_S,
            drain_s=config.drain_timeout,
            now=lambda: self.world.now,
            fill_up=settings.capacity is not None,
        )
        self._led: tuple[Leader, object] | None = None
        faulty = FaultyArchiver(self.memory, self._fault)
        self._archive = NotedArchive(self, faulty)
        self.api.store.subscribe(self._stored)
        self.api.store.subscribe(self.prompt.saw)
        if settings.capacity is not None:
            self.api.store.subscribe(lambda _: self._look_for_room())
        self._look_again()

    def lead(self, name: str, speed: float, **scope: Any) -> Leader:
        """Start a supervisor."""
        return self.leader(name, archiver=_Interrupted(self, name, self._archive), speed=speed, **scope)

    def dies(self, who: str, call: str, *, before: bool) -> bool:
        """Kill the process if this is its planned moment, and return whether it was."""
        if self.dying.get(who) != (call, before):
            return False
        del self.dying[who]
        victims: list[Member | Leader] = [each for each in self.members if each.uid == who]
        for each in victims or [each for each in self.leaders if each.name == who]:
            if each.process.is_alive:
                each.crash()
                self.happened[f"killed {'before' if before else 'after'} {call}"] += 1
                self.happened[f"killed at {call}"] += 1
        return True

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        who = identity.uid or identity.user.removeprefix("supervisor ")
        call = _call(request, executes=bool(identity.uid)) if who in self.dying else ""
        if call and self.dies(who, call, before=True):
            return None
        answer = super().answer(request, now, identity)
        if call and self.dies(who, call, before=False):
            return None
        return answer

    def carry_out(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        if request.method != "PATCH" or "/reports/" not in request.path:
            return super().carry_out(request, now, identity)
        role = Role.EXECUTOR if identity.uid else Role.SUPERVISOR
        answer: Response | Watch | None = None
        if self._careless and role is Role.EXECUTOR:
            request = _careless(request)
            if request.body == b"[]":
                answer = Response(409, _CONFLICT, _JSON)
        stored = self.stored(request)
        if self._fenced and stored is not None:
            after = json_patch(stored, msgspec.json.decode(request.body))
            subresource = "status" if request.path.endswith("/status") else ""
            if isinstance(after, dict) and (
                refusal := self.refusal(stored, after, Writer(role, identity.uid), subresource)
            ):
                answer = Response(403, _FORBIDDEN % refusal.encode(), _JSON)
        answer = answer or super().carry_out(request, now, identity)
        self.writes += answer.status < 300
        if role is Role.EXECUTOR and answer.status in _REFUSALS:
            self.happened[f"write of an executor refused: {_REFUSALS[answer.status]}"] += 1
        return answer

    def objects(self) -> list[Stored]:
        """Return the objects in the order of their names."""
        return self.api.store.table(TABLE).ordered()

    def refusal(self, stored: Content, after: Content, writer: Writer, subresource: str = "") -> str:
        """Return the policy's refusal of a write. Empty: none, or no policy."""
        if not self._fenced:
            return ""
        request = admitting.Request(writer, after, subresource, leader_term=self._term)
        return str(admit(stored, request, _FENCE) or "")

    def audit(self, request: Request, stored: Content, answer: Response, role: Role, uid: str) -> None:
        """Audit a write where no policy applies and clients are as shipped: the policy would have admitted it."""
        if not self._fenced and not self._careless:
            super().audit(request, stored, answer, role, uid)

    def epoch_of(self, request: Request) -> int:
        """Return the write's epoch.

        A policy sees only incarnations, so an executor may write an object that it holds again.
        """
        if self._careless and self._fenced and (stored := self.stored(request)) is not None:
            return view_of(stored, PATHS).epoch
        return super().epoch_of(request)

    def note(self, event: events.Event) -> None:
        super().note(event)
        if isinstance(event, events.Ack):
            self.happened["ack"] += 1
        elif isinstance(event, events.Complete):
            self.happened["completed"] += 1

    @property
    def calm_since(self) -> float:
        return self.prompt.calm_since

    def look(self) -> None:
        """Update whether it is calm, and check for objects that wait too long."""
        disturbed = self.prompt.disturbed
        if self.network.weather is not CALM:
            disturbed(REPAIRED_S)
        leader = self.leading
        leads = leader is not None and leader.process.state is ProcessState.RUNNING
        led = None if leader is None or not leads else (leader, leader.supervisor.term)
        if led is None or led != self._led:
            disturbed(BEGUN_S)
        self._led = led
        if leader is not None and any(wire.mute or wire.deaf for wire in leader.wires):
            disturbed(REPAIRED_S)
        self._look_for_room()
        self.prompt.look()

    def _look_for_room(self) -> None:
        if not self.standings.anybody(self.world.now, self._full()):
            self.prompt.disturbed(BEGUN_S)

    def _full(self) -> Collection[str]:
        """Return the UIDs of executors without free capacity."""
        capacity = self._capacity
        return () if capacity is None else [uid for uid, held in self.prompt.open().items() if held >= capacity]

    def judge_choice(self, view: ObjectView) -> None:
        """Check also the last part of the rule: the executor had free capacity."""
        super().judge_choice(view)
        now, capacity = self.world.now, self._capacity
        if capacity is None or now - self.s4_slack_s < self.calm_since:
            return
        if (held := self.prompt.open()[view.executor_uid]) > capacity:
            self.late.append(f"S4: {view.name} to {view.executor} at {now:g} s, which holds {held} of {capacity} by it")

    def cut_watches(self) -> None:
        """Cut all watches."""
        self.network.cut_watches()
        self.prompt.disturbed(CUT_S)

    def _look_again(self) -> None:
        self.look()
        self.world.timeline.after(LOOK_S, self._look_again)

    def end(self) -> list[str]:
        """Unwind every process. Return all breaches but those in the log."""
        leaders = [*self.leaders, *self.buried]
        failures = [each.process.failure() for each in leaders if not each.process.is_alive]
        for leader in leaders:
            for wire in leader.wires:
                wire.unplug()
        found = [*(each for each in failures if each is not None), *self.end_all(), *self.forbidden]
        found += [*self.late, *self.prompt.breaches]
        return [str(each) if isinstance(each, str) else repr(each) for each in found]

    def _stored(self, event: Event) -> None:
        if event.resource == TABLE and event.type == "DELETED" and event.old is not None:
            self.gone[str(event.old.object()["metadata"]["uid"])] = event.old.object()
        elif event.resource == "leases.coordination.k8s.io" and event.new is not None:
            lease = event.new.object()
            if lease["metadata"]["name"].endswith(".supervisor"):
                term = int(lease["spec"].get("leaseTransitions") or 0)
                self.happened["term"] += term > self._term
                self._term = term

    def _fault(self, call: Call, _: int) -> Fault | None:
        fault = {"put": _PUT, "get": _GET}.get(call.method, {}).get(self.trouble)
        if fault is not None:
            self.happened[f"archive: {self.trouble.value}"] += 1
        return fault


class _Interrupted(ForwardingArchiver):
    """The archive of one supervisor, which may die before or after each of its calls."""

    def __init__(self, stage: Stage, name: str, archiver: Archiver) -> None:
        self._stage = stage
        self._name = name
        super().__init__(archiver)

    async def put(self, record: Record) -> None:
        await self._maybe_dies("archive", before=True)
        await self._archiver.put(record)
        await self._maybe_dies("archive", before=False)

    async def get(self, key: ByUid | ByName) -> Record:
        await self._maybe_dies("read archive", before=True)
        record = await self._archiver.get(key)
        await self._maybe_dies("read archive", before=False)
        return record

    async def _maybe_dies(self, call: SupervisorCall, *, before: bool) -> None:
        if self._stage.dies(self._name, call, before=before):
            await asyncio.get_running_loop().create_future()


def _call(request: Request, *, executes: bool) -> str:
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
    if _pointer(DRAIN) in done:
        return "requestdrain"
    return "finalizer" if _pointer(ARCHIVED) in done else ""


def _careless(request: Request) -> Request:
    """Return the patch without its preconditions.

    It also drops operations that would write other clients' edits back. A client that reads the present version first
    has none of these.
    """
    operations = [each for each in msgspec.json.decode(request.body) if each["op"] != "test"]
    kept = [
        each for each in operations if each["path"] in _WHOLE or any(part in each["path"] for part in _OF_EXECUTORS)
    ]
    return msgspec.structs.replace(request, body=msgspec.json.encode(kept))


def _pointer(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"
