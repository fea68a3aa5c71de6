"""The process: every replica watches; the leader renews certificates, listens and answers with its own ledger.

Everything runs on one event loop and uses its time, so a simulated loop runs the same code. Rules: B4, P22.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog

from situate.kube.election.election import Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.events import RecordEvent
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import object_reflector
from situate.objects.kinds.config_maps import Secret
from situate.objects.kinds.meta import OwnerReference
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import PODS, SECRETS
from situate.runtime.leadership.leader import ControllerContext, Leader
from situate.runtime.leadership.leader_label import LeaderLabel, maintain_leader_label
from situate.runtime.leadership.rollout import LeaseHandover
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
from situate.spot.controller.act.notify import Notifier
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

_SWEEP_S: Final = 0.25
_SLOTS_PER_SWEEP: Final = 64
"""Slots of the ledger settled in one sweep, so that a sweep never delays an answer."""
_DRAIN_S: Final = 1.5
"""How long a shutdown waits for answers in progress: shorter than API servers wait."""


def _https_listener(address: str, answer: AnswerReview) -> WebhookEndpoint:
    return Webhook(address, answer, path=WEBHOOK_PATH, setting="spot.webhook.address")


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
        context: ControllerContext,
        place: ProcessLocation,
        *,
        record: RecordEvent,
        metrics: AdmissionMetrics,
        token: Callable[[], str],
        door: Callable[[str, AnswerReview], WebhookEndpoint] = _https_listener,
    ) -> None:
        """`token`: returns a new token at each call, for reservations.

        `door`: creates the listener from its address and the answering function; HTTPS except without a network.
        """
        self.settings = settings
        self.location = place
        client, rng = context.client, context.rng
        self._record = record
        self._metrics = metrics
        self._move_metrics = MoveMetrics(metrics.registry)
        self._wall = context.wall
        self._stopping = asyncio.Event()
        self._serving = False
        self._last_claim: tuple[str, datetime | None] | None = None  # claim of the Lease as last seen
        self._wake_event = asyncio.Event()
        self.leader = Leader(self.name, context, LeaseName(context.candidacy.namespace, NAME), self._lead)
        self.informers = Informers.create(client, rng, settings.owner_kinds)
        table = settings.table
        self.cache = FactsCache(
            self.informers,
            table,
            settings.rules(),
            wall=self._timestamp,
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
            wall=self._timestamp,
            decided=lambda decision, situation: self._move_metrics.observe_decision(decision, situation, _now()),
        )
        for reflector in self.informers.reflectors():
            if reflector is not self.informers.nodes:  # nodes have heartbeats; the cache reports their real changes
                reflector.store.on_change(lambda _, __: self.decision_loop.wake())
        self._refused_creates = RefusedCreates(self.live_reads.read, _now)
        self.informers.refusals.store.on_change(self._refused_creates.observe_event)
        self._secrets: Reflector[Secret] = object_reflector(client, SECRETS, CERTIFICATES, place.namespace, rng)
        self._configurations: Reflector[Unstructured] = object_reflector(
            client, MUTATING, configuration_name(place.namespace), None, rng
        )
        self.admission_handler = AdmissionHandler(
            self._admission_view,
            self.live_reads.read,
            may_answer=self.leader.is_leading,
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
            wall=self._timestamp,
            metrics=metrics,
        )
        self._node_labeller = NodeLabeller(self.informers.nodes.store, lambda: self.settings)
        self.listener = door(settings.webhook.address, self.admission_handler.answer)
        self._upkeep = CertificateController(
            CertificateTarget(MUTATING, configuration_name(place.namespace), WEBHOOK, CERTIFICATES, place.namespace),
            self.leader.client,
            self._secrets,
            self._configurations,
            names=host_names(NAME, place.namespace),
            life_s=lambda: self.settings.webhook.certificate_life_s,
            wall=self._timestamp,
            serve=self._serve_with,
        )
        self._webhook_presence = WebhookPresence(self._configurations, configuration_name(place.namespace), WEBHOOK)
        self._lease_handover = LeaseHandover(
            self.leader,
            self.informers.pods.store,
            self._revision,
            wants=LEASE_REQUEST_ANNOTATION,
            pod=place.pod,
            namespace=place.namespace,
        )
        self._lease_handover.on_change(self._on_lease_change)
        self._interruption_record = InterruptionRecord(
            self.cache.cluster.nodes,
            self._lease_handover.leases.store,
            context.candidacy.namespace,
            wall=self._timestamp,
        )
        self._headroom_monitor = HeadroomMonitor(
            self._move_metrics, self.capacity.capacity_for_plan, lambda: self._interruption_record.history
        )
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self) -> None:
        """Watch the cluster and take part in leader election. Raises unexpected exceptions."""
        try:
            await self.leader.run(
                self.reflectors(),
                self._lease_handover.keep_requesting_lease(self.informers),
                self.gates.alert(),
                self._report_webhook_presence(),
            )
        finally:
            await self.live_reads.close()

    def stop(self) -> None:
        """End `run` in an orderly way: answer open requests and release the Lease."""
        self._stopping.set()
        if self._serving:
            self._wake_event.set()
        else:
            self.leader.stop()

    def reflectors(self) -> Sequence[Reflector[Any]]:
        return (
            *self.informers.reflectors(),
            *self.constraints.reflectors(),
            *self.capacity.storage,
            self._secrets,
            self._configurations,
            self._lease_handover.leases,
            self._policies.reflector,
        )

    def not_ready(self) -> str | None:
        """Return the problem that makes the process not ready. A synced standby is ready; a leader must also listen."""
        problem = self.informers.not_ready()
        if problem is not None:
            return problem
        if self.leader.is_leading() and not self.listener.listening:
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

    async def _lead(self, _: Leadership) -> None:
        """Run one term. The webhook answers only after a fresh list of everything that counts."""
        try:
            await self._promote()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._upkeep.run(), name="certificates"),
                    group.create_task(self.listener.run(), name="webhook"),
                    group.create_task(self._mark_when_listening(), name="leader label"),
                    group.create_task(self._sweep_ledger(), name="ledger"),
                    group.create_task(self._run_decision_loop(), name="moves"),
                    group.create_task(self.gates.run(self.leader.client, self.leader.actuator), name="gates"),
                    *(
                        group.create_task(restart_on_error(name, run), name=name)
                        for name, run in self._term_tasks().items()
                    ),
                ]
                self._serving = True
                asking = await self._lease_handover.wait_for_request(self._wake_event, self._stopping.is_set)
                await self.listener.drain(_DRAIN_S)
                if asking:
                    self._lease_handover.yield_lease()
                for task in tasks:
                    task.cancel()
        finally:
            self._serving = False
            self._metrics.lease_held.set(0)
            self._move_metrics.clear()

    def _term_tasks(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the tasks of a term besides answering, moving and opening gates."""
        return {
            "refused pods": lambda: self._refused_creates.run(self._change_ledger),
            "interruptions": lambda: self._interruption_record.run(self.leader.client),
            "valid policies": lambda: self._policies.run(self.leader.client),
            "wave capacity": self._headroom_monitor.run,
            "node labels": lambda: self._node_labeller.run(self.leader.client, self.leader.actuator),
        }

    async def _promote(self) -> None:
        await self.leader.relist(self.informers, self._policies.read)
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
            self.leader.client,
            self.leader.actuator,
            LiveRecheck(self.leader.client, self.cache.cluster, lambda: self.settings.table, self.cache.node_facts),
            DepartureCallbacks(self._record_leaving, self._record_staying),
            self.cache.cluster,
            wall=self._timestamp,
        )
        conditions = ConditionWriter(
            self.leader.client,
            self.leader.actuator,
            self.informers.pods.store,
            self.cache.cluster,
            self._wall,
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
        namespace, guarded = self.location.namespace, self.leader.client
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
        lease = self._lease_handover.lease
        claim = (lease.spec.holder_identity, lease.spec.renew_time) if lease is not None else None
        if claim != self._last_claim:
            self._last_claim = claim
            self.leader.wake()

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

    def _timestamp(self) -> float:
        return self._wall().timestamp()

    def _serve_with(self, generation: Generation) -> None:
        self.listener.serve_with(generation)
        self._metrics.certificate_ends.set(generation.ends)

    def _admission_view(self, live: LiveRead | None) -> AdmissionView:
        if self._admission_settings is None:
            epoch = self.leader.leadership.term if self.leader.leadership is not None else 0
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


def _empty_ledger(settings: SpotSettings) -> Ledger:
    return Ledger.empty(settings.webhook.reservation_s, settings.webhook.release_s)


def _now() -> float:
    return asyncio.get_running_loop().time()
