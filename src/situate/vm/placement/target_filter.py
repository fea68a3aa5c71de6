"""Filter the possible targets of a VM with all Filter plugins of the profile, as its target Pod will meet them.

The tested Pod is the running Pod without its node, under another name (C34), and without the parts that only its last
migration added. The ledger's own plugin is left out: plans know the amounts better, because they try states that do not
exist yet. For the same reason, NodeResourcesFit is not applied to nodes that are full by the ledger: a plan that frees
capacity there first would never be found. Pods of ignored namespaces exclude others everywhere: no plan migrates them,
and Filter counts them (B12, C19, C28).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import is_
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import find_feasible
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.pod.pods import BadPod, PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.snapshot.snapshot import Snapshot
from situate.vm.backends.systems import System
from situate.vm.ledger.ledger import Ledger
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.placement.plugin import NAME
from situate.vm.planning import drain, node_relief, plan_for_pod, retarget
from situate.vm.planning.targets import Fits

_RESOURCES_FILTER: Final = "NodeResourcesFit"
P = TypeVar("P", bound=Plugin)


class TargetFilter:
    """Filter results of one engine, cached while cluster and ledger stay unchanged. Mutable."""

    def __init__(self, engine: Engine, ledger: Ledger, system: System[Any]) -> None:
        self._engine = engine
        self._ledger = ledger
        self._system = system
        (self._profile,) = (_profile_without(each, NAME) for each in engine.profiles.values())
        self._but_amounts = _profile_without(self._profile, _RESOURCES_FILTER)
        self._as_of: tuple[object, ...] = ()
        """The basis of the answers: parts of the snapshot, and the ledger's state."""
        self._position = 0
        self._free: list[Amounts | None] = []
        """By row of the snapshot's nodes: free capacity. None for a node that the ledger does not have."""
        self._beside: dict[int, Amounts] = {}
        """By row with Pods of ignored namespaces: free capacity beside them, as the ledger's Filter counts it."""
        self._known: dict[str, NDArray[np.bool_]] = {}

    def __call__(self, uid: str, node: str) -> bool:
        """Return whether the node would accept another Pod like the one with this UID."""
        snapshot = self._engine.cache.snapshot()
        self._refresh(snapshot)
        index = snapshot.nodes.index.get(node)
        if index is None:
            return False
        passes = self._known.get(uid)
        if passes is None:
            passes = self._known[uid] = self._passing_nodes(uid, snapshot)
        return bool(passes[index])

    def _refresh(self, snapshot: Snapshot) -> None:
        state = self._ledger.state
        as_of = snapshot.nodes, snapshot.lineage, snapshot.catalog, state
        same = len(self._as_of) == len(as_of) and all(map(is_, as_of, self._as_of))
        if not same or snapshot.log_position != self._position:
            self._as_of, self._position = as_of, snapshot.log_position
            self._known = {}
            self._free = [state.available(name, "") if name in state.nodes else None for name in snapshot.nodes.names]
            self._beside = self._capacity_beside_ignored(snapshot) if self._ledger.rules.ignored_namespaces else {}

    def _capacity_beside_ignored(self, snapshot: Snapshot) -> dict[int, Amounts]:
        rules, found = self._ledger.rules, {}
        for index, free in enumerate(self._free):
            ignored = [each.pod for each in snapshot.pods_on(index) if each.namespace in rules.ignored_namespaces]
            if ignored and free is not None:
                booked = (self._system.pod_from_requests(pod, rules, None).reserved for pod in ignored)
                found[index] = free - total(booked, len(free))
        return found

    def _passing_nodes(self, uid: str, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Return (nodes,): whether each node would accept the Pod."""
        pod, known = self._ledger.state.pod(uid), self._engine.cache.pod(uid)
        moved = None if known is None else self._target_pod(known.info)
        if pod is None or moved is None:
            return np.zeros(snapshot.count, dtype=np.bool_)
        amount = pod.counted_amount(pod.reserved)
        has_room = np.array([free is not None and amount.fits_within(free) for free in self._free], dtype=np.bool_)
        by_all = find_feasible(self._profile, moved, snapshot).passes
        if not (by_all | has_room).all():
            by_all = np.where(has_room, by_all, find_feasible(self._but_amounts, moved, snapshot).passes)
        shared = [index for index, free in self._beside.items() if not amount.fits_within(free)]
        if shared:
            by_all = by_all.copy()
            by_all[shared] = False
        return by_all

    def _target_pod(self, info: PodInfo) -> PodInfo | None:
        """Return the Pod as the target Pod of the VM would be. None if its fields are invalid."""
        unmoved = self._system.without_target_constraints(info.pod)
        meta, spec = unmoved.metadata, unmoved.spec
        pod = msgspec.structs.replace(
            unmoved,
            metadata=msgspec.structs.replace(meta, name=f"{meta.name}-moved", uid=f"{meta.uid} moved"),
            spec=msgspec.structs.replace(spec, node_name=""),
        )
        try:
            return self._engine.cache.reader.read(pod)
        except BadPod:
            return None


def planner_with_filter(fits: Fits) -> Planner:
    """Return a planner whose targets pass these filters."""
    return Planner(
        plan=partial(plan_for_pod.plan, fits=fits),
        relief=partial(node_relief.plan_relief, fits=fits),
        drain=partial(drain.plan_drain, fits=fits),
        another_target=partial(retarget.another_target, fits=fits),
        fits=fits,
    )


def _profile_without(profile: Profile, name: str) -> Profile:
    def others(plugins: tuple[P, ...]) -> tuple[P, ...]:
        return tuple(plugin for plugin in plugins if plugin.name != name)

    return replace(profile, pre_filter=others(profile.pre_filter), filter=others(profile.filter))
