"""A cluster with both kinds of nodes, and the processes of spot, all on one virtual clock.

The processes run the shipped controller, webhook, client, reflectors and election. In-memory versions of Kubernetes'
own controllers create the pods and call the webhook as API servers do. Only transports are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from prometheus_client import CollectorRegistry

from situate.cluster.apiserver.api import Handling
from situate.cluster.apiserver.controller_writes import answer_of
from situate.cluster.controllers import KubeletSettings, MachinerySettings, NodeLifecycleSettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.cluster.storage.effects import ADMIN, Effect
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.events import ObjectReference
from situate.objects.messages import Request
from situate.objects.settings.section import parse_section
from situate.runtime.leadership.leader import ControllerContext
from situate.runtime.serving.webhook_server import AnswerReview, Reply
from situate.spot.admission.webhook_objects import webhook_configuration
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.controller import ProcessLocation, SpotController
from situate.spot.model.object_names import LEADER_LABEL
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.workloads.owners import DEFAULT_KINDS, OwnerKind
from situate.testing.spot.world.memory_endpoint import MemoryEndpoint
from situate.testing.spot.world.webhooks import WebhookCalls
from situate.testing.virtual_time.processes import Process
from situate.testing.virtual_time.world import EPOCH, ClusterWorld, Member

OWN_NAMESPACE: Final = "situate"
"""Namespace of spot."""
SHOP: Final = "shop"
"""Namespace of the workloads."""
OWN_PODS: Final = ("situate-spot-a", "situate-spot-b")
"""Names of the first own pods. Later ones add their revision to these names."""
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

_PODS: Final = f"/api/v1/namespaces/{OWN_NAMESPACE}/pods"
_SETS: Final = f"/apis/apps/v1/namespaces/{OWN_NAMESPACE}/replicasets"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TIMES: Final = ElectionTimes()
_OWN_NODE: Final = "own"
"""A cordoned node for own pods only. No step changes it."""
_IDLE: Final = frozenset({"endpoint-slices", "serviceaccount"})
"""Controllers of the cluster that have no work in a history."""

SpotMember: TypeAlias = Member[SpotController]
"""One process of spot."""


def machinery_settings(*, events: bool = False, start_s: float = 3.0) -> MachinerySettings:
    """Return controller settings: Kubernetes' own pace where a rule depends on it, a faster one elsewhere.

    `events` is whether refused creations are recorded as Events, which spot reads (P21).
    """
    return MachinerySettings(
        disabled=_IDLE,
        kubelet=KubeletSettings(start_delay=start_s, stop_delay=1.0, jitter=0.5, lease_renewal=0.0),
        node_lifecycle=NodeLifecycleSettings(monitor_grace_period=15.0, startup_grace_period=15.0),
        events=events,
        node_quarantine=20.0,
    )


class SpotWorld(ClusterWorld[SpotController]):
    """Everything of one history. Close it at the end."""

    def __init__(self, seed: int, settings: SpotSettings, pace: MachinerySettings) -> None:
        """Start two processes that compete for the Lease. There are no nodes for workloads yet."""
        super().__init__(seed, pace, later=self._defer_call)
        self.settings = settings
        self.endpoints: dict[str, MemoryEndpoint] = {}
        """The endpoint of the newest process in each of our own pods."""
        self.answer_listeners: list[Any] = []
        """Listeners called with every answer to a review when it is given, and with the identity of the process."""
        self.closed_until = 0.0
        """Time before which no process starts."""
        self._clocks: dict[int, float] = {}  # by machine: the error of its clock in seconds
        self.clock_set_at = float("-inf")
        """When a clock was last changed."""
        self.webhook_calls = WebhookCalls(
            self.timeline,
            Random(f"webhooks {seed}"),
            self.network.happened,
            doors=self._selected_endpoints,
            wall=lambda: EPOCH + self.now,
            settle=self._settle_call,
        )
        self._tokens = 0
        self._tickets = 0  # those of the machinery are positive
        self._callers: dict[int, Callable[[bool], None]] = {}  # by ticket: the callback for the end of a create
        for namespace in (OWN_NAMESPACE, SHOP):
            self.create_object("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.create_object("/api/v1/nodes", node_object(_OWN_NODE) | {"spec": {"unschedulable": True}})
        self._own_pods = [self._new_pod(name, 1) for name in OWN_PODS]  # the pod on each of our machines
        self._revisions = [1 for _ in OWN_PODS]
        for kind in settings.kinds:
            if kind.kind not in DEFAULT_KINDS:
                self.create_object(_DEFINITIONS, definition(kind))
        self.create_object(CONFIGURATIONS, webhook_configuration(OWN_NAMESPACE, kinds=settings.kinds))
        for _ in OWN_PODS:
            self.start_member()

    def start_member(self) -> None:
        """Start a process in an own pod that has none."""
        if self.now < self.closed_until:
            self.timeline.call_at(self.closed_until, self.start_member)
            return
        taken = {member.controller.location.pod for member in self.members}
        pod = next(each for each in self._own_pods if each not in taken)
        identity, wire = self.new_identity(f"{pod}_")
        self.add_member(
            identity,
            wire,
            lambda process: SpotController(
                self.settings,
                ControllerContext(
                    Client(wire),
                    Candidacy(OWN_NAMESPACE, identity, _TIMES),
                    partial(self._wall_time_of, self._own_pods.index(pod)),
                    Random(f"{identity} {self.rng.random()}"),
                ),
                ProcessLocation(OWN_NAMESPACE, pod),
                record=self._record,
                metrics=AdmissionMetrics(CollectorRegistry(), stopwatch=lambda: self.now),
                token=partial(self._new_token, identity),
                door=partial(self._open_endpoint, identity, pod, process),
            ),
        )

    def upgrade(self, machine: int) -> None:
        """Replace an own pod by one of the next revision. Its process requests the Lease when it can."""
        old = self._own_pods[machine]
        self._revisions[machine] += 1
        self._own_pods[machine] = self._new_pod(
            f"{OWN_PODS[machine]}-r{self._revisions[machine]}", self._revisions[machine]
        )
        for member in tuple(self.members):
            if member.controller.location.pod == old:
                self.stop(member)
        self.call("DELETE", f"{_SETS}/{old}")
        self.call("DELETE", f"{_PODS}/{old}")

    def reconfigure(self, settings: SpotSettings) -> None:
        """Give a changed configuration to all present and later processes."""
        self.settings = settings
        for member in self.members:
            member.process.loop.call_soon_threadsafe(member.controller.reconfigure, settings)

    def create_through_webhooks(
        self, collection: str, content: Mapping[str, Any], done: Callable[[bool], None]
    ) -> None:
        """Create an object as a controller does, so that webhooks are called. `done` gets whether it was created."""
        request = Request("POST", collection, (), {"content-type": "application/json"}, msgspec.json.encode(content))
        handling = self.cluster.api.handle(request, EPOCH + self.now, ADMIN)
        try:
            effect = next(handling)
        except StopIteration as end:
            self.plan_step()
            done(end.value.status < 300)
            return
        self._tickets -= 1
        self._callers[self._tickets] = done
        self.webhook_calls.defer_call(handling, effect, self._tickets)

    def end(self, member: SpotMember) -> None:
        super().end(member)
        for door in self.endpoints.values():
            if door.process is member.process:
                door.disconnect_all()

    def wait_until_led(self, seconds: float = 60.0) -> bool:
        """Wait until the Service leads to pods that all answer. Return whether it does."""

        def answered() -> bool:
            doors = list(self._selected_endpoints())
            return bool(doors) and all(door.reachable for door in doors)

        return self.let_pass(seconds, stop=answered)

    def set_clock(self, machine: int, seconds: float) -> None:
        """Set the clock of the machine of an own pod off by `seconds` from now on."""
        self._clocks[machine] = seconds
        self.clock_set_at = self.now

    @property
    def clocks_agree(self) -> bool:
        """Return whether the clocks of our machines agree with the API server's."""
        return not any(self._clocks.values())

    def add_node(self, name: str, capacity: str, *, pods: int = 110, zone: str = "zone-0") -> None:
        """Add a node. With an empty capacity it has no capacity label."""
        labels = {CAPACITY_LABEL: capacity} if capacity else {}
        self.create_object("/api/v1/nodes", node_object(name, pods=pods, zone=zone, labels=labels))

    def pods(self, app: str = "") -> list[dict[str, Any]]:
        """Return the pods of all workloads, or of one."""
        found = [dict(each.object()) for each in self.cluster.api.store.table("pods").sorted_objects()]
        return [
            each
            for each in found
            if each["metadata"]["namespace"] == SHOP and app in ("", each["metadata"]["labels"].get("app"))
        ]

    def _defer_call(self, handling: Handling, effect: Effect, ticket: int) -> None:
        self.webhook_calls.defer_call(handling, effect, ticket)

    def _settle_call(self, ticket: int, answer: Any) -> None:
        if ticket in self._callers:
            self.plan_step()
            self._callers.pop(ticket)(answer.status < 300)
            return
        self.cluster.machinery.settle(ticket, answer_of(answer))
        self.plan_step()

    def _selected_endpoints(self) -> Iterator[MemoryEndpoint]:
        """Yield the endpoints of the pods that the Service selects."""
        for pod in self._own_pods:
            found = self.cluster.api.store.get("pods", OWN_NAMESPACE, pod)
            labels = found.object()["metadata"].get("labels") or {} if found is not None else {}
            if labels.get(LEADER_LABEL) == "true" and pod in self.endpoints:
                yield self.endpoints[pod]

    def _open_endpoint(self, identity: str, pod: str, process: Process, _: str, answer: AnswerReview) -> MemoryEndpoint:
        door = self.endpoints[pod] = MemoryEndpoint(process, answer, partial(self._on_answer, identity))
        return door

    def _on_answer(self, identity: str, reply: Reply) -> None:
        for listener in self.answer_listeners:
            listener(identity, reply)

    def _record(self, _: ObjectReference, __: str, reason: str, ___: str) -> None:
        self.events[reason] += 1

    def _new_token(self, identity: str) -> str:
        self._tokens += 1
        return f"{identity}-{self._tokens}"

    def _wall_time_of(self, machine: int) -> datetime:
        return self.wall() + timedelta(seconds=self._clocks.get(machine, 0.0))

    def _new_pod(self, name: str, revision: int) -> str:
        """Create a pod of ours, and a ReplicaSet of that revision that adopts it."""
        labels = {"own": name}
        containers = [{"name": "situate", "image": "example.com/situate:1"}]
        spec = {"nodeName": _OWN_NODE, "containers": containers}
        self.create_object(_PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        owned = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        self.create_object(_SETS, {"metadata": {"name": name, "annotations": annotations}, "spec": owned})
        return name


def definition(kind: OwnerKind) -> dict[str, Any]:
    """Build the CustomResourceDefinition of a workload kind that Kubernetes does not have."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{kind.plural}.{kind.group}"}, "spec": spec}


def parse_settings(**data: Any) -> SpotSettings:
    """Parse settings from the keys of the configuration file."""
    settings, mistakes = parse_section(data, SpotSettings, "spot")
    assert settings is not None, mistakes
    return settings
