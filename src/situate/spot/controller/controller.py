"""The process: every replica watches; the leader renews certificates, listens and answers with its own ledger.

Everything runs on one event loop and uses its time, so a simulated loop runs the same code. Rules: B4, P22.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import structlog

from situate.kube.client import Client
from situate.kube.election.election import Candidacy, ElectionEvent, Elector, Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import KubeError
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.config_maps import Secret
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.meta import KubernetesObject, OwnerReference
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import LEASES, PODS, SECRETS, ResourceType
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.leadership.leader_label import LeaderLabel, maintain_leader_label
from situate.runtime.leadership.rollout import STEP_DOWN_PERIODS, LeaseHandover
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.serving.certificates.issue import host_names
from situate.runtime.serving.certificates.renewal_schedule import Generation
from situate.runtime.serving.certificates.secret_controller import MUTATING, CertificateController, CertificateTarget
from situate.runtime.serving.certificates.webhook_presence import WebhookPresence
from situate.runtime.serving.webhook_server import AnswerReview, Webhook, WebhookEndpoint
from situate.spot.admission.admit import AdmissionSettings, AdmissionView, LiveRead
from situate.spot.admission.ledger import Ledger, Slot
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.act.apply import Applier
from situate.spot.controller.act.attempt import ActionExecutor, Attempt, DepartureCallbacks
from situate.spot.controller.act.conditions import ConditionWriter
from situate.spot.controller.act.decision_loop import DecisionLoop
from situate.spot.controller.act.gates import Gates
from situate.spot.controller.act.labels import NodeLabeller
from situate.spot.controller.act.live_recheck import LiveRecheck
from situate.spot.controller.act.notify import EventRecorder, Notifier
from situate.spot.controller.act.refused_creates import RefusedCreates
from situate.spot.controller.headroom_monitor import HeadroomMonitor
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.controller.observe.cache import FactsCache
from situate.spot.controller.observe.constraints_watch import ConstraintInformers
from situate.spot.controller.observe.free_capacity import CapacitySource
from situate.spot.controller.observe.informers import Informers
from situate.spot.controller.observe.interruption_record import InterruptionRecord
from situate.spot.controller.observe.live_reads import LiveReads
from situate.spot.controller.observe.policy_record import PolicyRecord
from situate.spot.controller.restart_on_error import restart_on_error
from situate.spot.model.object_names import (
    CERTIFICATES,
    LEADER_LABEL,
    LEASE_REQUEST_ANNOTATION,
    NAME,
    WEBHOOK,
    WEBHOOK_PATH,
    configuration_name,
)
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.nodes.pool_stability import restore_pools
from situate.spot.rebalance.node_termination import nodes_to_avoid
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.server.webhook_handler import AdmissionHandler
from situate.spot.workloads.on_demand_policy import Policy

T = TypeVar("T", bound=KubernetesObject)

_PROMOTION_RETRY_S: Final = 1.0
_SWEEP_S: Final = 0.25
_SLOTS_PER_SWEEP: Final = 64
"""Slots of the ledger settled in one sweep, so that a sweep never delays an answer."""
_DRAIN_S: Final = 1.5
"""How long a shutdown waits for answers in progress: shorter than API servers wait."""


def _https_listener(address: str, answer: AnswerReview) -> WebhookEndpoint:
    return Webhook(address, answer, path=WEBHOOK_PATH, setting="spot.webhook.address")


class NotLeading(Retriable):
    """A write that only the leader may make was about to be sent."""


@dataclass(frozen=True, slots=True)
class ProcessLocation:
    """The place of this process in the cluster."""

    namespace: str
    """Namespace of its Secret, its Service and its own pod."""
    pod: str = ""
    """Name of its own pod; empty outside a cluster."""


class SpotController:
    """The spot service: `run` lasts until `stop` or cancellation, and then releases the Lease."""

    name = "spot"

    def __init__(
        self,
        settings: SpotSettings,
        client: Client,
        candidacy: Candidacy,
        place: ProcessLocation,
        *,
        record: EventRecorder,
        metrics: AdmissionMetrics,
        wall: Callable[[], datetime],
        rng: random.Random,
        token: Callable[[], str],
        election_client: Client | None = None,
        observe_election: Callable[[ElectionEvent], None] = lambda _: None,
        door: Callable[[str, AnswerReview], WebhookEndpoint] = _https_listener,
    ) -> None:
        """`token`: returns a new token at each call, for reservations. `election_client`: client for the Lease.

        `door`: creates the listener from its address and the answering function; HTTPS except without a network.
        """
        self.settings = settings
        self.location = place
        self._client = client
        self._candidacy = candidacy
        self._elections = election_client or client
        self._record = record
        self._metrics = metrics
        self._move_metrics = MoveMetrics(metrics.registry)
        self._wall = wall
        self._token = token
        self._leadership: Leadership | None = None
        self._stopping = asyncio.Event()
        self._serving = False
        self._last_claim: tuple[str, datetime | None] | None = None  # claim of the Lease as last seen
        self._wake_event = asyncio.Event()
        self._guarded = client.with_write_check(self._may_write)
        self.informers = Informers.create(client, rng, settings.owner_kinds)
        table = settings.table
        self.cache = FactsCache(
            self.informers,
            table,
            settings.rules(),
            wall=lambda: wall().timestamp(),
            nodes_changed=self._on_nodes_change,
            policies_changed=self._on_policies_change,
        )
        self._policies = PolicyRecord(client, place.namespace, rng, lambda: self.cache.policies, self._recall_policies)
        self._admission_settings: AdmissionSettings | None = (
            None  # computed on demand: nodes change more often than pods come
        )
        self.live_reads = LiveReads(client, table, settings.webhook.live_read_s)
        self.constraints = ConstraintInformers(client, self.cache.cluster, rng, _now)
        self.capacity = CapacitySource(self.informers, client, rng, table)
        self.decision_loop = DecisionLoop(
            self.cache.snapshot,
            self.cache.memories,
            self.constraints,
            self.capacity,
            lambda: self.settings,
            wall=lambda: wall().timestamp(),
            decided=lambda decision, situation: self._move_metrics.observe_decision(decision, situation, _now()),
        )
        for reflector in self.informers.reflectors():
            if reflector is not self.informers.nodes:  # nodes have heartbeats; the cache reports their real changes
                reflector.store.on_change(lambda _, __: self.decision_loop.wake())
        self._actuator = Actuator(self._may_write)
        self._refused_creates = RefusedCreates(self.live_reads.read, _now)
        self.informers.refusals.store.on_change(self._refused_creates.observe_event)
        self._secrets: Reflector[Secret] = _object_reflector(client, SECRETS, CERTIFICATES, place.namespace, rng)
        self._configurations: Reflector[Unstructured] = _object_reflector(
            client, MUTATING, configuration_name(place.namespace), None, rng
        )
        self._leases: Reflector[Lease] = _object_reflector(client, LEASES, NAME, candidacy.namespace, rng)
        self.admission_handler = AdmissionHandler(
            self._admission_view,
            self.live_reads.read,
            may_answer=self._may_answer,
            clock=_now,
            token=token,
            ledger=_empty_ledger(settings),
            metrics=metrics,
        )
        self.gates = Gates(
            self.informers.pods.store,
            self._admission_view,
            self.live_reads.read,
            record,
            token=token,
            wall=lambda: wall().timestamp(),
            metrics=metrics,
        )
        self._node_labeller = NodeLabeller(self.informers.nodes.store, lambda: self.settings)
        self.listener = door(settings.webhook.address, self.admission_handler.answer)
        self._upkeep = CertificateController(
            CertificateTarget(MUTATING, configuration_name(place.namespace), WEBHOOK, CERTIFICATES, place.namespace),
            self._guarded,
            self._secrets,
            self._configurations,
            names=host_names(NAME, place.namespace),
            life_s=lambda: self.settings.webhook.certificate_life_s,
            wall=lambda: wall().timestamp(),
            serve=self._serve_with,
        )
        self._webhook_presence = WebhookPresence(self._configurations, configuration_name(place.namespace), WEBHOOK)
        self._lease_requests = LeaseHandover(
            LeaseName(candidacy.namespace, NAME),
            self._leases,
            self.informers.pods.store,
            self._revision,
            wants=LEASE_REQUEST_ANNOTATION,
            pod=place.pod,
            namespace=place.namespace,
        )
        self._lease_requests.on_change(self._on_lease_change)
        self._interruption_record = InterruptionRecord(
            self.cache.cluster.nodes,
            self._leases.store,
            candidacy.namespace,
            wall=lambda: wall().timestamp(),
        )
        self._headroom_monitor = HeadroomMonitor(
            self._move_metrics, self.capacity.capacity_for_plan, lambda: self._interruption_record.history
        )
        self.elector = Elector(
            self._elections,
            LeaseName(candidacy.namespace, NAME),
            candidacy.identity,
            self._lead,
            wall_clock=wall,
            rng=rng,
            times=candidacy.times,
            observe=observe_election,
        )
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self) -> None:
        """Watch the cluster and take part in leader election. Raises unexpected exceptions."""
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(each.run(), name=each.name) for each in self.reflectors()]
                beside.append(group.create_task(self._request_lease(), name="lease request"))
                beside.append(group.create_task(self.gates.alert(), name="gated pods"))
                beside.append(group.create_task(self._report_webhook_presence(), name="webhook configuration"))
                await group.create_task(self.elector.run(), name=self.elector.name)
                for task in beside:
                    task.cancel()
        finally:
            await self.live_reads.close()

    def stop(self) -> None:
        """End `run` in an orderly way: answer open requests and release the Lease."""
        self._stopping.set()
        if self._serving:
            self._wake_event.set()
        else:
            self.elector.stop()

    def reflectors(self) -> Sequence[Reflector[Any]]:
        return (
            *self.informers.reflectors(),
            *self.constraints.reflectors(),
            *self.capacity.storage,
            self._secrets,
            self._configurations,
            self._leases,
            self._policies.reflector,
        )

    def not_ready(self) -> str | None:
        """Return the problem that makes the process not ready. A synced standby is ready; a leader must also listen."""
        problem = self.informers.not_ready()
        if problem is not None:
            return problem
        if self.elector.is_leader() and not self.listener.listening:
            return "this process leads, but its webhook does not listen yet"
        return None

    def reconfigure(self, settings: SpotSettings) -> None:
        """Apply new settings without a restart; the address is read only at the start."""
        self.settings = settings
        table = settings.table
        self.live_reads.table, self.live_reads.within_s = table, settings.webhook.live_read_s
        self.cache.reconfigure(table, settings.rules())
        self.capacity.table = table
        self._drop_admission_settings()
        self.decision_loop.wake()
        self._node_labeller.wake()

    async def _lead(self, leadership: Leadership) -> None:
        """Run one term. The webhook answers only after a fresh list of everything that counts."""
        self._leadership = leadership
        try:
            await self._promote()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._upkeep.run(), name="certificates"),
                    group.create_task(self.listener.run(), name="webhook"),
                    group.create_task(self._mark_when_listening(), name="leader label"),
                    group.create_task(self._sweep_ledger(), name="ledger"),
                    group.create_task(self._run_decision_loop(), name="moves"),
                    group.create_task(self.gates.run(self._guarded, self._actuator), name="gates"),
                    *(
                        group.create_task(restart_on_error(name, run), name=name)
                        for name, run in self._term_tasks().items()
                    ),
                ]
                self._serving = True
                asking = await self._lease_requests.wait_for_request(self._wake_event, self._stopping.is_set)
                await self.listener.drain(_DRAIN_S)
                if asking:
                    self.elector.step_down(STEP_DOWN_PERIODS * self._candidacy.times.retry_s)
                for task in tasks:
                    task.cancel()
        finally:
            await self._actuator.wait_answers()
            self._serving = False
            self._leadership = None
            self._metrics.lease_held.set(0)
            self._move_metrics.clear()

    def _term_tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the tasks of a term besides answering, moving and opening gates."""
        return {
            "refused pods": lambda: self._refused_creates.run(self._change_ledger),
            "interruptions": lambda: self._interruption_record.run(self._guarded),
            "valid policies": lambda: self._policies.run(self._guarded),
            "wave capacity": self._headroom_monitor.run,
            "node labels": lambda: self._node_labeller.run(self._guarded, self._actuator),
        }

    async def _promote(self) -> None:
        await self.informers.wait_synced()
        while True:
            try:
                await self.informers.relist()
                await self._policies.read()
                break
            except KubeError as problem:
                self._log.warning("initial list failed, retrying", error=str(problem))
            await asyncio.sleep(_PROMOTION_RETRY_S)
        for resource in self.informers.unserved_kinds():
            self._log.warning(
                "workloads not served by the cluster, waiting for their definition",
                resource=resource,
            )
        self.admission_handler.ledger = _empty_ledger(self.settings)
        self._drop_admission_settings()
        self._metrics.lease_held.set(1)
        self._log.info("pods counted", pods=len(self.informers.pods.store))

    async def _run_decision_loop(self) -> None:
        """Run the decision loop; each pod is read live again before its move."""
        telling = Notifier(self.cache.cluster, self._record, _now)

        def done(attempt: Attempt) -> None:
            telling.notify_attempt(attempt)
            self.decision_loop.record_attempt(attempt)
            self._move_metrics.count_attempt(attempt)

        attempting = ActionExecutor(
            self._guarded,
            self._actuator,
            LiveRecheck(self._client, self.cache.cluster, lambda: self.settings.table, self.cache.node_facts),
            DepartureCallbacks(self._record_leaving, self._record_staying),
            self.cache.cluster,
            wall=lambda: self._wall().timestamp(),
        )
        conditions = ConditionWriter(
            self._guarded, self._actuator, self.informers.pods.store, self.cache.cluster, self._wall
        )
        history = await self._interruption_record.read_history()
        pools = restore_pools(history, self.cache.cluster.nodes, self.settings.limits())
        await self.decision_loop.run(Applier(attempting.attempt, done), telling, conditions, pools)

    def _record_leaving(self, pod: PodFacts, owner: str) -> None:
        slot, nodes = Slot(owner, pod.revision), self.cache.cluster.nodes
        self._change_ledger(lambda ledger: ledger.with_release(slot, pod, nodes, _now()))

    def _record_staying(self, pod: PodFacts, owner: str) -> None:
        slot = Slot(owner, pod.revision)
        self._change_ledger(lambda ledger: ledger.without_release(slot, pod.key.name))

    async def _mark_when_listening(self) -> None:
        await self.listener.wait_listening()
        namespace, guarded = self.location.namespace, self._guarded
        mark = LeaderLabel(namespace, self.location.pod, LEADER_LABEL, "true")
        await maintain_leader_label(mark, guarded, lambda pod, patch: guarded.patch(PODS, pod, patch, namespace))

    async def _sweep_ledger(self) -> None:
        """Remove ledger entries that have ended; counts do not depend on it."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            ledger = self.admission_handler.ledger
            self._metrics.reservations.set(sum(map(len, ledger.reservations.values())))
            for slot in list(dict.fromkeys((*ledger.reservations, *ledger.releases, *ledger.surges)))[
                :_SLOTS_PER_SWEEP
            ]:
                pods = [pod for pod in self.cache.cluster.pods.get(slot.owner, ()) if pod.revision == slot.revision]
                ledger = ledger.without_settled_entries(slot, pods, _now())
            self.admission_handler.ledger = ledger

    def _change_ledger(self, step: Callable[[Ledger], Ledger]) -> None:
        self.admission_handler.ledger = step(self.admission_handler.ledger)

    def _on_lease_change(self) -> None:
        """Wake the elector at each change of the Lease, so that a candidate waits no longer than needed."""
        self._wake_event.set()
        lease = self._lease_requests.lease
        claim = (lease.spec.holder_identity, lease.spec.renew_time) if lease is not None else None
        if claim != self._last_claim:
            self._last_claim = claim
            self.elector.wake()

    async def _request_lease(self) -> None:
        """Request the Lease if this pod has a newer revision, so that it need not wait for the old pod's end."""
        await self.informers.wait_synced()
        await self._lease_requests.keep_requesting_lease(
            self._elections, self.elector.is_leader, self._candidacy.times.retry_s
        )

    async def _report_webhook_presence(self) -> None:
        """Warn while the webhook is not installed: pods then have no class, and nothing fails."""
        await self._webhook_presence.wait_synced()
        warned = False
        while True:
            installed = self._webhook_presence.installed_metadata()
            self._metrics.webhook_installed.set(installed is not None)
            if installed is None:
                self._log.warning(
                    "webhook not installed, new pods get no class",
                    configuration=self._webhook_presence.configuration,
                    next_step="apply the output of `situate manifests`",
                )
                warned = True
            elif warned:
                self._log.info("webhook installed", configuration=self._webhook_presence.configuration)
            await self._webhook_presence.wait_change(installed)

    def _revision(self, controller: OwnerReference, _: str) -> int | None:
        """Return the revision number of the pod's ReplicaSet."""
        replica_set = self.cache.cluster.replica_sets.get(controller.uid)
        return None if replica_set is None else replica_set.number

    def _may_answer(self) -> bool:
        return self._leadership is not None and self._leadership.is_valid()

    def _may_write(self) -> None:
        if not self._may_answer():
            raise NotLeading(f"{self.name}: another process may lead now, so nothing is written", after_s=1.0)

    def _serve_with(self, generation: Generation) -> None:
        self.listener.serve_with(generation)
        self._metrics.certificate_ends.set(generation.ends)

    def _admission_view(self, live: LiveRead | None) -> AdmissionView:
        if self._admission_settings is None:
            epoch = self._leadership.term if self._leadership is not None else 0
            doomed = nodes_to_avoid(self.cache.cluster.nodes.values())
            self._admission_settings = self.settings.admission_settings(epoch, doomed, self.location.namespace)
        return AdmissionView(self.cache.cluster, self._admission_settings, self.cache.memories, live)

    def _drop_admission_settings(self) -> None:
        """Drop cached settings after a change of nodes or settings."""
        self._admission_settings = None

    def _on_policies_change(self) -> None:
        self._policies.wake()

    def _recall_policies(self, recorded: Mapping[str, Policy]) -> None:
        self.cache.recall_policies(recorded)
        self.decision_loop.wake()

    def _on_nodes_change(self) -> None:
        self._drop_admission_settings()
        self.decision_loop.wake()
        self._interruption_record.wake()


def _object_reflector(
    client: Client, resource: ResourceType[T], name: str, namespace: str | None, rng: random.Random
) -> Reflector[T]:
    """Create a reflector of one object."""
    store: Store[T] = Store(f"{resource.group_resource} {name}")
    return Reflector(client, resource, store, rng=rng, namespace=namespace, field_selector=f"metadata.name={name}")


def _empty_ledger(settings: SpotSettings) -> Ledger:
    return Ledger.empty(settings.webhook.reservation_s, settings.webhook.release_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
