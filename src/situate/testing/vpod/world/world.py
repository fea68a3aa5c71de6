"""A cluster, a network and the processes of vpod, all on one virtual clock.

The processes run the shipped controller, client, reflectors, work queue and election. Only the transport is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, TypeAlias

from prometheus_client import CollectorRegistry

from situate.cluster.controllers import KubeletSettings, MachinerySettings, NodeLifecycleSettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.events import ObjectReference
from situate.objects.messages import Request, Response
from situate.objects.settings.section import parse_section
from situate.runtime.leadership.leader import ControllerContext
from situate.testing.histories.process_faults import ProcessFaults
from situate.testing.virtual_time.world import ClusterWorld, Member
from situate.testing.vpod.history import CAPACITY, NODES, PROCESSES, STORMS, VpodHistorySettings
from situate.testing.vpod.world.counting_wire import CountingWire
from situate.vpod.config.settings import StatefulSetSettings, served_kinds
from situate.vpod.controller import VPodController
from situate.vpod.controller.notify import VPodMetrics
from situate.vpod.placement.decide import Decision
from situate.vpod.sources.crds import INTERNAL_GROUP, definitions
from situate.vpod.state.state import State

NAMESPACE = "system"
STATEFULSET = "dispatcher"
POLICY = "placing"
TENANTS = ("red", "green", "blue")
LEASE_NAMESPACE = NAMESPACE
ROUND_S = 10.0
STABILIZATION_S = 20.0
SETTLE_S = 2.0
TIMES = ElectionTimes(lease_s=15.0, renew_deadline_s=10.0, retry_s=6.0)
TRIGGER_LIMIT_S = 30.0
"""Seconds after which a planned kill of the leader is dropped if the leader sends no such write."""
GROUPS = f"consumergroups.{INTERNAL_GROUP}"
GROUPS_PATH = f"/apis/{INTERNAL_GROUP}/v1alpha1"

_IDLE = frozenset({"deployment", "replicaset", "disruption", "namespace"})
"""Controllers of the cluster that have no work in a history."""

_POLICY_DATA = {
    "predicates": '[{"Name": "PodFitsResources"}, {"Name": "NoMaxResourceCount", "Args": "{\\"NumPartitions\\": 3}"}]',
    "priorities": '[{"Name": "EvenPodSpread", "Weight": 5, "Args": "{\\"MaxSkew\\": 2}"}, '
    '{"Name": "LowestOrdinalPriority", "Weight": 1}]',
}
"""At most three pods per vpod, as for a source of three partitions."""


VPodMember: TypeAlias = Member[VPodController]
"""One process of vpod."""


class VPodWorld(ClusterWorld[VPodController]):
    """Everything of one history. Close it at the end."""

    step_delay_s: ClassVar[float] = 0.015
    """As long as kube-controller-manager took to replace a pod. A shorter time makes more steps, which cost more."""

    def __init__(self, seed: int, settings: VpodHistorySettings) -> None:
        machinery = MachinerySettings(
            disabled=_IDLE,
            kubelet=KubeletSettings(start_delay=1.0, stop_delay=0.5, lease_renewal=0.0),
            node_lifecycle=NodeLifecycleSettings(
                monitor_grace_period=8.0, startup_grace_period=8.0, eviction_rate=100.0
            ),
            events=False,
        )
        super().__init__(seed, machinery)
        self.settings = settings
        self.capacity = CAPACITY
        self.audit_listeners: list[Callable[[str, State, Decision], None]] = []
        """Listeners called with every decision of a process before it is remembered."""
        self.process_faults = ProcessFaults(self, STORMS, trigger_limit_s=TRIGGER_LIMIT_S)
        self.executed_requests: dict[int, bool] = {}
        """By id of each open request: whether the server has answered it."""
        self.wires: dict[str, CountingWire] = {}
        """The wire of each process."""
        self.late_until = 0.0
        """Time at which the last delayed event has arrived."""
        self.lost_nodes: set[int] = set()
        """Nodes whose kubelets are silent."""
        self.adopted_keys: set[str] = set()
        """Statuses that a process adopted since the last check. Their reservation is not the last result."""
        self.notes: list[tuple[str, str, str]] = []
        """Events of all processes: object, reason and message."""
        self._parsed: dict[int, StatefulSetSettings] = {}
        self._create_objects()

    def node(self, number: int) -> dict[str, Any]:
        """Return a node as the server holds it."""
        found = self.cluster.api.store.get("nodes", "", f"node-{number}")
        assert found is not None
        return found.object()

    def pod_objects(self) -> list[dict[str, Any]]:
        """Return the pods of the StatefulSet, as the server holds them."""
        return [pod.object() for pod in self.cluster.api.store.table("pods").sorted_objects(NAMESPACE)]

    def has_group(self, key: str) -> bool:
        """Return whether a ConsumerGroup exists. `key` is `namespace/name`."""
        return key in self.cluster.api.store.table(GROUPS).objects

    def start_member(self) -> None:
        """Start a process of vpod."""
        identity, wire = self.new_identity("vpod")
        rng = Random(f"{identity} {self.rng.random()}")
        self.wires = {each.identity: self.wires[each.identity] for each in self.members}
        self.wires[identity] = CountingWire(wire, self)
        client = Client(self.wires[identity])
        self.add_member(
            identity,
            wire,
            lambda _: VPodController(
                self._statefulset_settings(),
                ControllerContext(client, Candidacy(LEASE_NAMESPACE, identity, TIMES), self.wall, rng),
                record=self._record,
                metrics=VPodMetrics(CollectorRegistry()),
                audit=lambda state, decision: self._on_decision(identity, state, decision),
                served=served_kinds([self._statefulset_settings()]),
            ),
        )

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        """Answer a request of the network."""
        if id(request) in self.executed_requests:
            self.executed_requests[id(request)] = True
        return super().answer(request, now, identity)

    def reconfigure(self, capacity: int) -> None:
        """Give every process another capacity, as when their shared file changes."""
        self.capacity = capacity
        settings = self._statefulset_settings()
        for member in self.members:
            member.process.loop.call_soon_threadsafe(member.controller.reconfigure, settings)

    def _record(self, regarding: ObjectReference, _: str, reason: str, message: str) -> None:
        self.events[reason] += 1
        self.notes.append((f"{regarding.kind} {regarding.namespace}/{regarding.name}", reason, message))
        if reason == "PlacementDrift":
            self.adopted_keys.add(f"{regarding.namespace}/{regarding.name}")

    def _on_decision(self, identity: str, state: State, decision: Decision) -> None:
        for listener in self.audit_listeners:
            listener(identity, state, decision)

    def _statefulset_settings(self) -> StatefulSetSettings:
        """Return the settings with the present capacity."""
        if (parsed := self._parsed.get(self.capacity)) is not None:
            return parsed
        chosen = self.settings
        data = {
            "statefulSetNamespace": NAMESPACE,
            "statefulSetName": STATEFULSET,
            "podCapacity": self.capacity,
            "sources": [{"kind": "ConsumerGroup", "sourceKind": "test", "workers": chosen.workers}],
            "refreshPeriod": ROUND_S,
            "retryPeriod": "1s",
            "minReplicas": chosen.min_replicas,
            "policy": chosen.policy,
            "profile": chosen.profile,
            "schedulerConfig": POLICY if chosen.predicates else None,
            "rescale": chosen.rescale,
            "pack": {"order": chosen.pack_order},
            "topology": chosen.topology,
            "topologyRequired": chosen.topology_required,
            "shrink": chosen.shrink,
            "maxReplicas": chosen.max_replicas,
            "maxScaleUpStep": chosen.max_scale_up_step,
            "podGrace": "6s",
            "requireReady": chosen.require_ready,
            "scaleDownStabilization": STABILIZATION_S,
            "drain": {"settle": SETTLE_S, "timeout": "60s", "surge": chosen.surge, "enabled": chosen.drain},
            "rebalance": {"enabled": chosen.rebalance, "interval": "15s", "maxMovesPerVPod": 2, "maxMoves": "20%"},
            "quota": {"namespaceMaxShare": chosen.quota},
            "fairness": chosen.fairness,
        }
        settings, mistakes = parse_section(data, StatefulSetSettings)
        assert settings is not None, mistakes
        self._parsed[self.capacity] = settings
        return settings

    def _create_objects(self) -> None:
        for definition in definitions():
            self.create_object("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for name in (NAMESPACE, *TENANTS):
            self.create_object("/api/v1/namespaces", {"metadata": {"name": name}})
        for number in range(NODES):
            labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}"}
            self.create_object("/api/v1/nodes", node_object(f"node-{number}", labels=labels))
        self.create_object(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets", _statefulset())
        if self.settings.predicates:
            self.create_object(
                f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": POLICY}, "data": _POLICY_DATA}
            )
        for _ in range(PROCESSES):
            self.start_member()


def _statefulset() -> dict[str, Any]:
    labels = {"app": STATEFULSET}
    return {
        "metadata": {"name": STATEFULSET, "namespace": NAMESPACE},
        "spec": {
            "replicas": 0,
            "serviceName": STATEFULSET,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": "example.com/c:1"}],
                    "tolerations": [
                        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
                        for key in _TAINTS
                    ],
                },
            },
        },
    }


_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
