"""reassign.json: scripted losses, drains, restarts and fail-overs, played on a fake clock, as the vectors' README says.

What the cases leave open is read as mildly as the rules allow: an executor that crashes has just renewed; one that is
deleted gracefully, of which nothing else is told, releases at once what it holds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.model.actions import Assign, write_of
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.model.names import EPOCH, FINALIZER
from situate.sharding.model.object_view import Holder, Placement
from situate.sharding.model.supervisor_config import OrphanPolicy, SupervisorConfig
from tests.conformance.ksched_world import ADAPTER, Actor, Supervisor, World
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, failed
from tests.sharding import builders

TICK_S: Final = 0.1
AFTER_S: Final = 20.0
"""For how long a world is watched after the last moment that its case names."""
_ENDS: Final = frozenset({"drain_ack", "lease_released", "crash", "container_terminated", "last_renew"})
_STATUSES: Final = {status.value for status in ExecutorStatus}


@dataclass(frozen=True)
class Seen:
    """One object at one moment."""

    t: float
    executor: str | None
    uid: str
    epoch: int
    completed: bool
    successful: bool | None
    reason: str
    alive: frozenset[str]
    """UIDs of the executors that renew their leases then."""


@dataclass
class Play:
    """One case under way."""

    case: Case
    world: World
    config: SupervisorConfig
    supervisor: Supervisor | None = None
    term: int = 0
    partition: int | None = None
    log: dict[str, list[Seen]] = field(default_factory=dict)
    conditions: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    hidden: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Objects of which the supervisor's own write is told, until then."""

    def lead(self) -> None:
        """A supervisor that has just started, with nothing but what it can list."""
        self.term += 1
        self.supervisor = Supervisor(self.world, self.config, self.term, self.partition)

    def executor(self, event: Mapping[str, Any]) -> Actor:
        """The one that is meant: of several incarnations the latest."""
        named = [actor for actor in self.world.actors.values() if actor.id == event["executor"]]
        if "pod_uid" in event:
            named = [actor for actor in named if actor.uid == event["pod_uid"]] or named
        if not named:
            raise KeyError(f"executor {event['executor']!r} is not there")
        return named[-1]

    def note(self, t: float) -> None:
        alive = frozenset(actor.uid for actor in self.world.actors.values() if actor.renews and actor.held)
        for uid in self.world.objects:
            view = self.world.view(uid)
            seen = Seen(
                t,
                view.executor or None,
                view.executor_uid,
                view.epoch,
                view.completed,
                view.successful,
                view.reason,
                alive,
            )
            told = self.log.setdefault(uid, [])
            if not told or _state(told[-1]) != _state(seen):
                told.append(seen)
            if self.supervisor is not None and (decision := self.supervisor.decisions.get(uid)) is not None:
                reason = decision.verdict.reason if decision.verdict is not None else ""
                self.conditions.setdefault(uid, []).append((t, reason))


def _events(case: Case) -> Sequence[Mapping[str, Any]]:
    return case.get("events") or ()


def reassign(case: Case) -> Outcome:
    """One case: the world is played to the end, then every expectation is looked at."""
    play = _set_up(case)
    events = sorted(_events(case), key=lambda event: event["t"])
    expect = case["expect"]
    moments = [entry["t"] for kind in ("by", "not_before", "at") for entry in expect.get(kind, ())]
    end = max([event["t"] for event in events] + moments) + AFTER_S
    if not any(event["type"] == "start" for event in events):
        play.lead()
    for tick in range(int(end / TICK_S) + 1):
        t = tick * TICK_S
        while events and events[0]["t"] <= t + 1e-9:
            event = events.pop(0)
            if event["type"] not in EVENTS:
                raise UnknownOperationError(f"event {event['type']!r}; known: {', '.join(sorted(EVENTS))}")
            play.note(t)
            EVENTS[event["type"]](play, event)
        for actor in play.world.actors.values():
            if actor.renews and t - actor.renewed >= play.world.times.renew_s:
                actor.renewed = t
        if play.supervisor is not None:
            play.supervisor.step(t)
        play.note(t)
    return _judged(play, expect)


def _set_up(case: Case) -> Play:
    timing = case.get("timing") or {}
    lease_s = timing.get("lease_duration_s", 15)
    deadline_s = timing.get("renew_deadline_s", lease_s * 2 / 3)
    drift = timing.get("max_clock_drift", 0.0)
    renew_s = min(4.0, deadline_s / 2)
    times = LeaseTimes(
        lease_s=lease_s,
        renew_s=renew_s,
        retry_s=min(1.0, renew_s),
        renew_deadline_s=deadline_s,
        cancel_grace_s=min(4.0, lease_s * (1 - drift) - deadline_s),
        max_clock_drift=drift,
    )
    defaults = SupervisorConfig()
    config = SupervisorConfig(
        orphan_policy=OrphanPolicy(case.get("policy", "reassign")),
        drain_timeout=timing.get("drain_timeout_s", defaults.drain_timeout),
        grace_unhealthy=timing.get("grace_unhealthy_s", defaults.grace_unhealthy),
        max_reassigns=case.get("max_reassigns", defaults.max_reassigns),
        max_forced_moves_per_s=case.get("max_moves_per_s", defaults.max_forced_moves_per_s),
    )
    play = Play(case, World(times), config)
    for wire in case.get("executors") or ():
        _join(play, wire)
    scripted = {
        event["object"] for event in _events(case) if event["type"] == "assign_patch_committed_but_response_lost"
    }
    to_come = {event["object"] for event in _events(case) if event["type"] == "create"}
    for wire in case.get("objects") or ():
        if wire["uid"] not in to_come:
            _appear(play, wire, play.hidden if wire["uid"] in scripted else play.world.objects)
    return play


def _join(play: Play, wire: Mapping[str, Any], renewed: float = 0.0) -> Actor:
    name = wire.get("id") or wire["executor"]
    uid = wire.get("pod_uid") or f"uid-{name}-{wire.get('incarnation', 1)}"
    actor = Actor(name, uid, wire.get("partition", 0), renewed=renewed)
    conditions = wire.get("pod_conditions") or {}
    if isinstance(conditions, list):
        conditions = {each["type"]: each["status"] for each in conditions}
    if "Ready" in conditions:
        actor.pod["ready"] = str(conditions["Ready"]) == "True"
    actor.pod["container_ready"] = wire.get("container_ready", True)
    actor.pod["deleting"] = wire.get("deletion_timestamp") is not None
    for other in play.world.actors.values():
        if other.id == name:
            other.has_pod = other.renews = False  # a pod's name is free again when the pod is gone
    play.world.actors[uid] = actor
    _be(actor, wire.get("status", ExecutorStatus.HEALTHY))
    return actor


def _be(actor: Actor, status: str) -> None:
    if status == "Removed":
        actor.held = actor.renews = False
        return
    if status not in _STATUSES:
        raise UnknownOperationError(f"status {status!r}; known: {', '.join(sorted(_STATUSES))}, Removed")
    actor.full = status == ExecutorStatus.FULL
    actor.pod["cordoned"] = status == ExecutorStatus.DRAINING
    if status == ExecutorStatus.UNHEALTHY:
        actor.pod["ready"] = False
    elif status == ExecutorStatus.HEALTHY:
        actor.pod.setdefault("ready", True)


def _appear(play: Play, wire: Mapping[str, Any], objects: dict[str, dict[str, Any]]) -> None:
    executor = wire.get("assigned_to")
    uids = [actor.uid for actor in play.world.actors.values() if actor.id == executor]
    completed = wire.get("completed")
    successful = completed.get("successful", True) if isinstance(completed, Mapping) else True
    objects[wire["uid"]] = builders.report(
        wire["uid"],
        executor=executor,
        executor_uid=(uids or [f"uid-{executor}-1"])[-1] if executor else None,
        epoch=wire.get("epoch", 0),
        completed=0.0 if completed else None,
        successful=successful if completed else None,
    )
    play.world.partitions[wire["uid"]] = wire.get("partition", 0)


def _silent(play: Play, event: Mapping[str, Any]) -> None:
    actor = play.executor(event)
    if actor.renews:
        actor.renewed = event["t"]
    actor.renews = False


def _released(play: Play, event: Mapping[str, Any]) -> None:
    actor = play.executor(event)
    actor.held = actor.renews = False


def _crash_by_object(play: Play, event: Mapping[str, Any]) -> None:
    """Whoever has it then: whom it was moved to is the strategy's choice."""
    holder = play.world.holder(event["object"])
    if holder is not None and not play.world.view(event["object"]).completed:
        _silent(play, {**event, "executor": holder.id, "pod_uid": holder.uid})


def _terminated(play: Play, event: Mapping[str, Any]) -> None:
    actor = play.executor(event)
    actor.pod["terminated"] = True
    actor.renews = False


def _pod_deleted(play: Play, event: Mapping[str, Any]) -> None:
    actor = play.executor(event)
    if not event.get("grace_period_s") or not event.get("node_ready", True):
        _silent(play, event)
        actor.has_pod = bool(event.get("grace_period_s"))
        actor.pod["deleting"] = True
        return
    actor.pod["deleting"] = True
    told = [other for other in _events(play.case) if other["type"] in _ENDS and other["t"] >= event["t"]]
    if not actor.renews or any(other.get("executor", actor.id) == actor.id for other in told):
        return
    for uid in play.world.objects:
        if play.world.holder(uid) is actor:
            play.world.release(uid)
    _released(play, event)


def _label_removed(play: Play, event: Mapping[str, Any]) -> None:
    play.executor(event).pod["labels"] = {}


def _joined(play: Play, event: Mapping[str, Any]) -> None:
    name = event.get("id") or event["executor"]
    before = [actor for actor in play.world.actors.values() if actor.id == name]
    for actor in before:
        if actor.renews:
            _silent(play, {**event, "executor": name, "pod_uid": actor.uid})
    _join(play, {"incarnation": len(before) + 1, **event}, event["t"])


def _status(play: Play, event: Mapping[str, Any]) -> None:
    actor = play.executor(event)
    if event["status"] == ExecutorStatus.HEALTHY:
        actor.pod["ready"] = True
    _be(actor, event["status"])


def _create(play: Play, event: Mapping[str, Any]) -> None:
    listed = play.case.get("objects") or ()
    known: Mapping[str, Any] = next((each for each in listed if each["uid"] == event["object"]), {})
    if event["object"] not in play.world.objects:
        scripted = any(
            each["type"] == "assign_patch_committed_but_response_lost"
            and each["object"] == event["object"]
            and each["t"] > event["t"]
            for each in _events(play.case)
        )
        _appear(play, {**known, **event, "uid": event["object"]}, play.hidden if scripted else play.world.objects)


def _complete(play: Play, event: Mapping[str, Any]) -> None:
    uid = event["object"]
    done = ADAPTER.complete(play.world.objects[uid], builders.wall(event["t"]), event.get("successful", True))
    play.world.put(uid, done)


def _lost_response(play: Play, event: Mapping[str, Any]) -> None:
    """The supervisor's own write, of which it learns nothing."""
    uid = event["object"]
    actor = play.executor(event)
    if uid in play.hidden:
        play.world.objects[uid] = play.hidden.pop(uid)
    view = play.world.view(uid)
    placement = Placement(Holder(actor.id, actor.uid), play.term, builders.wall(event["t"]), "new", FINALIZER)
    play.world.write(uid, write_of(Assign(placement), view, ADAPTER), play.term)
    if "epoch" in event and play.world.view(uid).epoch != event["epoch"]:
        raise UnknownOperationError(f"epoch {event['epoch']} of {event}: {EPOCH} was {view.epoch}")


def _fail_over(play: Play, _event: Mapping[str, Any]) -> None:
    play.lead()


def _down(play: Play, _event: Mapping[str, Any]) -> None:
    play.supervisor = None


def _start(play: Play, event: Mapping[str, Any]) -> None:
    play.partition = event.get("supervisor_of_partition")
    play.lead()


def _cordon(play: Play, event: Mapping[str, Any]) -> None:
    play.executor(event).pod["cordoned"] = True


def _ack(play: Play, event: Mapping[str, Any]) -> None:
    uids = [event["object"]] if "object" in event else list(play.world.objects)
    for uid in uids:
        holder = play.world.holder(uid)
        if holder is not None and event.get("executor", holder.id) == holder.id:
            play.world.release(uid)


EVENTS: Final[Mapping[str, Callable[[Play, Mapping[str, Any]], None]]] = {
    "last_renew": _silent,
    "lease_released": _released,
    "crash": _silent,
    "crash_by_object": _crash_by_object,
    "container_terminated": _terminated,
    "pod_deleted": _pod_deleted,
    "pod_label_removed": _label_removed,
    "join": _joined,
    "status": _status,
    "create": _create,
    "complete_write_committed": _complete,
    "assign_patch_committed_but_response_lost": _lost_response,
    "supervisor_failover": _fail_over,
    "supervisor_restart": _fail_over,
    "supervisor_down": _down,
    "supervisor_up": _fail_over,
    "start": _start,
    "cordon": _cordon,
    "drain_ack": _ack,
}
"""What each type of event does to the world."""


def _state(seen: Seen) -> tuple[object, ...]:
    return seen.executor, seen.uid, seen.epoch, seen.completed, seen.successful, seen.reason


def _judged(play: Play, expect: Mapping[str, Any]) -> Outcome:
    unknown = expect.keys() - {"by", "not_before", "at", "never", "unchanged"}
    if unknown:
        raise UnknownOperationError(f"expectation {', '.join(sorted(unknown))}")
    wrong = [
        *(_late(play, entry) for entry in expect.get("by", ())),
        *(_early(play, entry) for entry in expect.get("not_before", ())),
        *(_otherwise(play, entry) for entry in expect.get("at", ())),
        *(_happened(play, text) for text in expect.get("never", ())),
        *(_changed(play, uid) for uid in expect.get("unchanged", ())),
    ]
    found = [each for each in wrong if each]
    return failed("; ".join(found)) if found else PASSED


def _late(play: Play, entry: Mapping[str, Any]) -> str:
    """Whether it held at some moment up to that time."""
    log = play.log.get(entry["object"], [])
    if any(seen.t <= entry["t"] and not _differs(play, seen, entry, seen.t) for seen in log):
        return ""
    return f"by {entry['t']}: expected {_asked(entry)}, {_told(log, entry['t'])}"


def _otherwise(play: Play, entry: Mapping[str, Any]) -> str:
    log = play.log.get(entry["object"], [])
    seen = _at(log, entry["t"])
    if seen is not None and not _differs(play, seen, entry, entry["t"]):
        return ""
    return f"at {entry['t']}: expected {_asked(entry)}, {_told(log, entry['t'])}"


def _early(play: Play, entry: Mapping[str, Any]) -> str:
    """Whether before that time the object went to another executor than it had, or was completed."""
    log = play.log.get(entry["object"], [])
    first = log[0] if log else None
    if unknown := entry.keys() - {"t", "object", "what", "assigned_in"}:
        raise UnknownOperationError(f"not_before with {', '.join(sorted(unknown))}")
    if not log:
        return f"not before {entry['t']}: {entry['object']} is not there at all"
    for seen in log:
        moved = seen.executor is not None and first is not None and seen.uid != first.uid
        completed = seen.completed and first is not None and not first.completed
        if seen.t < entry["t"] - 1e-9 and (moved or completed):
            return f"not before {entry['t']}: {entry.get('what', '')}: {_told(log, entry['t'])}"
    return ""


def _happened(play: Play, text: str) -> str:
    for pattern, check in _NEVER:
        if match := re.fullmatch(pattern, text.strip()):
            return f"never: {text}" if check(play, match) else ""
    raise UnknownPhraseError(text)


def _changed(play: Play, uid: str) -> str:
    log = play.log.get(uid, [])
    kept = {(seen.executor, seen.epoch) for seen in log}
    return "" if len(kept) == 1 else f"unchanged: {uid}: {_told(log, float('inf'))}"


def _differs(play: Play, seen: Seen, entry: Mapping[str, Any], t: float) -> bool:
    unknown = entry.keys() - {"t", "object", "assigned_in", "epoch_gt", "epoch", "completed", "condition"}
    if unknown:
        raise UnknownOperationError(f"expectation {', '.join(sorted(unknown))}")
    checks = [
        "assigned_in" not in entry or seen.executor in (entry["assigned_in"] or [None]),
        "epoch_gt" not in entry or seen.epoch > entry["epoch_gt"],
        "epoch" not in entry or seen.epoch == entry["epoch"],
        "completed" not in entry or _is_completed(seen, entry["completed"]),
        "condition" not in entry or _condition(play, entry["object"], t) == entry["condition"],
    ]
    return not all(checks)


def _is_completed(seen: Seen, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return seen.completed is bool(wanted)
    if unknown := wanted.keys() - {"successful", "reason"}:
        raise UnknownOperationError(f"completed with {', '.join(sorted(unknown))}; known: successful, reason")
    return seen.completed and all(getattr(seen, name) == value for name, value in wanted.items())


def _condition(play: Play, uid: str, t: float) -> str:
    reasons = [reason for at, reason in play.conditions.get(uid, []) if at <= t + 1e-9]
    return reasons[-1] if reasons else ""


def _at(log: list[Seen], t: float) -> Seen | None:
    earlier = [seen for seen in log if seen.t <= t + 1e-9]
    return earlier[-1] if earlier else None


def _asked(entry: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in entry.items() if name not in ("t", "object"))


def _told(log: list[Seen], t: float) -> str:
    story = [
        f"{seen.t:g}: {seen.executor}/{seen.epoch}{' ' + seen.reason if seen.completed else ''}"
        for seen in log
        if seen.t <= t
    ]
    return f"it went {'; '.join(story) or 'nowhere'}"


def _two_at_once(play: Play, uid: str) -> bool:
    """Whether the object went from a living incarnation straight to another one: two would be at work."""
    log = play.log.get(uid, [])
    return any(
        before.uid and after.uid and before.uid != after.uid and before.uid in after.alive
        for before, after in itertools.pairwise(log)
    )


def _assigned(play: Play, uid: str, executor: str) -> bool:
    log = play.log.get(uid, [])
    return any(seen.executor == executor for seen in log[1:]) or (len(log) == 1 and log[0].executor == executor)


def _moved(play: Play, uid: str) -> bool:
    return len({(seen.executor, seen.epoch) for seen in play.log.get(uid, []) if seen.executor}) > 1


def _completed(play: Play, uid: str) -> bool:
    return any(seen.completed for seen in play.log.get(uid, []))


def _went_back(play: Play, uid: str) -> bool:
    epochs = [seen.epoch for seen in play.log.get(uid, [])]
    return epochs != sorted(epochs)


def _any(check: Callable[[Play, str], bool]) -> Callable[[Play, re.Match[str]], bool]:
    """The check for the object that a sentence names, or for every object where it names none."""

    def asked(play: Play, match: re.Match[str]) -> bool:
        named = match[1]
        return any(check(play, uid) for uid in play.log if named is None or uid == named)

    return asked


def _ever_on(play: Play, match: re.Match[str]) -> bool:
    """Of whatever it had at first nothing is said."""
    return any(seen.executor == match[1] for log in play.log.values() for seen in log[1:])


def _after_completion(play: Play, uid: str) -> bool:
    log = play.log.get(uid, [])
    return any(before.completed and before.uid != after.uid for before, after in itertools.pairwise(log))


_OBJECT: Final = r"(?:any object|an object|the same object|(?:object )?([\w.-]+))"
_NEVER: Final[list[tuple[str, Callable[[Play, re.Match[str]], bool]]]] = [  # the first that fits is meant
    (rf"two (?:executors|holders|owners|incarnations|pods) (?:are )?"
     rf"(?:start(?:ed)?|active|at work|running|work(?:ing)?)(?: at once)? (?:for|on) {_OBJECT}", _any(_two_at_once)),
    (r"(?:any|an|the|no|new) (?:object|work) (?:is )?(?:re)?(?:assigned|given|moved) to ([\w.-]+)", _ever_on),
    (r"([\w.-]+) (?:is )?(?:re)?(?:assigned|moved|given|started|runs)(?: again)? (?:to|on) ([\w.-]+)(?: again)?",
     lambda play, it: _assigned(play, it[1], it[2])),
    (rf"{_OBJECT} (?:is )?(?:re)?assigned after (?:its )?completion", _any(_after_completion)),
    (rf"(?:any )?(?:reassignment|move) of {_OBJECT}", _any(_moved)),
    (rf"{_OBJECT} (?:is )?(?:reassigned|moved|assigned (?:again|twice))(?: at all)?", _any(_moved)),
    (rf"{_OBJECT} (?:is )?(?:completed|failed)", _any(_completed)),
    (rf"(?:the )?epoch of {_OBJECT} (?:decreases|goes back|(?:is )?lowered)", _any(_went_back)),
]  # fmt: skip
"""Sentences that forbid something, and what they mean of a log."""
