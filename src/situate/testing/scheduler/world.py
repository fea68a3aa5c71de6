"""A cluster, a network and the processes of the scheduler, all on one virtual clock.

The processes run the shipped controller, client, reflectors and election. Only the transport is replaced.
"""

from __future__ import annotations

from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.framework.plugin_api.actions import BindByExtender
from situate.framework.plugin_api.configuration import EnabledPlugin
from situate.framework.preemption.extenders import ExtenderReply
from situate.framework.profile.profiles import Registry
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.events import ObjectReference
from situate.plugins.registry import registry
from situate.runtime.leadership.leader import ControllerContext
from situate.scheduler.config.settings import SchedulerSettings
from situate.scheduler.config.setup import Setup, set_up
from situate.scheduler.controller.action_writer import ExtenderClient
from situate.scheduler.controller.controller import SchedulerController
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.testing.scheduler.history import NODE_CPU_MILLI, NODE_PODS, NODES, PRIORITIES, PROCESSES
from situate.testing.virtual_time.world import ClusterWorld

NAMESPACE = "work"
LEASE = "scheduler"
TIMES = ElectionTimes(lease_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
FOREIGN_NODE = "foreign"
"""A cordoned node to which other schedulers bind."""

_IDLE = frozenset(
    {
        "statefulset",
        "deployment",
        "replicaset",
        "scheduler",
        "namespace",
        "serviceaccount",
        "disruption",
        "endpoint-slices",
    }
)
"""Controllers of the cluster that have no work in a history."""


class NoExtenders:
    """The extender client of schedulers without extenders."""

    async def ask(self, questions: object) -> list[ExtenderReply]:
        raise AssertionError(f"no extender is configured for {questions}")

    async def bind(self, action: BindByExtender) -> None:
        raise AssertionError(f"no extender is configured to bind {action.pod}")


def with_plugins(*plugins: Any) -> Registry:
    """Return the shipped plugins plus these classes, which every profile enables."""
    found, mistakes = registry(())
    assert not mistakes
    types = {**found.types, **{each.name: each for each in plugins}}
    enabled = tuple(EnabledPlugin(each.name) for each in plugins)
    return Registry(types, (*found.defaults, *enabled))


def default_setup(plugins: Registry | None = None, settings: SchedulerSettings | None = None) -> Setup:
    """Return the setup of a configuration. The default is an empty section."""
    found, mistakes = set_up(settings or SchedulerSettings(calls_in_flight=8), None, plugins or registry(())[0])
    assert found is not None, mistakes
    return found


class SchedulerWorld(ClusterWorld[SchedulerController]):
    """Everything of one history. Close it at the end."""

    def __init__(
        self, seed: int, setup: Setup | None = None, processes: int = PROCESSES, extending: ExtenderClient | None = None
    ) -> None:
        """Without `setup`, use the built-in profile. Without `extending`, there are no extenders."""
        machinery = MachinerySettings(
            disabled=_IDLE,
            kubelet=KubeletSettings(start_delay=0.5, stop_delay=0.5, lease_renewal=0.0),
            events=False,
        )
        super().__init__(seed, machinery)
        self._extender_client = extending or NoExtenders()
        self.setup = setup or default_setup()
        self.notes: list[tuple[str, str, str]] = []
        """Object, reason and message of the recorded Events."""
        self.registry = CollectorRegistry()
        """Metrics of the process that started last."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for value in PRIORITIES:
            made = {"metadata": {"name": f"worth-{value}"}, "value": value}
            self.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
        for number in range(NODES):
            self.add_node(number)
        foreign = node_object(FOREIGN_NODE, pods=1000) | {"spec": {"unschedulable": True}}
        self.call("POST", "/api/v1/nodes", foreign)
        for _ in range(processes):
            self.start_member()

    def objects(self, table: str) -> list[dict[str, Any]]:
        """Return all objects of a table, as the server holds them. The caller must not change them."""
        return [self.decode_object(each) for each in self.cluster.api.store.table(table).objects.values()]

    def pods(self) -> list[dict[str, Any]]:
        return self.objects("pods")

    def add_node(self, number: int) -> None:
        made = node_object(f"node-{number}", cpu=f"{NODE_CPU_MILLI}m", pods=NODE_PODS, zone=f"zone-{number % 3}")
        self.call("POST", "/api/v1/nodes", made)

    def start_member(self) -> None:
        """Start a process of the scheduler."""
        identity, wire = self.new_identity("scheduler")
        self.registry = CollectorRegistry()
        self.add_member(
            identity,
            wire,
            lambda _: SchedulerController(
                self.setup,
                ControllerContext(
                    Client(wire),
                    Candidacy(NAMESPACE, identity, TIMES),
                    self.wall,
                    Random(f"{identity} {self.rng.random()}"),
                ),
                record=self._record,
                metrics=SchedulerMetrics(self.registry),
                extending=self._extender_client,
                stopwatch=lambda: self.now,
            ),
        )

    def _record(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        related: ObjectReference | None = None,
        reporter: str = "",
    ) -> None:
        assert type_
        assert action
        assert reporter
        assert related is None or related.name
        self.events[reason] += 1
        self.notes.append((regarding.name, reason, message))
