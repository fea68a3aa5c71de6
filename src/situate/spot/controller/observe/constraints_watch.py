"""Constraints on moves besides pods and nodes: budgets, selecting Services and policies, full quotas, leaders.

Only moves depend on them; admission never waits for them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError, NotFound
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import first_problem
from situate.kube.watch.store import Store
from situate.objects.kinds.meta import KubernetesObject, ObjectMeta
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.kinds.services import Service
from situate.objects.kinds.workloads import PodDisruptionBudget
from situate.objects.model import Model
from situate.objects.resources import LEASES, PODDISRUPTIONBUDGETS, SERVICES, ResourceType
from situate.objects.selection.label_selectors import BadSelector, Requirement, Selector, selector_of
from situate.objects.values.quantity import NO_QUANTITIES, Quantity
from situate.spot.model.pods_nodes_workloads import PodKey
from situate.spot.rebalance.node_termination import Guard, MoveConstraints
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.leaders import leader_uids, lease_keys
from situate.spot.workloads.owners import KINDS

T = TypeVar("T", bound=KubernetesObject)

HOLDER_READ_S: Final = 5.0
"""Longest age of the known holder of a workload's own Lease. The Lease is read, not watched, because of its frequent
renewals."""
_REVISIONS: Final = frozenset(kind.revision_label for kind in KINDS.values())
_POD_COUNT_KEYS: Final = ("pods", "count/pods")
_WORKLOAD_SCOPES: Final = frozenset(("NotTerminating", "NotBestEffort"))
"""Quota scopes that usually contain the pods of workloads."""


class NetworkPolicySpec(Model, frozen=True):
    pod_selector: LabelSelector = LabelSelector()


class NetworkPolicy(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkPolicySpec = NetworkPolicySpec()


class QuotaSpec(Model, frozen=True):
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None
    """None: `scopes` is complete."""


class QuotaStatus(Model, frozen=True):
    hard: Mapping[str, Quantity] = NO_QUANTITIES
    used: Mapping[str, Quantity] = NO_QUANTITIES


class ResourceQuota(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    @property
    def full(self) -> bool:
        """Whether the quota allows no further pod, as far as it limits their number."""
        if self.spec.scope_selector is not None or not _WORKLOAD_SCOPES.issuperset(self.spec.scopes):
            return False
        hard, used = self.status.hard, self.status.used
        return any(key in hard and key in used and used[key] >= hard[key] for key in _POD_COUNT_KEYS)


NETWORK_POLICIES: Final = ResourceType(
    "networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, NetworkPolicy
)
RESOURCE_QUOTAS: Final = ResourceType("", "v1", "ResourceQuota", "resourcequotas", True, ResourceQuota)


class ConstraintInformers:
    """Watches of the constraints, in every replica; `current_constraints` is the input of a decision."""

    def __init__(self, client: Client, cluster: Cluster, rng: random.Random, clock: Callable[[], float]) -> None:
        """`cluster`: the live one, updated by the watches; `clock`: seconds of a monotonic clock."""
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._guards: dict[tuple[str, str, str], Guard] = {}
        self._holders: dict[PodKey, str] = {}
        self._holders_read_at: float | None = None
        self._log = structlog.get_logger()

        def reflector(resource: ResourceType[T]) -> Reflector[T]:
            store: Store[T] = Store(resource.group_resource)
            return Reflector(client, resource, store, rng=rng)

        self.budgets = reflector(PODDISRUPTIONBUDGETS)
        self.services = reflector(SERVICES)
        self.network_policies = reflector(NETWORK_POLICIES)
        self.quotas = reflector(RESOURCE_QUOTAS)
        self.budgets.store.on_change(self._on_budget_change)
        self.services.store.on_change(self._on_service_change)
        self.network_policies.store.on_change(self._on_network_policy_change)

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.budgets
        yield self.services
        yield self.network_policies
        yield self.quotas

    def on_change(self, wake: Callable[[], None]) -> None:
        for reflector in self.reflectors():
            reflector.store.on_change(lambda _, __: wake())

    def readiness_problem(self) -> str | None:
        """Return why nothing may be moved yet; None once every object that may forbid a move is known.

        Quotas do not count: without them a pod is released where it should have been evicted, which does no harm.
        """
        return first_problem(each for each in self.reflectors() if each is not self.quotas)

    async def read_lease_holders(self) -> None:
        """Read the Leases that workloads name, if the last read is old enough. A failed read changes nothing."""
        named = lease_keys(self._cluster.owners.values())
        self._holders = {key: holder for key, holder in self._holders.items() if key in named}
        now = self._clock()
        if not named or (self._holders_read_at is not None and now - self._holders_read_at < HOLDER_READ_S):
            return
        self._holders_read_at = now
        await asyncio.gather(*(self._read_holder(key) for key in sorted(named)))

    def current_constraints(self) -> MoveConstraints:
        """Return the current constraints."""
        full = frozenset(quota.metadata.namespace for quota in self.quotas.store.list() if quota.full)
        led = leader_uids(self._cluster.owners.values(), self._cluster.pods, self._holders)
        return MoveConstraints(tuple(self._guards.values()), full, led)

    async def _read_holder(self, key: PodKey) -> None:
        try:
            lease = await self._client.get(LEASES, key.name, key.namespace)
        except NotFound:
            self._holders.pop(key, None)
        except KubeError as problem:
            self._log.warning("read of a workload's Lease failed", lease=str(key), error=str(problem))
        else:
            self._holders[key] = lease.spec.holder_identity

    def _on_budget_change(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        selector = _readable_selector(new.spec.selector) if new is not None else None
        allowed = new.status.disruptions_allowed if new is not None else 0
        self._put_guard("PodDisruptionBudget", new or old, selector, allowed)

    def _on_service_change(self, old: Service | None, new: Service | None) -> None:
        chosen = new.spec.selector if new is not None else {}
        wanted = [Requirement(key, "in", frozenset((value,))) for key, value in sorted(chosen.items())]
        self._put_guard("Service", new or old, Selector(tuple(wanted)) if _distinguishes_revisions(wanted) else None)

    def _on_network_policy_change(self, old: NetworkPolicy | None, new: NetworkPolicy | None) -> None:
        selector = _readable_selector(new.spec.pod_selector) if new is not None else None
        told = selector is not None and _distinguishes_revisions(selector.requirements)
        self._put_guard("NetworkPolicy", new or old, selector if told else None)

    def _put_guard(
        self, kind: str, about: KubernetesObject | None, selector: Selector | None, allowed: int | None = None
    ) -> None:
        """Store the guard, or remove it if there is no readable selector; such a selector selects nothing."""
        assert about is not None
        namespace, name = about.metadata.namespace, about.metadata.name
        if selector is None:
            self._guards.pop((kind, namespace, name), None)
        else:
            self._guards[kind, namespace, name] = Guard(kind, namespace, name, selector, allowed)


def _readable_selector(wire: LabelSelector | None) -> Selector | None:
    try:
        return selector_of(wire)
    except BadSelector:
        return None


def _distinguishes_revisions(requirements: Any) -> bool:
    """Return whether a release takes pods out of the selection; other selectors do not matter."""
    return any(requirement.key in _REVISIONS for requirement in requirements)
