"""Invariants of every history of spot. A breach is a sentence with the code of the rule.

They are checked at every write of ours, at every change of a pod or node, after every step, and at the end.

They use the records of the recorder, which shares no code with the deciding code. `reviewing` checks answers to
reviews.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.runtime.serving.webhook_server import Reply
from situate.spot.model.object_names import NAME
from situate.testing.histories.watchdog import Watchdog, check_processes, check_reflectors
from situate.testing.spot.invariants.object_rows import OwnerRow, PodRow
from situate.testing.spot.invariants.recorder import Recorder, owners_in_order
from situate.testing.spot.world.world import OWN_NAMESPACE, OWN_PODS, SpotWorld
from situate.testing.virtual_time.world import EPOCH

RECHECK_S: Final = 1.0
"""Seconds from a process's last read of a workload until its write arrives. It cannot know changes in between."""
WATCH_LAG_S: Final = 6.0
"""Seconds from a change until a connected process has seen it: the longest delay of watches, and one check."""
REACTION_S: Final = 5.0
"""Seconds from a user's write until Kubernetes' controllers have begun to act on it."""
PEND_S: Final = 30.0
"""How long a pod may have no node before it counts as unschedulable, by the settings of histories."""
WINDOW_EVERY_S: Final = 600.0
WINDOW_S: Final = 300.0
LATE_S: Final = 2.0
"""Maximum seconds after the end of a window at which a move decided within it arrives, unless a message is lost."""
DRAIN_S: Final = 100.0
"""Seconds within which moves in progress have ended, whatever messages were lost."""
LEADER_AGE_S: Final = 6.0
"""Maximum age in seconds of spot's knowledge of the holder of a workload's own Lease."""
_OWN_PATHS: Final = (
    "/leases/",
    "/leases",
    "/secrets",
    "/mutatingwebhookconfigurations/",
    "/events",
    f"/namespaces/{OWN_NAMESPACE}/configmaps",
)
_LEASE: Final = f"{OWN_NAMESPACE}/{NAME}"


@dataclass
class SpotWatchdog(Watchdog):
    """Watches a world from its first moment on."""

    world: SpotWorld
    recorder: Recorder
    moves: int = 0
    """Number of pods that we evicted, deleted or released."""
    blind_until: float = 0.0
    """Time until which processes may lag by any time, because watches were cut or the server was down."""
    windows: bool = False
    """Whether policy may move pods only in the first five of every ten minutes."""
    read_only_since: float | None = None
    """Start of read-only mode. None: pods may be moved."""
    policy_moves: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, workload and pod of the moves that only policy required."""
    _leader_pods: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By UID of the workload: UID of the pod that leads it, and since when."""
    _last_holder: str = ""
    """Last holder of the Lease."""
    _settled_floors: dict[str, int] = field(default_factory=dict)
    """By UID: the floor of each workload that reached its floor and was not disturbed since."""

    def __post_init__(self) -> None:
        self.world.request_listeners.append(self._check_write)
        self.world.answer_listeners.append(self._check_answer)
        self.recorder.change_listeners.append(self._check_floor)

    def check(self) -> None:
        """Check all rules after a step. Raises `HistoryBreach`."""
        self.raise_first_breach()
        check_processes(self.world.world.processes)
        for member in self.world.members:
            check_reflectors(member.identity, member.controller.reflectors())
        for owner in owners_in_order(self.recorder):
            if self._has_settled(owner):
                self._settled_floors[owner.uid] = owner.floor

    def last_records(self) -> list[str]:
        """Return the latest rows of the recorder, for a report of a breach."""
        return [" ".join((f"{row[0]:.3f}", row[1], *row[3:])) for row in self.recorder.log][-60:]

    def record_disturbance(self, owner: str = "") -> None:
        """Record an act of a user or a fault that may cost this workload on-demand pods. Empty: all workloads."""
        if owner:
            self._settled_floors.pop(owner, None)
        else:
            self._settled_floors.clear()

    def record_leader(self, owner: str, pod: str) -> None:
        """Record that this pod leads the workload from now on (B45)."""
        self._leader_pods[owner] = pod, self.world.now

    def clear_leaders(self) -> None:
        """Record that no workload names a leader any more."""
        self._leader_pods.clear()

    def is_settled(self, owner: str) -> bool:
        return owner in self._settled_floors

    def record_breach(self, said: str) -> None:
        super().record_breach(f"{said} ({self.world.now:.3f} s)")

    def _has_settled(self, owner: OwnerRow) -> bool:
        if not owner.can_be_read or self.world.now - owner.changed_at < REACTION_S:
            return False
        seen = self.world.now - self._lag_s()
        if any(node.changed_at >= seen for node in self.recorder.nodes.values()):
            return False  # a process may still count a pod by an old state of its node
        pods = self.recorder.pods_of(owner.uid)
        whole = len(pods) == owner.replicas and all(
            pod.live and not pod.held and self.recorder.is_serving(pod) for pod in pods
        )
        return whole and self.recorder.on_demand_serving_count(owner.uid) >= owner.floor

    def _check_floor(self, owner: str) -> None:
        """Check I1, I2 and I3 at every moment for a settled workload, whatever happens to spot nodes."""
        floor = self._settled_floors.get(owner)
        if floor is None or self._first_breach is not None:
            return
        row = self.recorder.owners.get(owner)
        if row is None or row.floor != floor:
            del self._settled_floors[owner]
            return
        found = self.recorder.on_demand_serving_count(owner)
        if found < floor:
            self.record_breach(
                f"I1: {row.kind} {row.name} had settled with {floor} on demand, but {found} of them serve: "
                f"{self.recorder.describe_pods(owner)}"
            )

    def _check_answer(self, identity: str, reply: Reply) -> None:
        """Check I11: the process that answers holds the Lease."""
        self._digest.update(f"{self.world.now!r} {identity} answers {reply.status}".encode())
        if reply.status == 200 and identity != self._lease_holder():
            self.record_breach(
                f"I11: {identity} answers a review while {self._lease_holder() or 'no process'} holds the Lease"
            )

    def _lease_holder(self) -> str:
        found = self.world.cluster.api.store.get("leases.coordination.k8s.io", OWN_NAMESPACE, NAME)
        return str(found.object()["spec"].get("holderIdentity") or "") if found is not None else ""

    def _count_hand_overs(self) -> None:
        """Count hand-overs of the Lease between living processes."""
        holder = self._lease_holder()
        if holder and holder != self._last_holder:
            alive = any(member.identity == self._last_holder for member in self.world.members)
            self.world.happened["lease handed over"] += alive
            self._last_holder = holder

    def _check_write(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        """Check every write of a process of ours that the server carried out."""
        if not isinstance(answer, Response) or not identity.user.startswith(OWN_PODS):
            return
        secret = "/secrets" in request.path or "webhookconfigurations" in request.path  # keys differ in every run
        line = f"{self.world.now!r} {identity.user} {request.method} {request.path} {answer.status} "
        self._digest.update(line.encode() + (b"" if secret else request.body))
        pod = unquote(request.path).partition("/pods/")[2]
        if answer.status == 429 and pod.endswith("/eviction"):
            self.world.happened["eviction answered 429"] += 1
        if answer.status >= 300:
            return
        if any(part in request.path for part in _OWN_PATHS):
            self._count_hand_overs()
            return
        self.writes += 1
        if not pod:
            self.record_breach(f"I6: {identity.user} wrote {request.method} {request.path}")
            return
        if identity.user != self._lease_holder():
            self.record_breach(
                f"I11: {identity.user} wrote {request.path} while {self._lease_holder() or 'no process'} holds the "
                "Lease"
            )
        name, _, sub = pod.partition("/")
        if name.startswith(OWN_PODS):
            return
        row = self.recorder.pod_named(name) or self.recorder.gone_pods.get(name)
        if row is None:
            self.record_breach(f"{request.method} {request.path} was executed on a Pod that never existed")
            return
        self._check_pod_write(row, sub, request)

    def _check_pod_write(self, row: PodRow, sub: str, request: Request) -> None:
        now = self.world.now
        if sub == "status" or b"schedulingGates" in request.body:
            return
        if self.read_only_since is not None and now - max(self.read_only_since, self.blind_until) > DRAIN_S:
            self.record_breach(f"B14: {row.name} was changed, but spot is read-only since {self.read_only_since:.3f} s")
        if sub == "eviction" or request.method == "DELETE":
            if row.released:
                self.world.happened["released pod ended"] += 1
                self.moves += 1
            elif row.terminating_at >= now or row.terminating_at == float("inf"):
                self.moves += 1
                self._check_move(row, evicted=sub == "eviction")
        elif row.released_at == now:
            self.world.happened["released"] += 1
            self.moves += 1
            self._check_move(row, evicted=False)
        elif b"deletion-cost" in request.body:
            self.world.happened["cost set"] += 1
        elif b"tolerationSeconds" in request.body:
            self.world.happened["tolerations shortened"] += 1

    def _check_move(self, pod: PodRow, *, evicted: bool) -> None:
        """Check a move by spot that has just removed a pod."""
        recorder, now = self.recorder, self.world.now
        owner = recorder.owners.get(recorder.owner_of(pod))
        node = recorder.nodes.get(pod.node)
        if not pod.node:
            self._check_waited(pod)
            return
        if owner is None:
            return
        if node is None or node.ending or node.changed_at >= now - self._lag_s():
            self.world.happened["evacuated"] += 1
            return
        if node.cordoned and not node.risky:
            self.record_breach(f"I14: {pod.name} was moved from {node.name}, which a user has cordoned")
        if evicted and self._is_any_waiting():
            self.world.happened["evicted while another waits"] += 1
            return
        self.world.happened["evicted by policy" if evicted else "released by policy"] += 1
        self.policy_moves.append((now, owner.name, pod.name))
        self._check_policy_move(owner, pod)

    def _check_policy_move(self, owner: OwnerRow, pod: PodRow) -> None:
        recorder, now = self.recorder, self.world.now
        known = now - RECHECK_S
        others = [each for each in recorder.pods_of(owner.uid) if each.uid != pod.uid]
        told = f"{owner.kind} {owner.name}, R {owner.replicas}, M {owner.floor}: {recorder.describe_pods(owner.uid)}"
        for each in others:
            if each.terminating and each.terminating_at < known:
                self.record_breach(f"I4: {pod.name} was moved while {each.name} is terminating; {told}")
            elif each.live and not each.node and each.created < known - 1.0:
                self.record_breach(f"I4: {pod.name} was moved while {each.name} has no node; {told}")
            elif each.live and not each.ready and max(each.unready_at, each.created + 1.0) < known:
                self.record_breach(f"I4: {pod.name} was moved while {each.name} is not ready; {told}")
            elif each.released and each.active and each.released_at < known:
                self.record_breach(f"I4: {pod.name} was moved while {each.name} is being moved; {told}")
        live = sum(each.live for each in others) + 1
        if live < owner.replicas and owner.changed_at < known and self._is_steady(others, known):
            self.record_breach(f"I5: {pod.name} was moved while {owner.replicas - live} pods are missing; {told}")
        if owner.opted_out and owner.changed_at < now - self._lag_s():
            self.record_breach(f"{pod.name} was moved although its workload is unmanaged; {told}")
        if (
            now - self._leader_pods.get(owner.uid, ("", now))[1] > LEADER_AGE_S + self._lag_s()
            and self._leader_pods[owner.uid][0] == pod.uid
        ):
            self.record_breach(f"B45: {pod.name} was moved, which is a leader; {told}")
        steady_clocks = self.world.clocks_agree and now - max(self.world.clock_set_at, self.blind_until) > DRAIN_S
        if self.windows and steady_clocks and (EPOCH + now) % WINDOW_EVERY_S > WINDOW_S + LATE_S:
            self.record_breach(f"B13: {pod.name} was moved outside the windows; {told}")
        only = owner.kind == "StatefulSet" and owner.replicas == 1 and not owner.may_restart and not self.windows
        if only and owner.changed_at < known:
            self.record_breach(f"P29: {pod.name} was moved, the only pod of its StatefulSet; {told}")
        self._check_counts(owner, pod, others, told)

    def _check_counts(self, owner: OwnerRow, pod: PodRow, others: list[PodRow], told: str) -> None:
        """Check I1 and I13: a move brings the count nearer to the floor, and never below it."""
        recorder = self.recorder
        stale = self.world.now - self._lag_s()
        if not owner.can_be_read or owner.changed_at >= stale:
            return
        if any(row.changed_at >= stale for row in recorder.nodes.values()):
            return
        stood = recorder.effective_class(pod) == "on-demand"
        before = sum(each.live and recorder.effective_class(each) == "on-demand" for each in others) + stood
        serving = sum(
            each.live and recorder.is_serving(each) and recorder.effective_class(each) == "on-demand" for each in others
        )
        risky = recorder.nodes[pod.node].risky
        if stood and serving < min(owner.floor, before):
            self.record_breach(f"I1: {pod.name} was moved, and {serving} of {before} serve on demand; {told}")
        if before == owner.floor and not risky:
            self.record_breach(f"I13: {pod.name} was moved although {before} are on demand, as requested; {told}")
        if stood != (before > owner.floor) and not risky:
            self.record_breach(f"I13: {pod.name} was moved in the wrong direction, {before} are on demand; {told}")

    def _is_steady(self, others: list[PodRow], known: float) -> bool:
        gone = [pod.terminating_at for pod in self.recorder.gone_pods.values()]
        return all(each.terminating_at < known or each.terminating_at == float("inf") for each in others) and all(
            at < known or at == float("inf") for at in gone
        )

    def _check_waited(self, pod: PodRow) -> None:
        """Check that a pod deleted before it ran had waited long enough (B17, B18), if the clocks allow it."""
        if self.world.clocks_agree and self.world.now - pod.created_timestamp < PEND_S - 1.0:
            self.record_breach(
                f"B17: {pod.name} was deleted {self.world.now - pod.created_timestamp:.1f} s after it was created"
            )
        self.world.happened["waiting pod taken back"] += 1

    def _is_any_waiting(self) -> bool:
        """Return whether an on-demand pod has had no node for long, or had none until a moment ago (B19)."""
        now, behind = self.world.now, self._lag_s()
        return any(
            pod.pod_class == "on-demand"
            and (not pod.node or pod.bound_at >= now - behind)
            and now - pod.created >= PEND_S - 1.0
            and pod.live
            for pod in self.recorder.pods.values()
        )

    def _lag_s(self) -> float:
        """Return by how many seconds processes may lag."""
        return WATCH_LAG_S if self.world.now > self.blind_until else float("inf")


def unfinished_work(watchdog: SpotWatchdog) -> str | None:
    """Return why the cluster is not as it should be after all faults have ended (B28), or None."""
    recorder = watchdog.recorder
    for owner in owners_in_order(recorder):
        pods = recorder.pods_of(owner.uid)
        named = f"{owner.kind} {owner.name}"
        told = recorder.describe_pods(owner.uid)
        serving = sum(pod.live and recorder.is_serving(pod) for pod in pods)
        if serving != owner.replicas or len(pods) != owner.replicas:
            return f"{named} wants {owner.replicas} pods: {told}"
        found = recorder.on_demand_count(owner.uid)
        if found != owner.floor:
            return f"{named} wants {owner.floor} of {owner.replicas} on demand, but has {found}: {told}"
    return None
