"""Hypothetical decisions: the deciding code of the live scheduler, on a separate engine.

`settle` decides about all pending Pods, and `room_for` counts how many more Pods of a kind would fit. Both run on an
engine made with `Engine.branch`. The caller may add or remove Nodes and Pods there before. Nothing is written to the
cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from sys import intern
from typing import Final

import msgspec
import numpy as np

from situate.framework.cycle.cycle import PluginFailed, prepare
from situate.framework.engine.decisions import Asked, Decision, Failed, Placed, PlacedRun, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message, refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.plugin import Reads, Scores, reads
from situate.framework.pod.pods import PodInfo, PodKey
from situate.framework.preemption.extenders import Steps, run_without_questions
from situate.framework.profile.profile import ALL_NODES, Profile, WeightedPlugin
from situate.framework.snapshot.snapshot import Snapshot

FITTING_PODS_LIMIT: Final = 100_000
"""Number of Pods of one kind at which `room_for` stops and returns a minimum."""
_DECISIONS_AT_ONCE: Final = 2**12
"""Number of Pods to decide about at once. Until then each refused Pod takes ten bytes for each node."""
_FIRST_CHUNK: Final = 8
_CHUNK: Final = 256
"""Maximum number of Pods to count at once. A run costs little per Pod, but each Pod that does not fit is refused."""
_ROUNDS: Final = 1000
"""Number of rounds in which `settle` retries preemptors. Each round evicts Pods of lower priority, so it terminates."""


@dataclass(frozen=True, slots=True)
class PlacementOutcome:
    """The result for one Pod."""

    pod: PodInfo
    node: str = ""
    """Empty if no node is feasible."""
    held_by: tuple[str, ...] = ()
    """Permit plugins that must allow the Pod before it is bound to the node."""
    victims: tuple[PodKey, ...] = ()
    """Pods of lower priority that were evicted for it; the most important first."""
    why: str = ""
    """Without a node: the message of its condition, the plugin that gates it, or the error."""
    short: str = ""
    """The filters' message at the last refusal.

    The diagnosis itself is not stored: it takes ten bytes for each node, and a query may cover a million Pods.
    """


def settle(engine: Engine, now: float) -> dict[str, PlacementOutcome]:
    """Run `settle_steps` for an engine without extenders."""
    return run_without_questions(settle_steps(engine, now))


def settle_steps(engine: Engine, now: float) -> Steps[dict[str, PlacementOutcome]]:
    """Decide about the Pods in the engine's queue until nothing changes; results by uid, in order of decision.

    Bindings and evictions succeed at once: victims disappear, and preemptors return as soon as their backoff allows.
    The call changes the engine, so pass a branch.
    """
    outcomes: dict[str, PlacementOutcome] = {}
    for _ in range(_ROUNDS):
        engine.tick(now)
        while decisions := engine.schedule_run(now, _DECISIONS_AT_ONCE):
            for decision in decisions:
                found: Decision | PlacedRun | Asked | None = decision
                while isinstance(found, Asked):
                    replies = yield found.questions
                    found = engine.resume(replies, now)
                if found is not None:
                    _record_decision(engine, found, outcomes, now)
        hoping = [uid for uid, each in outcomes.items() if each.victims and not each.node]
        later = engine.queue.next_tick(now)
        if later is None or not any(uid in engine.queue for uid in hoping):
            break
        now = max(later, now)
    for waiting in engine.queue:
        if waiting.info.uid not in outcomes:
            reasons = ", ".join(waiting.gate_reasons)
            outcomes[waiting.info.uid] = PlacementOutcome(
                waiting.info, why=f"{waiting.gate}: {reasons}" if reasons else "waits"
            )
    return outcomes


def _record_decision(
    engine: Engine, decision: Decision | PlacedRun, outcomes: dict[str, PlacementOutcome], now: float
) -> None:
    match decision:
        case PlacedRun():
            for placed in decision:
                _record_decision(engine, placed, outcomes, now)
        case Placed(waiting, node):
            info = waiting.info
            earlier = outcomes.get(info.uid)
            outcomes[info.uid] = PlacementOutcome(info, node, victims=earlier.victims if earlier is not None else ())
            engine.binding_succeeded(decision)
            bound = msgspec.structs.replace(info.pod, spec=msgspec.structs.replace(info.pod.spec, node_name=node))
            engine.set_pod(bound, now)
        case Waiting(waiting, node):
            outcomes[waiting.info.uid] = PlacementOutcome(waiting.info, node, held_by=tuple(decision.until))
        case Refused(waiting, diagnosis):
            victims = [action for action in decision.actions if isinstance(action, Evict)]
            earlier = outcomes.get(waiting.info.uid)
            ended = (*(earlier.victims if earlier is not None else ()), *(each.pod for each in victims))
            outcomes[waiting.info.uid] = PlacementOutcome(
                waiting.info, victims=ended, why=intern(refusal(decision)), short=intern(no_node_message(diagnosis))
            )
            for victim in victims:
                engine.remove_pod(victim.uid, now)
            if victims:
                engine.evictions_sent(decision, now)
        case Failed(waiting, error):
            outcomes[waiting.info.uid] = PlacementOutcome(waiting.info, why=error)


@dataclass(frozen=True, slots=True)
class FittingPods:
    """The number of further Pods of a kind that would fit."""

    count: int
    exact: bool
    """False means that counting stopped at this number, a minimum."""
    why: str
    """The reason for the next Pod's refusal; empty if counting stopped before."""


def room_for(engine: Engine, pod: PodInfo, now: float, most: int = FITTING_PODS_LIMIT) -> FittingPods:
    """Count how many more Pods like this one would be placed, one after the other, until one is refused.

    The Pods do not preempt, and gates count as open. The engine is not changed. If each filter depends only on its own
    node, the number does not depend on the order, and scoring is left out.
    """
    profile = engine.profiles[pod.pod.spec.scheduler_name]
    try:
        plain = _filters_nodes_independently(profile, pod, engine.snapshot)
    except PluginFailed as failed:
        return FittingPods(0, exact=True, why=str(failed))
    engine = engine.branch(_without_scores) if plain else engine.branch()
    spec = msgspec.structs.replace(pod.pod.spec, node_name="", scheduling_gates=(), preemption_policy="Never")
    shape = engine.cache.reader.read(msgspec.structs.replace(pod.pod, spec=spec))
    placed, chunk = 0, _FIRST_CHUNK
    while placed < most:
        asked = min(chunk, most - placed)
        why = _place_more(engine, shape, placed, asked, now)
        if why is not None:
            return FittingPods(placed + _count_placed(engine, shape, placed, asked), exact=True, why=why)
        placed += asked
        chunk = min(2 * chunk, _CHUNK)
    return FittingPods(placed, exact=False, why="")


def _filters_nodes_independently(profile: Profile, pod: PodInfo, snapshot: Snapshot) -> bool:
    prepared = prepare(profile.pre_filter, pod, snapshot)
    return all(reads(plugin) is not Reads.CLUSTER or plugin.name in prepared.skipped for plugin in profile.filter)


def _without_scores(profile: Profile) -> Profile:
    score = (WeightedPlugin.from_plugin(_EqualScores(), 1),)
    return replace(profile, pre_score=(), score=score, percentage_of_nodes_to_score=ALL_NODES)


class _EqualScores:
    """A Score plugin that gives all nodes the same score."""

    name = "Indifferent"
    reads = Reads.NODE

    def score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002 - the signature is Score's
        return np.zeros(snapshot.count, dtype=np.int64)


def _place_more(engine: Engine, shape: PodInfo, begin: int, count: int, now: float) -> str | None:
    """Place this number of Pods; return the message of the first Pod without a node."""
    for number in range(begin, begin + count):
        name = f"{shape.name}-{number}"
        engine.queue.add(msgspec.structs.replace(shape, key=(shape.namespace, name), uid=_uid(shape, number)), now)
    while decisions := engine.schedule_run(now, count):
        for decision in decisions:
            if isinstance(decision, Refused):
                return no_node_message(decision.diagnosis)
            if isinstance(decision, Failed):
                return decision.error
    return None


def _count_placed(engine: Engine, shape: PodInfo, begin: int, count: int) -> int:
    return sum(engine.cache.pod(_uid(shape, number)) is not None for number in range(begin, begin + count))


def _uid(shape: PodInfo, number: int) -> str:
    return f"{shape.uid} more {number}"


def group_by_kind(pods: Iterable[PodInfo]) -> list[tuple[PodInfo, ...]]:
    """Group the Pods by kind, in the order of each first Pod. Pods that differ only in labels are of one kind."""
    found: dict[tuple[object, ...], list[PodInfo]] = {}
    for pod in pods:
        found.setdefault((id(pod.template), id(pod.spread), pod.volumes, pod.priority), []).append(pod)
    return [tuple(same) for same in found.values()]
