"""Where a machine's pod might move to, by all Filter plugins of the profile: what its target will meet there (B12).

The pod of the future is the pod that runs now, without its node and under another name (C34), and without what only
the last move of its machine asked for. What the ledger's own
plugin would say of amounts, plans know better: they try what is not so yet. For the same reason NodeResourcesFit is not
asked about nodes that are full by the ledger: a plan that makes room there first would never be found. Pods of
ignored namespaces keep others out wherever they are: no plan moves them, and the filter counts them (C19, C28).
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

_AMOUNTS: Final = "NodeResourcesFit"
P = TypeVar("P", bound=Plugin)


class Fitting:
    """Mutable, of one engine: remembers what was found out for as long as cluster and ledger stay as they are."""

    def __init__(self, engine: Engine, ledger: Ledger, system: System[Any]) -> None:
        self._engine = engine
        self._ledger = ledger
        self._system = system
        (self._profile,) = (_without(each, NAME) for each in engine.profiles.values())
        self._but_amounts = _without(self._profile, _AMOUNTS)
        self._as_of: tuple[object, ...] = ()
        """What the answers hold for: parts of the snapshot, and the ledger's state."""
        self._position = 0
        self._free: list[Amounts | None] = []
        """By row of the snapshot's nodes; None of one that the ledger does not have."""
        self._beside: dict[int, Amounts] = {}
        """By row, where there are pods of ignored namespaces: what is free beside them, as our filter has it."""
        self._known: dict[str, NDArray[np.bool_]] = {}

    def __call__(self, uid: str, node: str) -> bool:
        """Whether the node would take another pod like the one with this uid."""
        snapshot = self._engine.cache.snapshot()
        self._bring_up_to_date(snapshot)
        index = snapshot.nodes.index.get(node)
        if index is None:
            return False
        passes = self._known.get(uid)
        if passes is None:
            passes = self._known[uid] = self._passes(uid, snapshot)
        return bool(passes[index])

    def _bring_up_to_date(self, snapshot: Snapshot) -> None:
        state = self._ledger.state
        as_of = snapshot.nodes, snapshot.lineage, snapshot.catalog, state
        same = len(self._as_of) == len(as_of) and all(map(is_, as_of, self._as_of))
        if not same or snapshot.log_position != self._position:
            self._as_of, self._position = as_of, snapshot.log_position
            self._known = {}
            self._free = [state.avail(name, "") if name in state.nodes else None for name in snapshot.nodes.names]
            self._beside = self._beside_ignored(snapshot) if self._ledger.rules.ignored_namespaces else {}

    def _beside_ignored(self, snapshot: Snapshot) -> dict[int, Amounts]:
        rules, found = self._ledger.rules, {}
        for index, free in enumerate(self._free):
            ignored = [each.pod for each in snapshot.pods_on(index) if each.namespace in rules.ignored_namespaces]
            if ignored and free is not None:
                booked = (self._system.by_requests(pod, rules, None).reserved for pod in ignored)
                found[index] = free - total(booked, len(free))
        return found

    def _passes(self, uid: str, snapshot: Snapshot) -> NDArray[np.bool_]:
        """(nodes,)"""
        pod, known = self._ledger.state.pod(uid), self._engine.cache.pod(uid)
        moved = None if known is None else self._moved(known.info)
        if pod is None or moved is None:
            return np.zeros(snapshot.count, dtype=np.bool_)
        amount = pod.counted(pod.reserved)
        has_room = np.array([free is not None and amount.within(free) for free in self._free], dtype=np.bool_)
        by_all = find_feasible(self._profile, moved, snapshot).passes
        if not (by_all | has_room).all():
            by_all = np.where(has_room, by_all, find_feasible(self._but_amounts, moved, snapshot).passes)
        shared = [index for index, free in self._beside.items() if not amount.within(free)]
        if shared:
            by_all = by_all.copy()
            by_all[shared] = False
        return by_all

    def _moved(self, info: PodInfo) -> PodInfo | None:
        """None where its fields cannot be acted on."""
        unmoved = self._system.unmoved(info.pod)
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


def planner_with(fits: Fits) -> Planner:
    """Plans whose targets pass these filters."""
    return Planner(
        plan=partial(plan_for_pod.plan, fits=fits),
        relief=partial(node_relief.relief, fits=fits),
        drain=partial(drain.drain, fits=fits),
        another_target=partial(retarget.another_target, fits=fits),
        fits=fits,
    )


def _without(profile: Profile, name: str) -> Profile:
    def others(plugins: tuple[P, ...]) -> tuple[P, ...]:
        return tuple(plugin for plugin in plugins if plugin.name != name)

    return replace(profile, pre_filter=others(profile.pre_filter), filter=others(profile.filter))
