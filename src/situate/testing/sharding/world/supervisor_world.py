"""Supervisors and executors as processes on virtual time, with an in-memory API server.

An all-seeing observer logs all requests that reach the server, and the log is checked at the end. A Lease counts as
lost by the time at which the server stored its last renewal, because no supervisor can know the loss earlier.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from random import Random
from typing import Any, Final, TypeVar

import msgspec

from situate.archive.protocol import Archiver, NotArchived
from situate.archive.records.record import ByName, ByUid, GroupKind, Record
from situate.archive.stores.memory import MemoryArchiver
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.client import Client
from situate.objects.kinds.meta import NO_LABELS
from situate.objects.messages import Request, Response
from situate.runtime.metrics import Metrics
from situate.sharding.executor.controller.environment import RuntimeEnvironment
from situate.sharding.fencing import admit
from situate.sharding.fencing.admit import Fence, Role, Writer
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import CORDON, EXECUTOR_UID, FINALIZER
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.strategies import MinScheduled, Strategy
from situate.sharding.supervisor.controller.supervisor import Supervisor
from situate.sharding.supervisor.scope import Scope
from situate.testing.builders.archive import ForwardingArchiver
from situate.testing.sharding import events
from situate.testing.sharding.invariants import Limits, breaches
from situate.testing.sharding.world.executor_world import (
    NAMESPACE,
    TABLE,
    ExecutorProcess,
    ExecutorWorld,
    Script,
    name_in,
    namespace_in,
    run_forever,
)
from situate.testing.sharding.world.holder_history import EligibilityHistory
from situate.testing.sharding.world.reports import GROUP, PATHS, REPORTS
from situate.testing.virtual_time.network import Wire
from situate.testing.virtual_time.processes import Process

KIND: Final = GroupKind(GROUP, "Report")
LEASE_S = 15.0
CONFIG = SupervisorConfig()
LABELS = {"app": "reports"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
S4_SLACK_S = 1.5
"""Seconds in which a supervisor on a calm network learns that an executor is no longer eligible."""
_T = TypeVar("_T")
_INVALID = Response(422, b'{"kind":"Status","reason":"Invalid","code":422,"message":"no"}', {})


class SupervisorProcess:
    """One supervisor process."""

    def __init__(
        self,
        town: SupervisorWorld,
        name: str,
        strategy: Strategy,
        archiver: Archiver | None,
        metrics: Metrics | None,
        speed: float = 1.0,
        **scope: Any,
    ) -> None:
        """`speed` is the speed of its clock relative to the town."""
        self.world = town
        self.name = name
        self.wires: list[Wire] = []
        self.wall_s = 0.0
        """Error of its wall clock in seconds."""
        around = RuntimeEnvironment(
            rng=Random(name),
            now=lambda: town.world.now * speed,
            wall=lambda: town.wall() + timedelta(seconds=self.wall_s),
            end_process=lambda _: None,
            own_thread=False,
        )
        self.supervisor = Supervisor(
            PATHS,
            strategy,
            archiver,
            town.config,
            scope=Scope(
                REPORTS,
                ExecutorWatch("app=reports", NAMESPACE),
                name,
                NAMESPACE,
                **{"namespace": NAMESPACE, **scope},
            ),
            connect=self._connect,
            surroundings=around,
            metrics=metrics,
        )
        self.process: Process = town.world.start(name, self.supervisor.run, speed)

    def crash(self) -> None:
        """Kill the process (SIGKILL)."""
        self.process.kill()
        for wire in self.wires:
            wire.disconnect()

    def stop(self) -> None:
        """End the process in order (SIGTERM)."""
        self.process.loop.call_soon_threadsafe(self.supervisor.stop)

    @property
    def is_leader(self) -> bool:
        return self.process.is_alive and self.supervisor.is_leader()

    def _connect(self) -> Client:
        wire = self.world.network.connect(Identity(f"supervisor {self.name}", ("system:authenticated",)))
        wire.in_time = self.world.drops_late_writes
        self.wires.append(wire)
        return Client(wire)


class LoggedArchiver(ForwardingArchiver):
    """An archive that logs each copy, even if the put returns no answer."""

    def __init__(self, town: SupervisorWorld, archiver: Archiver) -> None:
        self._world = town
        super().__init__(archiver)

    async def put(self, record: Record) -> None:
        try:
            await self._archiver.put(record)
        finally:
            subject, present = record.subject, self._world.archived_record(record.subject.uid)
            if present is not None and present.subject.resource_version == subject.resource_version:
                now = self._world.world.now
                self._world.log_event(events.ArchivePut(now, subject.uid, subject.resource_version, str(subject.key)))

    async def get(self, key: ByUid | ByName) -> Record:
        record = await self._archiver.get(key)
        subject, present = record.subject, self._world.archived_record(record.subject.uid)
        if present is not None and present.digest == record.digest:
            self._world.log_event(events.ArchiveVerified(self._world.world.now, subject.uid, subject.resource_version))
        return record


class SupervisorWorld(ExecutorWorld):
    """A place with supervisors. Close it at the end."""

    def __init__(
        self,
        config: SupervisorConfig = CONFIG,
        *,
        archive: bool = False,
        status_subresource: bool = True,
        seed: int = 1,
        lease_s: float = LEASE_S,
    ) -> None:
        """`lease_s` is the earliest time after which a supervisor may judge a Lease expired."""
        super().__init__(status_subresource=status_subresource, seed=seed)
        self.config = config
        self.happened: Counter[str] = self.network.happened
        """How often each kind of fault and each kind of action occurred."""
        self.leaders: list[SupervisorProcess] = []
        self.memory_archiver = MemoryArchiver()
        self.archiver: Archiver | None = LoggedArchiver(self, self.memory_archiver) if archive else None
        self.on_write: Callable[[Request, Identity], None] = lambda _, __: None
        """Called with each write of a supervisor that the server has carried out, before the answer leaves."""
        self.first_assigned_at: dict[str, float] = {}
        """When each object was first assigned."""
        self.nodes: dict[str, str] = {}
        """By pod: its own node."""
        self._pods = 0
        self._lease_s = lease_s
        self._live_leases: dict[str, str] = {}
        """By UID of the executor: its pod. Without expired and released Leases, and those of ended pods."""
        self.eligibility = EligibilityHistory(LABELS, lease_s)
        self.api.store.subscribe(lambda event: self.eligibility.record_change(event, self.world.now))
        self.late_assignments: list[str] = []
        """Assignments to executors that had been ineligible for too long (S4)."""
        self.silent_listings = ""
        """End of a path whose lists and watches by a supervisor are never answered. Empty: none."""
        self.refused_names: set[str] = set()
        """Names of objects whose writes are all invalid."""
        self.refusals: list[float] = []
        """Times of such writes."""
        self.forbidden_writes: list[str] = []
        """Writes that a server with the policy would have refused under any leader."""
        self.s4_slack_s = S4_SLACK_S
        self.drops_late_writes = False
        """Whether no write of a supervisor arrives after the supervisor gave it up."""
        self.tolerated_invariants.add("S4")  # checked here, with the time that a watch takes

    def start_supervisor(
        self,
        name: str = "s1",
        strategy: Strategy | None = None,
        archiver: Archiver | None = None,
        metrics: Metrics | None = None,
        **scope: Any,
    ) -> SupervisorProcess:
        """Start a supervisor process."""
        leader = SupervisorProcess(self, name, strategy or MinScheduled(), archiver or self.archiver, metrics, **scope)
        self.leaders.append(leader)
        return leader

    @property
    def current_leader(self) -> SupervisorProcess | None:
        return next((each for each in self.leaders if each.is_leader), None)

    def create_pod(self, name: str, labels: Mapping[str, str] = NO_LABELS) -> str:
        """Create a ready pod and return its UID. An existing one of the name is deleted first."""
        found = self.api.store.get("pods", NAMESPACE, name)
        if found is not None:
            self.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        self._pods += 1
        self.nodes[name] = f"node-{self._pods}"
        made = self.call(
            "POST",
            PODS,
            {
                "metadata": {"name": name, "labels": {**LABELS, **labels}},
                "spec": {"nodeName": self.nodes[name], "containers": [{"name": "executor", "image": "reports"}]},
            },
        )
        self.write_pod_status(name)
        return str(made["metadata"]["uid"])

    def write_pod_status(self, name: str, *, ready: bool = True, terminated: bool = False) -> None:
        """Write the pod's status, as the kubelet does."""
        state: dict[str, Any] = {"terminated": {"exitCode": 137}} if terminated else {"running": {}}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready and not terminated)}],
            "containerStatuses": [
                {
                    "name": "executor",
                    "ready": ready and not terminated,
                    "restartCount": 0,
                    "image": "reports",
                    "imageID": "",
                    "state": state,
                }
            ],
        }
        pod = self.call("GET", f"{PODS}/{name}")
        self.call("PUT", f"{PODS}/{name}/status", pod | {"status": status})
        uid = pod["metadata"]["uid"]
        if terminated:
            self._lose_lease(uid)

    def create_executor(
        self, name: str, script: Script = run_forever, *, labels: Mapping[str, str] = NO_LABELS, **config: Any
    ) -> ExecutorProcess:
        """Create a pod, with these extra labels, and the executor in it."""
        uid = self.create_pod(name, labels)
        return self.start_executor(name, uid, script, announce=False, **config)

    def archived_record(self, uid: str) -> Record | None:
        """Return the archived record of the object or None, whatever fault the archive plays."""
        try:
            return run_to_completion(self.memory_archiver.get(ByUid(KIND, uid)))
        except NotArchived:
            return None

    def view(self, name: str) -> ObjectView:
        return view_of(self.get(name), PATHS)

    def views(self) -> list[ObjectView]:
        return [view_of(each, PATHS) for each in self.call("GET", REPORTS.path(NAMESPACE))["items"]]

    def annotate(self, name: str, key: str, value: str) -> None:
        """Write an annotation on an object as a user."""
        found = self.get(name)
        annotations = found["metadata"].get("annotations", {}) | {key: value}
        path = REPORTS.path(NAMESPACE, name)
        self.call("PUT", path, found | {"metadata": found["metadata"] | {"annotations": annotations}})

    def exists(self, name: str) -> bool:
        return self.api.store.get(TABLE, NAMESPACE, name) is not None

    def cordon(self, pod: str, text: str = "true") -> None:
        """Write the cordon annotation on a pod as an administrator."""
        found = self.call("GET", f"{PODS}/{pod}")
        annotations = found["metadata"].get("annotations", {}) | {CORDON: text}
        self.call("PUT", f"{PODS}/{pod}", found | {"metadata": found["metadata"] | {"annotations": annotations}})

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        about_object = "/reports/" in request.path and request.method in ("PATCH", "DELETE")
        if about_object and request.path.split("/reports/")[1] in self.refused_names:
            self.refusals.append(self.world.now)
            return _INVALID
        stored = self.stored_object(request) if about_object else None
        supervises = identity.user.startswith("supervisor")
        if supervises and self.silent_listings and request.path.endswith(self.silent_listings):
            return None
        if "/leases" in request.path:
            self.log_expired_leases()  # a Lease that has expired was lost, also if it is renewed now
        carry_out = self.execute if supervises else super().answer
        answer = carry_out(request, now, identity)
        if not isinstance(answer, Response) or answer.status >= 300 or request.method == "GET":
            return answer
        if stored is not None and request.method == "PATCH":
            self.audit(request, stored, answer, Role.SUPERVISOR if supervises else Role.EXECUTOR, identity.uid)
        if supervises:
            if stored is not None:
                self._log_supervisor(request, stored, answer)
            self.on_write(request, identity)
        elif "/leases" in request.path:
            self._on_lease_write(answer)
        return answer

    def close(self) -> None:
        """Close the place and the supervisors."""
        for leader in self.leaders:
            for wire in leader.wires:
                wire.disconnect()
        failures = [each.process.failure() for each in self.leaders if not each.process.is_alive]
        super().close()
        assert [each for each in failures if each is not None] == [], [
            traceback.format_exception(e) for e in failures if e
        ]
        assert self.late_assignments == []
        assert self.forbidden_writes == []

    def check(self, **limits: float) -> None:
        """Raise if a time limit was exceeded."""
        found = [
            each for each in breaches(self.log, Limits(**limits)) if each.invariant not in self.tolerated_invariants
        ]
        assert found == []

    def log_expired_leases(self) -> None:
        """Log the Leases that have expired by now."""
        for uid in tuple(self._live_leases):
            if self.world.now - self.eligibility.states[uid].renewed_at >= self._lease_s:
                self._lose_lease(uid)

    def _lose_lease(self, uid: str) -> None:
        pod = self._live_leases.pop(uid, None)
        if pod is not None:
            self.happened["lease lost"] += 1
            self.log_event(events.LeaseLost(self.world.now, pod, uid))

    def audit(self, request: Request, stored: Content, answer: Response, role: Role, uid: str) -> None:
        """Check a write by the policy, except for the leader's term, which a server without the policy cannot know."""
        subresource = "status" if request.path.endswith("/status") else ""
        asked = admit.WriteRequest(Writer(role, uid), msgspec.json.decode(answer.body), subresource)
        if refusal := admit.admit(stored, asked, Fence()):
            self.forbidden_writes.append(f"{role.value}: {request.body!r}: {refusal}")

    @property
    def calm_since(self) -> float:
        """Return since when a supervisor can know all recent changes."""
        return 0.0

    def check_choice(self, view: ObjectView) -> None:
        """Check S4, with the time that a watch takes."""
        now = self.world.now
        since = self.eligibility.ineligible_since(view.executor_uid, now)
        if now - self.s4_slack_s < self.calm_since:
            return
        self.happened["judged: S4"] += 1
        if since is not None and now - max(since, self.calm_since) > self.s4_slack_s:
            said = f"{view.name} to {view.executor} ({view.executor_uid}) at {now:g} s, not eligible since {since:g} s"
            self.late_assignments.append(f"S4: {said}")

    def _on_lease_write(self, answer: Response) -> None:
        content = msgspec.json.decode(answer.body)
        uid = content["metadata"].get("annotations", {})[EXECUTOR_UID]
        member = next(each for each in self.members if each.uid == uid)
        if not content["spec"].get("holderIdentity"):
            self.happened["lease released"] += 1
            self._lose_lease(uid)
        elif uid not in self._live_leases and member.process.is_alive:  # otherwise it was sent before the end
            self._live_leases[uid] = member.pod
            self.log_event(events.Eligible(self.world.now, member.pod, uid))

    def stored_object(self, request: Request) -> dict[str, Any] | None:
        """Return the present object of a request, or None."""
        found = self.api.store.get(TABLE, namespace_in(request.path), name_in(request.path))
        return None if found is None else found.object()

    def _log_supervisor(self, request: Request, stored: dict[str, Any], answer: Response) -> None:
        now, before = self.world.now, view_of(stored, PATHS)
        self.log_expired_leases()
        if request.method == "DELETE":
            self.happened["deleted"] += 1
            self.log_event(events.Deleted(now, before.uid))
            return
        after = view_of(msgspec.json.decode(answer.body), PATHS)
        if after.epoch != before.epoch and after.holder is not None:
            uid = after.executor_uid
            self.happened[f"assigned: {after.why}"] += 1
            self.log_event(events.Assign(now, after.name, after.executor, uid, after.epoch, after.term))
            self.first_assigned_at.setdefault(after.name, now)
            self.check_choice(after)
        elif after.epoch != before.epoch:
            self.happened["revoked"] += 1
            self.log_event(events.Revoke(now, after.name, after.epoch))
        elif after.drain is not None and before.drain is None:
            self.happened["asked to drain"] += 1
        if after.completed and not before.completed:
            self.happened[f"failed: {after.reason}"] += 1
            self.log_event(events.ObjectCompleted(now, after.name))
        removed = before.has_finalizer(FINALIZER) and not after.has_finalizer(FINALIZER)
        if removed or after.archived != before.archived:
            self.happened["finalizer removed"] += 1
            self.log_event(events.FinalizerRemoved(now, before.uid, before.resource_version))


def run_to_completion(call: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never waits, as those of the archive in memory."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("the in-memory archive has waited")
