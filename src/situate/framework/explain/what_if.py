"""What would be decided if things were otherwise: the same deciding code, on an engine that is nobody's.

`settle` plays what an engine does about all pods that wait, and `room_for` counts how many more of a kind would fit;
both on an engine made with `Engine.branch`, to which nodes and pods may be added, and from which they may be taken,
before it is asked. Nothing is written anywhere.
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
from situate.framework.engine.messages import no_node, refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.plugin import Reads, Scores, reads
from situate.framework.pod.pods import PodInfo, PodKey
from situate.framework.preemption.extenders import Steps, finished
from situate.framework.profile.profile import ALL_NODES, Profile, Weighted
from situate.framework.snapshot.snapshot import Snapshot

MOST: Final = 100_000
"""Pods of one kind that `room_for` counts before it says "at least"."""
_TOGETHER: Final = 2**12
"""Pods that an engine decides about at once: each that it refuses takes ten bytes for each node until then."""
_FIRST: Final = 8
_CHUNK: Final = 256
"""Pods that are counted at once: placing a run costs next to nothing for each, but all behind the last are refused."""
_ROUNDS: Final = 1000
"""Times that `settle` lets pods come back for which room was made: each ends pods of lower priority, so it ends."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one pod."""

    pod: PodInfo
    node: str = ""
    """Empty if no node will do."""
    held_by: tuple[str, ...] = ()
    """Plugins that have to let it go before it is bound to the node."""
    victims: tuple[PodKey, ...] = ()
    """Pods of lower priority that have been ended to make room for it; the most important first."""
    why: str = ""
    """Where there is no node: the sentence of its condition, the plugin that gates it, or what failed."""
    short: str = ""
    """What the filters said of the nodes when it was last refused. Not the diagnosis itself: that is ten bytes for each
    node, and a million pods may be asked about."""


def settle(engine: Engine, now: float) -> dict[str, Outcome]:
    """`settle_steps` of an engine that asks no extenders."""
    return finished(settle_steps(engine, now))


def settle_steps(engine: Engine, now: float) -> Steps[dict[str, Outcome]]:
    """What the engine does about the pods in its queue until nothing happens any more; by uid, in order of decision.

    Bindings succeed at once, and so do evictions: victims are gone, and pods for which room was made come back as soon
    as their back-off allows. The engine is changed: give it a branch.
    """
    outcomes: dict[str, Outcome] = {}
    for _ in range(_ROUNDS):
        engine.tick(now)
        while decisions := engine.schedule_run(now, _TOGETHER):
            for decision in decisions:
                found: Decision | PlacedRun | Asked | None = decision
                while isinstance(found, Asked):
                    replies = yield found.questions
                    found = engine.resume(replies, now)
                if found is not None:
                    _heed(engine, found, outcomes, now)
        hoping = [uid for uid, each in outcomes.items() if each.victims and not each.node]
        later = engine.queue.next_tick(now)
        if later is None or not any(uid in engine.queue for uid in hoping):
            break
        now = max(later, now)
    for waiting in engine.queue:
        if waiting.info.uid not in outcomes:
            reasons = ", ".join(waiting.gate_reasons)
            outcomes[waiting.info.uid] = Outcome(waiting.info, why=f"{waiting.gate}: {reasons}" if reasons else "waits")
    return outcomes


def _heed(engine: Engine, decision: Decision | PlacedRun, outcomes: dict[str, Outcome], now: float) -> None:
    match decision:
        case PlacedRun():
            for placed in decision:
                _heed(engine, placed, outcomes, now)
        case Placed(waiting, node):
            info = waiting.info
            earlier = outcomes.get(info.uid)
            outcomes[info.uid] = Outcome(info, node, victims=earlier.victims if earlier is not None else ())
            engine.bound(decision)
            bound = msgspec.structs.replace(info.pod, spec=msgspec.structs.replace(info.pod.spec, node_name=node))
            engine.set_pod(bound, now)
        case Waiting(waiting, node):
            outcomes[waiting.info.uid] = Outcome(waiting.info, node, held_by=tuple(decision.until))
        case Refused(waiting, diagnosis):
            victims = [action for action in decision.actions if isinstance(action, Evict)]
            earlier = outcomes.get(waiting.info.uid)
            ended = (*(earlier.victims if earlier is not None else ()), *(each.pod for each in victims))
            outcomes[waiting.info.uid] = Outcome(
                waiting.info, victims=ended, why=intern(refusal(decision)), short=intern(no_node(diagnosis))
            )
            for victim in victims:
                engine.remove_pod(victim.uid, now)
            if victims:
                engine.evictions_sent(decision, now)
        case Failed(waiting, error):
            outcomes[waiting.info.uid] = Outcome(waiting.info, why=error)


@dataclass(frozen=True, slots=True)
class Room:
    """How many more pods of a kind would fit."""

    count: int
    exact: bool
    """False: at least so many; counting stopped there."""
    why: str
    """What is said of the next one; empty where counting stopped before."""


def room_for(engine: Engine, pod: PodInfo, now: float, most: int = MOST) -> Room:
    """How many more pods like this one would be placed, one after the other, until one is refused.

    Nothing is preempted for them, and gates count as open. The engine is left as it was. Where each filter looks at
    its node alone, as many fit in whatever order, so that nothing is scored.
    """
    profile = engine.profiles[pod.pod.spec.scheduler_name]
    try:
        plain = _each_node_by_itself(profile, pod, engine.snapshot)
    except PluginFailed as failed:
        return Room(0, exact=True, why=str(failed))
    engine = engine.branch(_unscored) if plain else engine.branch()
    spec = msgspec.structs.replace(pod.pod.spec, node_name="", scheduling_gates=(), preemption_policy="Never")
    shape = engine.cache.reader.read(msgspec.structs.replace(pod.pod, spec=spec))
    placed, chunk = 0, _FIRST
    while placed < most:
        asked = min(chunk, most - placed)
        why = _place_more(engine, shape, placed, asked, now)
        if why is not None:
            return Room(placed + _placed_of(engine, shape, placed, asked), exact=True, why=why)
        placed += asked
        chunk = min(2 * chunk, _CHUNK)
    return Room(placed, exact=False, why="")


def _each_node_by_itself(profile: Profile, pod: PodInfo, snapshot: Snapshot) -> bool:
    prepared = prepare(profile.pre_filter, pod, snapshot)
    return all(reads(plugin) is not Reads.CLUSTER or plugin.name in prepared.skipped for plugin in profile.filter)


def _unscored(profile: Profile) -> Profile:
    score = (Weighted.of(_Indifferent(), 1),)
    return replace(profile, pre_score=(), score=score, percentage_of_nodes_to_score=ALL_NODES)


class _Indifferent:
    """Finds all nodes equally good."""

    name = "Indifferent"
    reads = Reads.NODE

    def score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002 - the signature is Score's
        return np.zeros(snapshot.count, dtype=np.int64)


def _place_more(engine: Engine, shape: PodInfo, begin: int, count: int, now: float) -> str | None:
    """Places so many; what is said of the first that has no place."""
    for number in range(begin, begin + count):
        name = f"{shape.name}-{number}"
        engine.queue.add(msgspec.structs.replace(shape, key=(shape.namespace, name), uid=_uid(shape, number)), now)
    while decisions := engine.schedule_run(now, count):
        for decision in decisions:
            if isinstance(decision, Refused):
                return no_node(decision.diagnosis)
            if isinstance(decision, Failed):
                return decision.error
    return None


def _placed_of(engine: Engine, shape: PodInfo, begin: int, count: int) -> int:
    return sum(engine.cache.pod(_uid(shape, number)) is not None for number in range(begin, begin + count))


def _uid(shape: PodInfo, number: int) -> str:
    return f"{shape.uid} more {number}"


def kinds(pods: Iterable[PodInfo]) -> list[tuple[PodInfo, ...]]:
    """The pods by kind, in the order of their first: what only labels tell apart is of one kind."""
    found: dict[tuple[object, ...], list[PodInfo]] = {}
    for pod in pods:
        found.setdefault((id(pod.template), id(pod.spread), pod.volumes, pod.priority), []).append(pod)
    return [tuple(same) for same in found.values()]
