"""Our side: the engine, fed from the same objects, and what it makes of a pod."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from situate.framework.cycle.cycle import Feasibility, PodsByNominatedNode, find_feasible, scores_by_plugin
from situate.framework.engine.decisions import Asked, Decision, Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.catalog_keeper import CATALOG_RESOURCES, CatalogKeeper
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.plugin_api.events import ClusterEvent
from situate.framework.plugin_api.plugin import Diagnosis, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import EXTENDER
from situate.framework.preemption.preemption import Candidate, UnhelpfulNode, cost, dry_run
from situate.framework.profile.profile import Profile
from situate.framework.profile.profiles import profiles_of
from situate.framework.results.verdict import Indices
from situate.objects.decoding.codec import decode
from situate.objects.resources import NODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS, ResourceType
from situate.objects.settings.section import parse_section
from situate.plugins.registry import registry
from tests.e2e.differential.api import Object
from tests.e2e.differential.configuration import configuration
from tests.e2e.differential.extenders import Whole, replies
from tests.e2e.differential.objects import Cluster, key_of
from tests.e2e.differential.said import Said

_BETWEEN_S = 1000.0
"""Of our clock, from one question to the next: no back-off lasts that long."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the engine decides about a pod, and why."""

    best: frozenset[str]
    """All nodes that are as good as any; empty if no node will do."""
    chosen: str
    """One of the best."""
    message: str
    """Why no node will do, or what broke."""
    nominated: str
    """The node that is to be made free."""
    victims: frozenset[str]
    """Pods, as `namespace/name`, that have to leave it."""
    asked: frozenset[str]
    """What extenders did: filtered, scored, struck candidates for preemption, were ignored, broke the cycle."""
    narrowing: frozenset[str]
    """Plugins to which some node belongs that will not do."""
    rejecting: frozenset[str]
    """The same where no node will do; it is these whose words are compared."""
    deciding: frozenset[str]
    """Plugins without whose scores other nodes would be the best."""
    shares: dict[str, dict[str, int]]
    """Of each feasible node: what each plugin adds to its total."""
    room: dict[str, tuple[frozenset[str], Any] | str]
    """If some node is to be made free, for each one: who would have to leave it, and what that costs, as `cost` tells;
    or why that does not help.
    """
    refused: dict[str, list[str]]
    """Why each of the other nodes will not do."""

    def as_json(self) -> Object:
        """For case files."""
        return {
            "best": sorted(self.best),
            "chosen": self.chosen,
            "message": self.message,
            "nominated": self.nominated,
            "victims": sorted(self.victims),
            "shares": self.shares,
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Inquiry:
    """A pod's cycle, for further questions."""

    profile: Profile
    pod: PodInfo
    found: Feasibility
    promised: PodsByNominatedNode

    def making_room_on(self, node: str, said: Said) -> tuple[frozenset[str], Any] | str:
        snapshot = self.found.snapshot
        index = snapshot.nodes.index[node]
        tried = dry_run(self.profile, self.pod, self.found.prepared, snapshot, index, self.promised.get(index, ()))
        match tried:
            case Candidate():
                agreed = said.agreed(node, tried)
                return (
                    "struck by an extender" if agreed is None else (frozenset(map(str, agreed.victims)), cost(agreed))
                )
            case UnhelpfulNode():
                return ", ".join(tried.reasons)


class Ours:
    """An engine as it ships, over one cluster."""

    def __init__(self, cluster: Cluster, extenders: str = "") -> None:
        """`extenders`: where they answer; none are asked without it."""
        wire, mistakes = parse_section(configuration(extenders), KubeSchedulerConfiguration, "")
        assert wire is not None, mistakes
        self._extenders = wire.extenders
        self._engine = Engine(_profiles(wire), extenders=wire.extenders)
        self._whole = Whole()
        self._now = 0.0
        self._keeper = CatalogKeeper()
        self._known: dict[tuple[str, str], Any] = {}
        self._keep(cluster, CATALOG_RESOURCES)
        for node in cluster["nodes"]:
            self.set_node(node)
        for pod in cluster["pods"]:
            self.set_pod(pod)

    def set_node(self, node: Object) -> None:
        """A node is new, or has changed."""
        self._whole.nodes[node["metadata"]["name"]] = wire = json.dumps(node).encode()
        self._engine.set_node(decode(NODES, wire), self._now)

    def set_pod(self, pod: Object) -> None:
        """A pod is new, or has changed."""
        self._whole.pods[pod["metadata"]["uid"]] = wire = json.dumps(pod).encode()
        self._engine.set_pod(decode(PODS, wire), self._now)

    def set_storage(self, cluster: Cluster) -> None:
        """Claims or volumes may have changed."""
        self._keep(cluster, (PERSISTENTVOLUMES, PERSISTENTVOLUMECLAIMS))

    def _keep(self, cluster: Cluster, resources: Iterable[ResourceType[Any]]) -> None:
        events: list[ClusterEvent] = []
        for resource in resources:
            for item in cluster.get(resource.plural, ()):
                new = decode(resource, json.dumps(item).encode())
                key = (resource.plural, key_of(item))
                old = self._known.get(key)
                if new != old:
                    self._known[key] = new
                    events += self._keeper.change(resource, old, new)
        self._engine.set_catalog(self._keeper.catalog(), events, self._now)

    def remove_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._whole.pods.pop(uid, None)
        self._engine.remove_pod(uid, self._now)

    def told_about(self, pod: Object) -> Answer | None:
        """What becomes of a new pod."""
        self.set_pod(pod)
        return self.answer(pod["metadata"]["uid"])

    def answer(self, uid: str) -> Answer | None:
        """What becomes of the pod now; None if its turn has not come. Counts it where it was placed."""
        self._now += _BETWEEN_S
        waiting = self._engine.queue.get(uid)
        if waiting is None:
            raise AssertionError(f"pod {uid} does not wait in the queue")
        inquiry = self._inquire(waiting.info)
        decision = self._engine.schedule(self._now)
        said = Said()
        while isinstance(decision, Asked):
            answers = replies(self._extenders, self._whole, decision.questions)
            said.told.extend(zip(decision.questions, answers, strict=True))
            decision = self._engine.resume(answers, self._now)
        if decision is None:
            return None
        if decision.pod.info.uid != uid:
            raise AssertionError(f"it is the turn of {decision.pod.info}, not of {waiting.info}")
        if isinstance(decision, Refused):
            self._engine.evictions_sent(decision, self._now)
        answer = _told(decision, inquiry, said)
        if isinstance(decision, Placed) and waiting.info.pod.spec.volumes:
            self._engine.binding_failed(decision, self._now)  # the other side gives its claims their volumes
        return answer

    def _inquire(self, info: PodInfo) -> _Inquiry:
        engine = self._engine
        profile = engine.profiles[info.pod.spec.scheduler_name]
        snapshot = engine.snapshot
        promised = engine.nominations.competing_pods(info, snapshot.nodes.index)
        found = find_feasible(profile, info, snapshot, promised)
        return _Inquiry(profile, info, found, {node: tuple(others) for node, others in promised.items()})


def _told(decision: Decision, inquiry: _Inquiry, said: Said) -> Answer:
    found, index = inquiry.found, inquiry.found.snapshot.nodes.index
    names = found.snapshot.nodes.names
    struck = said.refused()
    passes = np.flatnonzero(found.passes & (not isinstance(decision, Failed)))
    nodes = np.array([node for node in passes.tolist() if names[node] not in struck], dtype=np.intp)
    diagnosis = decision.diagnosis if isinstance(decision, Refused) else found.diagnosis()
    rejectors = diagnosis.rejectors | ({EXTENDER} if struck else frozenset())
    promised = index.get(inquiry.pod.nominated)
    if promised is not None and promised in nodes:  # nobody scores it
        nodes = np.array([promised], dtype=np.intp)
    shares = _shares(inquiry, nodes, said) if len(nodes) > 1 else {}
    best, deciding = _best(len(nodes), shares)
    nominated, evictions = _consequences(decision)
    return Answer(
        best=frozenset(names[nodes[place]] for place in best),
        chosen=decision.node if isinstance(decision, Placed) else "",
        message=_message(decision),
        nominated=nominated,
        victims=evictions,
        asked=said.deeds(),
        narrowing=rejectors,
        rejecting=frozenset() if len(nodes) else rejectors,
        deciding=deciding,
        shares={
            names[node]: {plugin: int(share[place]) for plugin, share in shares.items()}
            for place, node in enumerate(nodes.tolist())
        },
        room={name: inquiry.making_room_on(name, said) for name in names} if nominated else {},
        refused=_refused(diagnosis),
    )


def _shares(inquiry: _Inquiry, nodes: Indices, said: Said) -> dict[str, Scores]:
    shares = dict(scores_by_plugin(inquiry.profile, inquiry.pod, inquiry.found, nodes))
    added = said.scores()
    if added is not None:
        names = inquiry.found.snapshot.nodes.names
        shares[EXTENDER] = np.array([added.get(names[node], 0) for node in nodes.tolist()], dtype=np.int64)
    return shares


def _best(count: int, shares: dict[str, Any]) -> tuple[set[int], frozenset[str]]:
    """The places of the best nodes, and the plugins without whose scores there would be others."""
    total = sum(shares.values(), np.zeros(count, dtype=np.int64))

    def highest(totals: Any) -> set[int]:
        return set(np.flatnonzero(totals == totals.max()).tolist()) if count else set()

    best = highest(total)
    return best, frozenset(plugin for plugin, share in shares.items() if highest(total - share) != best)


def _message(decision: Decision) -> str:
    match decision:
        case Refused():
            return refusal(decision)
        case Failed():
            return decision.error
        case _:
            return ""


def _consequences(decision: Decision) -> tuple[str, frozenset[str]]:
    """The node to be made free, and victims by name."""
    if not isinstance(decision, Refused):
        return "", frozenset()
    nominated = decision.post_filter.nominate if decision.post_filter is not None else None
    victims = frozenset("/".join(action.pod) for action in decision.actions if isinstance(action, Evict))
    return nominated or "", victims


def _refused(diagnosis: Diagnosis) -> dict[str, list[str]]:
    names = diagnosis.snapshot.nodes.names
    return {
        names[node]: [f"{plugin}: {text}" for text in refusals.reasons_at(node)]
        for plugin, refusals, where in diagnosis.refused
        for node in np.flatnonzero(where).tolist()
    }


def _profiles(wire: KubeSchedulerConfiguration) -> tuple[Profile, ...]:
    known, _ = registry(())
    profiles, wrong = profiles_of(wire, known)
    assert not wrong, wrong
    return profiles
