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
from situate.kube.election.election import Candidacy, ElectionNews, Elector, Leadership
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
from situate.runtime.leadership.leader_label import Mark, keep_marked
from situate.runtime.leadership.rollout import STANDS_ASIDE, Standing
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.serving.certificates.issue import host_names
from situate.runtime.serving.certificates.renewal_schedule import Generation
from situate.runtime.serving.certificates.secret_controller import MUTATING, Kept, Upkeep
from situate.runtime.serving.certificates.webhook_presence import WebhookPresence
from situate.runtime.serving.webhook_server import Answers, Door, Webhook
from situate.spot.admission.admit import Admission, LiveRead, View
from situate.spot.admission.ledger import Ledger, Slot
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.act.apply import Acting
from situate.spot.controller.act.attempt import Attempt, Attempting, Departures
from situate.spot.controller.act.conditions import Conditions
from situate.spot.controller.act.decision_loop import Moving
from situate.spot.controller.act.gates import Gates
from situate.spot.controller.act.labels import Labelling
from situate.spot.controller.act.live_recheck import Again
from situate.spot.controller.act.notify import Record, Telling
from situate.spot.controller.act.refused_creates import Refusals
from situate.spot.controller.headroom_monitor import Foreseeing
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.controller.observe.cache import Cache
from situate.spot.controller.observe.constraints_watch import Around
from situate.spot.controller.observe.free_capacity import Rooms
from situate.spot.controller.observe.informers import Watched
from situate.spot.controller.observe.interruption_record import Recording
from situate.spot.controller.observe.live_reads import LiveReads
from situate.spot.controller.observe.policy_record import PolicyRecord
from situate.spot.controller.restart_on_error import apart
from situate.spot.model.object_names import CERTIFICATES, LEADS, NAME, WANTS, WEBHOOK, WEBHOOK_PATH, configuration_name
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.nodes.pool_stability import recalled
from situate.spot.rebalance.node_termination import avoided
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.server.webhook_handler import Answering
from situate.spot.workloads.on_demand_policy import Policy

T = TypeVar("T", bound=KubernetesObject)

_PROMOTION_RETRY_S: Final = 1.0
_SWEEP_S: Final = 0.25
_SWEPT: Final = 64
"""Slots of the ledger settled in one sweep, so that a sweep never delays an answer."""
_DRAIN_S: Final = 1.5
"""How long a shutdown waits for answers in progress: shorter than API servers wait."""


def _https(address: str, answer: Answers) -> Door:
    return Webhook(address, answer, path=WEBHOOK_PATH, setting="spot.webhook.address")


class NotLeading(Retriable):
    """A write that only the leader may make was about to be sent."""


@dataclass(frozen=True, slots=True)
class Place:
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
        place: Place,
        *,
        record: Record,
        metrics: AdmissionMetrics,
        wall: Callable[[], datetime],
        rng: random.Random,
        token: Callable[[], str],
        election_client: Client | None = None,
        observe_election: Callable[[ElectionNews], None] = lambda _: None,
        door: Callable[[str, Answers], Door] = _https,
    ) -> None:
        """`token`: returns a new token at each call, for reservations. `election_client`: client for the Lease.

        `door`: creates the listener from its address and the answering function; HTTPS except without a network.
        """
        self.settings = settings
        self.place = place
        self._client = client
        self._candidacy = candidacy
        self._elections = election_client or client
        self._record = record
        self._metrics = metrics
        self._moves = MoveMetrics(metrics.registry)
        self._wall = wall
        self._token = token
        self._leadership: Leadership | None = None
        self._stopping = asyncio.Event()
        self._serving = False
        self._claim: tuple[str, datetime | None] | None = None  # claim of the Lease as last seen
        self._nudge = asyncio.Event()
        self._guarded = client.guarded(self._may_write)
        self.watched = Watched.of(client, rng, settings.owner_kinds)
        table = settings.table
        self.cache = Cache(
            self.watched,
            table,
            settings.rules(),
            wall=lambda: wall().timestamp(),
            nodes_changed=self._nodes_changed,
            policies_changed=self._policies_changed,
        )
        self._policies = PolicyRecord(client, place.namespace, rng, lambda: self.cache.policies, self._recall)
        self._admission: Admission | None = None  # computed on demand: nodes change more often than pods come
        self.live_reads = LiveReads(client, table, settings.webhook.live_read)
        self.around = Around(client, self.cache.cluster, rng, _now)
        self.rooms = Rooms(self.watched, client, rng, table)
        self.moving = Moving(
            self.cache.now,
            self.cache.memories,
            self.around,
            self.rooms,
            lambda: self.settings,
            wall=lambda: wall().timestamp(),
            decided=lambda decision, situation: self._moves.observed(decision, situation, _now()),
        )
        for reflector in self.watched.reflectors():
            if reflector is not self.watched.nodes:  # nodes have heartbeats; the cache reports their real changes
                reflector.store.on_change(lambda _, __: self.moving.wake())
        self._actuator = Actuator(self._may_write)
        self._refusals = Refusals(self.live_reads.read, _now)
        self.watched.refusals.store.on_change(self._refusals.noted)
        self._secrets: Reflector[Secret] = _named(client, SECRETS, CERTIFICATES, place.namespace, rng)
        self._configurations: Reflector[Unstructured] = _named(
            client, MUTATING, configuration_name(place.namespace), None, rng
        )
        self._leases: Reflector[Lease] = _named(client, LEASES, NAME, candidacy.namespace, rng)
        self.answering = Answering(
            self._view,
            self.live_reads.read,
            may_answer=self._may_answer,
            clock=_now,
            token=token,
            ledger=_empty_ledger(settings),
            metrics=metrics,
        )
        self.gates = Gates(
            self.watched.pods.store,
            self._view,
            self.live_reads.read,
            record,
            token=token,
            wall=lambda: wall().timestamp(),
            metrics=metrics,
        )
        self._labelling = Labelling(self.watched.nodes.store, lambda: self.settings)
        self.listener = door(settings.webhook.address, self.answering.answer)
        self._upkeep = Upkeep(
            Kept(MUTATING, configuration_name(place.namespace), WEBHOOK, CERTIFICATES, place.namespace),
            self._guarded,
            self._secrets,
            self._configurations,
            names=host_names(NAME, place.namespace),
            life_s=lambda: self.settings.webhook.certificate_life,
            wall=lambda: wall().timestamp(),
            serve=self._serve_with,
        )
        self._presence = WebhookPresence(self._configurations, configuration_name(place.namespace), WEBHOOK)
        self._standing = Standing(
            LeaseName(candidacy.namespace, NAME),
            self._leases,
            self.watched.pods.store,
            self._revision,
            wants=WANTS,
            pod=place.pod,
            namespace=place.namespace,
        )
        self._standing.on_change(self._look_at_lease)
        self._recording = Recording(
            self.cache.cluster.nodes,
            self._leases.store,
            candidacy.namespace,
            wall=lambda: wall().timestamp(),
        )
        self._foreseeing = Foreseeing(self._moves, self.rooms.places, lambda: self._recording.history)
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
                beside.append(group.create_task(self._ask_for_lease(), name="lease request"))
                beside.append(group.create_task(self.gates.alert(), name="gated pods"))
                beside.append(group.create_task(self._tell_presence(), name="webhook configuration"))
                await group.create_task(self.elector.run(), name=self.elector.name)
                for task in beside:
                    task.cancel()
        finally:
            await self.live_reads.close()

    def stop(self) -> None:
        """End `run` in an orderly way: answer open requests and release the Lease."""
        self._stopping.set()
        if self._serving:
            self._nudge.set()
        else:
            self.elector.stop()

    def reflectors(self) -> Sequence[Reflector[Any]]:
        return (
            *self.watched.reflectors(),
            *self.around.reflectors(),
            *self.rooms.storage,
            self._secrets,
            self._configurations,
            self._leases,
            self._policies.reflector,
        )

    def not_ready(self) -> str | None:
        """Return the problem that makes the process not ready. A synced standby is ready; a leader must also listen."""
        problem = self.watched.not_ready()
        if problem is not None:
            return problem
        if self.elector.leading() and not self.listener.listening:
            return "this process leads, but its webhook does not listen yet"
        return None

    def reconfigure(self, settings: SpotSettings) -> None:
        """Apply new settings without a restart; the address is read only at the start."""
        self.settings = settings
        table = settings.table
        self.live_reads.table, self.live_reads.within_s = table, settings.webhook.live_read
        self.cache.reconfigure(table, settings.rules())
        self.rooms.table = table
        self._forget_admission()
        self.moving.wake()
        self._labelling.wake()

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
                    group.create_task(self._sweep(), name="ledger"),
                    group.create_task(self._move(), name="moves"),
                    group.create_task(self.gates.run(self._guarded, self._actuator), name="gates"),
                    *(group.create_task(apart(name, run), name=name) for name, run in self._parts().items()),
                ]
                self._serving = True
                asking = await self._standing.wait_asked(self._nudge, self._stopping.is_set)
                await self.listener.drain(_DRAIN_S)
                if asking:
                    self.elector.give_way(STANDS_ASIDE * self._candidacy.times.retry_s)
                for task in tasks:
                    task.cancel()
        finally:
            await self._actuator.finish()
            self._serving = False
            self._leadership = None
            self._metrics.lease_held.set(0)
            self._moves.ended()

    def _parts(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the tasks of a term besides answering, moving and opening gates."""
        return {
            "refused pods": lambda: self._refusals.run(self._change_ledger),
            "interruptions": lambda: self._recording.run(self._guarded),
            "valid policies": lambda: self._policies.run(self._guarded),
            "wave capacity": self._foreseeing.run,
            "node labels": lambda: self._labelling.run(self._guarded, self._actuator),
        }

    async def _promote(self) -> None:
        await self.watched.wait_synced()
        while True:
            try:
                await self.watched.relist()
                await self._policies.read()
                break
            except KubeError as problem:
                self._log.warning("initial list failed, retrying", error=str(problem))
            await asyncio.sleep(_PROMOTION_RETRY_S)
        for resource in self.watched.not_served():
            self._log.warning(
                "workloads not served by the cluster, waiting for their definition",
                resource=resource,
            )
        self.answering.ledger = _empty_ledger(self.settings)
        self._forget_admission()
        self._metrics.lease_held.set(1)
        self._log.info("pods counted", pods=len(self.watched.pods.store))

    async def _move(self) -> None:
        """Run the decision loop; each pod is read live again before its move."""
        telling = Telling(self.cache.cluster, self._record, _now)

        def done(attempt: Attempt) -> None:
            telling.attempted(attempt)
            self.moving.attempted(attempt)
            self._moves.attempted(attempt)

        attempting = Attempting(
            self._guarded,
            self._actuator,
            Again(self._client, self.cache.cluster, lambda: self.settings.table, self.cache.node_facts),
            Departures(self._leaving, self._staying),
            self.cache.cluster,
            wall=lambda: self._wall().timestamp(),
        )
        conditions = Conditions(self._guarded, self._actuator, self.watched.pods.store, self.cache.cluster, self._wall)
        history = await self._recording.recorded()
        pools = recalled(history, self.cache.cluster.nodes, self.settings.limits())
        await self.moving.run(Acting(attempting.attempt, done), telling, conditions, pools)

    def _leaving(self, pod: PodFacts, owner: str) -> None:
        slot, nodes = Slot(owner, pod.revision), self.cache.cluster.nodes
        self._change_ledger(lambda ledger: ledger.release(slot, pod, nodes, _now()))

    def _staying(self, pod: PodFacts, owner: str) -> None:
        slot = Slot(owner, pod.revision)
        self._change_ledger(lambda ledger: ledger.unreleased(slot, pod.key.name))

    async def _mark_when_listening(self) -> None:
        await self.listener.wait_listening()
        namespace, guarded = self.place.namespace, self._guarded
        mark = Mark(namespace, self.place.pod, LEADS, "true")
        await keep_marked(mark, guarded, lambda pod, patch: guarded.patch(PODS, pod, patch, namespace))

    async def _sweep(self) -> None:
        """Remove ledger entries that have ended; counts do not depend on it."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            ledger = self.answering.ledger
            self._metrics.reservations.set(sum(map(len, ledger.reservations.values())))
            for slot in list(dict.fromkeys((*ledger.reservations, *ledger.releases, *ledger.surges)))[:_SWEPT]:
                pods = [pod for pod in self.cache.cluster.pods.get(slot.owner, ()) if pod.revision == slot.revision]
                ledger = ledger.settled(slot, pods, _now())
            self.answering.ledger = ledger

    def _change_ledger(self, step: Callable[[Ledger], Ledger]) -> None:
        self.answering.ledger = step(self.answering.ledger)

    def _look_at_lease(self) -> None:
        """Wake the elector at each change of the Lease, so that a candidate waits no longer than needed."""
        self._nudge.set()
        lease = self._standing.lease
        claim = (lease.spec.holder_identity, lease.spec.renew_time) if lease is not None else None
        if claim != self._claim:
            self._claim = claim
            self.elector.wake()

    async def _ask_for_lease(self) -> None:
        """Request the Lease if this pod has a newer revision, so that it need not wait for the old pod's end."""
        await self.watched.wait_synced()
        await self._standing.keep_asking(self._elections, self.elector.leading, self._candidacy.times.retry_s)

    async def _tell_presence(self) -> None:
        """Warn while the webhook is not installed: pods then have no class, and nothing fails."""
        await self._presence.wait_synced()
        warned = False
        while True:
            installed = self._presence.installed()
            self._metrics.webhook_installed.set(installed is not None)
            if installed is None:
                self._log.warning(
                    "webhook not installed, new pods get no class",
                    configuration=self._presence.configuration,
                    next_step="apply the output of `situate manifests`",
                )
                warned = True
            elif warned:
                self._log.info("webhook installed", configuration=self._presence.configuration)
            await self._presence.wait_other(installed)

    def _revision(self, controller: OwnerReference, _: str) -> int | None:
        """Return the revision number of the pod's ReplicaSet."""
        replica_set = self.cache.cluster.replica_sets.get(controller.uid)
        return None if replica_set is None else replica_set.number

    def _may_answer(self) -> bool:
        return self._leadership is not None and self._leadership.valid_now()

    def _may_write(self) -> None:
        if not self._may_answer():
            raise NotLeading(f"{self.name}: another process may lead now, so nothing is written", after_s=1.0)

    def _serve_with(self, generation: Generation) -> None:
        self.listener.serve_with(generation)
        self._metrics.certificate_ends.set(generation.ends)

    def _view(self, live: LiveRead | None) -> View:
        if self._admission is None:
            epoch = self._leadership.term if self._leadership is not None else 0
            doomed = avoided(self.cache.cluster.nodes.values())
            self._admission = self.settings.admission(epoch, doomed, self.place.namespace)
        return View(self.cache.cluster, self._admission, self.cache.memories, live)

    def _forget_admission(self) -> None:
        """Drop cached settings after a change of nodes or settings."""
        self._admission = None

    def _policies_changed(self) -> None:
        self._policies.wake()

    def _recall(self, recorded: Mapping[str, Policy]) -> None:
        self.cache.recall(recorded)
        self.moving.wake()

    def _nodes_changed(self) -> None:
        self._forget_admission()
        self.moving.wake()
        self._recording.wake()


def _named(
    client: Client, resource: ResourceType[T], name: str, namespace: str | None, rng: random.Random
) -> Reflector[T]:
    """Create a reflector of one object."""
    store: Store[T] = Store(f"{resource.group_resource} {name}")
    return Reflector(client, resource, store, rng=rng, namespace=namespace, field_selector=f"metadata.name={name}")


def _empty_ledger(settings: SpotSettings) -> Ledger:
    return Ledger.empty(settings.webhook.reservation, settings.webhook.release)


def _now() -> float:
    return asyncio.get_running_loop().time()
