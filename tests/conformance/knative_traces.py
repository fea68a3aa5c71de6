"""Replays the traces that were recorded on Knative's main, step by step, with the reference profile."""

from __future__ import annotations

from typing import Any

from situate.vpod.model.pod_classes import PodFacts
from situate.vpod.model.vpod import Key, Placements, PlainVPod, pod_name
from situate.vpod.placement.decide import commit, decide
from situate.vpod.scaling import autoscaler, drain
from situate.vpod.scaling.autoscaler import AutoscalerMemory
from situate.vpod.state.state import State
from tests.conformance.knative_main import as_json, options, pod_facts, reserved_json, state_json, vpod
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed

Step = Any


class Trace:
    """The StatefulSet and its vpods as the steps change them."""

    def __init__(self, given: Case) -> None:
        self._vpods = {each["key"]: vpod(each) for each in given.get("vpods") or ()}
        self.state = State.rebuild(
            options(given),
            given["replicas"],
            map(pod_facts, given.get("pods") or ()),
            self._vpods.values(),
            0.0,
            reserved={},
        )

    def run(self, step: Step) -> Outcome:
        match step["op"]:
            case "schedule":
                return self._schedule(step)
            case "set_pod":
                self._set_pod(step["pod"], step["state"])
            case "set_replicas":
                self._set_replicas(step["replicas"])
            case "autoscale":
                return self._autoscale(step)
            case "add_vpod":
                self._observe(PlainVPod(Key.parse(step["vpod"]), step.get("vreplicas", 0)))
            case "delete_vpod_and_resync":
                self._vpods.pop(step["vpod"], None)
                self.state.drop_unlisted([each.key for each in self._vpods.values()], 0.0)
            case "promote_init_reserved_from_status":
                self.state.reserve_from_status()
            case op:
                raise UnknownOperationError(f"op {op!r}")
        return PASSED

    def _observe(self, changed: PlainVPod) -> None:
        self._vpods[str(changed.key)] = changed
        self.state.observe_vpod(changed, 0.0)

    def _with_placements(self, key: str, vreplicas: int, placements: Placements) -> None:
        self._observe(PlainVPod(Key.parse(key), vreplicas, placements))

    def _schedule(self, step: Step) -> Outcome:
        before = self._vpods[step["vpod"]]
        asking = PlainVPod(before.key, step.get("vreplicas", before.vreplicas), before.placements)
        self._observe(asking)
        decision = decide(self.state, asking, 0.0)
        commit(self.state, decision)
        if step.get("commit_status") and not decision.left:
            self._with_placements(step["vpod"], asking.vreplicas, decision.placements)
        actual = {
            "placements": as_json(decision.placements),
            "left": decision.left,
            "error": decision.left > 0,
        }
        return compared(actual, _listed(step.get("expected") or {}, "placements"))

    def _set_pod(self, name: str, condition: str) -> None:
        node = f"node-of-{name}"
        match condition:
            case "ok":
                self.state.observe_pod(PodFacts(name, node), 0.0)
            case "pending":
                self.state.observe_pod(PodFacts(name), 0.0)
            case "annotated":
                self.state.observe_pod(PodFacts(name, node, "true"), 0.0)
            case "annotated_false":
                self.state.observe_pod(PodFacts(name, node, "false"), 0.0)
            case "missing":
                self.state.remove_pod(name, 0.0)
            case other:
                raise UnknownOperationError(f"pod state {other!r}")

    def _set_replicas(self, replicas: int) -> None:
        """The StatefulSet controller follows: pods beyond go, missing ones come."""
        state = self.state
        state.observe_replicas(replicas, 0.0)
        for ordinal, slot in sorted(state.slots.items()):
            if ordinal >= replicas and slot.pod is not None:
                state.remove_pod(slot.name, 0.0)
        for ordinal in range(replicas):
            known = state.slots.get(ordinal)
            if known is None or known.pod is None:
                name = pod_name(state.options.statefulset_name, ordinal)
                state.observe_pod(PodFacts(name, f"node-of-{name}"), 0.0)

    def _autoscale(self, step: Step) -> Outcome:
        beat = autoscaler.decide_round(self.state, AutoscalerMemory(), 0.0, bool(step.get("attempt_scale_down")))
        for eviction in beat.evictions:
            self._evict(eviction)
        actual = {
            "replicas": beat.replicas,
            "evictions": [{"vpod": str(e.key), **as_json([e.placement])[0]} for e in beat.evictions],
        }
        self._set_replicas(beat.replicas)
        return compared(actual, _listed(step.get("expected") or {}, "evictions"))

    def _evict(self, eviction: drain.Eviction) -> None:
        held = self._vpods[str(eviction.key)]
        kept = tuple(p for p in held.placements if p != eviction.placement)
        self._with_placements(str(eviction.key), held.vreplicas, kept)


def _listed(expected: Case, name: str) -> Case:
    """The expectation with null read as an empty list."""
    return {**expected, name: expected[name] or []} if name in expected else expected


def _compared_after(trace: Trace, after: Case) -> Outcome:
    """Compare the state after a step with what the step says of it."""
    if unknown := after.keys() - {"reserved", "state"}:
        raise UnknownOperationError(f"after with {', '.join(sorted(unknown))}; known: reserved, state")
    wanted = dict(after.get("state") or {})
    if "reserved" in after:
        wanted["reserved"] = {key: pods for key, pods in (after["reserved"] or {}).items() if pods}
    return compared({"reserved": reserved_json(trace.state), **state_json(trace.state)}, wanted)


def replay(case: Case) -> Outcome:
    """Every step and the whole state after it."""
    trace = Trace(case)
    for number, step in enumerate(case["steps"]):
        outcome = trace.run(step)
        if outcome.verdict == "passed" and "after" in step:
            outcome = _compared_after(trace, step["after"])
        if outcome.verdict != "passed":
            return failed(f"step {number} ({step['op']}): {outcome.detail}")
    return PASSED
