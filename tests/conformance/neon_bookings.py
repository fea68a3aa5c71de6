"""Neon's files about what is booked on a node: what pods say, grants, adding and removing, labels, transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import structs

from situate.objects.decoding.codec import decode
from situate.objects.resources import PODS
from situate.vm.api.nodes import watermark
from situate.vm.api.pods import read_pod
from situate.vm.ledger.grants.arithmetic import try_grant
from situate.vm.ledger.step import step
from situate.vm.model.actions import Approve
from situate.vm.model.events import InitialListCompleted, PodObserved, TimerFired
from situate.vm.model.node_accounting import has_changed, recount, with_observed, with_pod, without_pod
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState, PendingWrite
from tests.conformance.neon_cases import COMPAT, node, node_value, pod, pod_amounts, pod_value
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, compared, failed

Json = Any
NOTHING: Final = Amounts.zero()
_NOW: Final = 1_000_000.0


def pod_state_extraction(case: Case) -> Outcome:
    _known_action(case, "extract_pod_state")
    wire = case["state"]["pod"]
    members = ("namespace", "name", "uid", "labels", "annotations", "ownerReferences")
    metadata = {key: wire[key] for key in members if wire.get(key) is not None}
    requests = wire.get("container_requests") or ()
    containers = [{"name": f"c{n}", "resources": {"requests": each or {}}} for n, each in enumerate(requests)]
    read = read_pod(
        decode(PODS, msgspec.json.encode({"metadata": metadata, "spec": {"containers": containers}})), COMPAT
    )
    if read.value is None:
        return PASSED if _is_error(case["expected"]) else failed(f"it cannot be read: {read.errors[0]}")
    if _is_error(case["expected"]):
        return failed(f"it is read: {read.value}")
    made, machine = read.value, read.value.machine
    actual = {
        "virtual_machine": None if machine is None else {"namespace": machine.ref.namespace, "name": machine.ref.name},
        "migratable": made.migratable,
        "always_migrate": machine is not None and machine.always_migrate,
        "migrating": made.migrating,
        **pod_amounts(made),
    }
    return compared(actual, case["expected"])


def _is_error(expected: Json) -> bool:
    return expected in (None, "error") or bool(isinstance(expected, Mapping) and expected.get("error"))


def permit_reconcile(case: Case) -> Outcome:
    _known_action(case, "reconcile_pod_reserved")
    tried = pod(case["state"]["pod"])
    grant = try_grant(node(case["state"]["node"], [tried]), tried)
    actual = {"done": grant.done, "node": node_value(grant.node), "pod": pod_value(grant.pod)}
    return compared(actual, case["expected"])


def pod_reconcile(case: Case) -> Outcome:
    """The step sees the pod as the case has it. One resource is shown: the other one is as it should be."""
    _known_action(case, "reconcile_pod")
    state, wire = case["state"], case["state"]["pod"]
    rules = structs.replace(COMPAT, patch_retry_s=state.get("patch_retry_wait_ms", 1000) / 1000)
    seen = replace(
        _entry("uid", wire["reserved"]), overcommit=Amounts.from_values(wire.get("overcommit_milli", 1000), 1000)
    )
    machine = Machine(Ref("default", "vm"), autoscaled=True)
    factor, requested = Amounts.from_values(wire["factor"], 1), Amounts.from_values(wire["requested"])
    seen = replace(
        seen,
        requested=requested,
        factor=factor,
        machine=machine,
        approved=state.get("approved_annotation_present", True),
    )
    others = _entry("others", state["node_reserved_including_pod"] - seen.counted_amount(seen.reserved).cpu)
    totals = Amounts.from_values(state["node_total"])
    full = recount(Node("node", totals, totals, NOTHING, NOTHING, NOTHING, pods={"uid": seen, "others": others}))
    ago_ms = state.get("ms_since_last_vm_patch")
    ledger = LedgerState(
        nodes={"node": full},
        where={"uid": "node", "others": "node"},
        writes={}
        if ago_ms is None
        else {"uid": PendingWrite(seen.reserved, requested, factor, at=_NOW - ago_ms / 1000)},
        started=state.get("startup_done", True),
    )
    made = step(ledger, PodObserved(seen, "node"), _NOW, rules)
    after, waiter = made.state.pod("uid"), made.state.waiters.get("uid")
    retry_ms = round((waiter.next_attempt_at - _NOW) * 1000) if waiter is not None and made.state.started else None
    patched = next((each.amount.cpu for each in made.actions if isinstance(each, Approve)), None)
    grant = try_grant(full, seen)
    waits = patched is None and (grant.pod.reserved != seen.reserved or not seen.approved)
    actual = {
        "patch_vm_approved_to": patched,
        "local_reserved_after": None if after is None else after.reserved.cpu,
        "reported_as_failing": retry_ms is not None and not grant.done and not waits,
        "retry_after_ms": retry_ms,
        "requeue_after_startup": not made.state.started and _looked_at(made.state, rules),
    }
    return compared(actual, case["expected"])


def _looked_at(ledger: LedgerState, rules: Rules) -> bool:
    """Whether the pod is served as soon as everything has been taken in."""
    made = step(ledger, InitialListCompleted(), _NOW, rules)
    made = step(made.state, TimerFired(), _NOW, rules) if made.wake_at is not None and made.wake_at <= _NOW else made
    pod = made.state.pod("uid")
    return pod is not None and (pod.approved or "uid" in made.state.writes)


def _entry(uid: str, reserved: int) -> Pod:
    amount = Amounts.from_values(reserved)
    return Pod(Ref("default", uid, uid), amount, amount, NOTHING, NOTHING, Amounts.from_values(1000, 1000))


def node_label_updates(case: Case) -> Outcome:
    _only(case["action"], {"update_node"})
    before, seen = _plain_node(case["state"]), _plain_node({**case["state"], **case["action"]["update_node"]})
    return compared(
        {"changed": has_changed(before, seen), "labels": dict(with_observed(before, seen).labels)}, case["expected"]
    )


def node_operations(case: Case) -> Outcome:
    wire = case["initial"]
    totals = Amounts.from_values(wire["cpu_milli"], wire["mem_bytes"])
    start = Node("node", totals, watermark(totals, wire["watermark_fraction"]), NOTHING, NOTHING, NOTHING)
    return _played(start, case["steps"], "step")[1]


def _played(of: Node, steps: Sequence[Mapping[str, Json]], path: str) -> tuple[Node, Outcome]:
    """The node after the steps; a what-if is the same on a node that is dropped or kept."""
    for number, each in enumerate(steps):
        where, outcome = f"{path} {number}", PASSED
        match each["op"]:
            case "add_pod":
                of = with_pod(of, pod(each["pod"]))
            case "remove_pod":
                of = without_pod(of, each["uid"])
            case "expect_node":
                outcome = compared(node_value(of), each["expect"])
            case "expect_pods":
                outcome = compared(_presence(of, each), _wanted_presence(each))
            case "speculatively":
                tried, outcome = _played(of, each["do"], f"{where}: step")
                of = tried if each["commit"] else of
            case unknown:
                raise UnknownOperationError(f"op {unknown!r}")
        if outcome.verdict != "passed":
            return of, failed(f"{where}: {outcome.detail}")
        if of != recount(of):
            return of, failed(f"{where}: the sums are not those of the pods")
    return of, PASSED


def _presence(of: Node, step: Mapping[str, Json]) -> dict[str, bool]:
    asked = step.get("expect", step)
    return {uid: uid in of.pods for uid in (*asked.get("present", ()), *asked.get("absent", ()))}


def _wanted_presence(step: Mapping[str, Json]) -> dict[str, bool]:
    asked = step.get("expect", step)
    return dict.fromkeys(asked.get("present", ()), True) | dict.fromkeys(asked.get("absent", ()), False)


def transactional_map(case: Case) -> Outcome:
    """A map is that of a node's pods, the value a pod's name; a transaction is what is changed on one, kept or not.

    What its parent becomes meanwhile shows through (C10).
    """
    changes: dict[str, dict[str, str | None]] = {}
    parents: dict[str, str] = {}

    def node_of(name: str) -> Node:
        of = node_of(parents[name]) if name in parents else Node("node", *(NOTHING,) * 5)
        for uid, value in changes.setdefault(name, {}).items():
            of = without_pod(of, uid) if value is None else with_pod(of, _named(uid, value))
        return of

    for number, (op, name, *rest) in enumerate(case["steps"]):
        of = node_of(name)
        match op:
            case "set":
                changes[name][rest[0]] = rest[1]
            case "delete":
                changes[name][rest[0]] = None
            case "begin":
                changes[rest[0]], parents[rest[0]] = {}, name
            case "commit":
                changes[parents[name]].update(changes[name])
                changes[name] = {}
            case "get":
                found = of.pods[rest[0]].ref.name if rest[0] in of.pods else None
                if found != rest[1]:
                    return failed(f"step {number}: {name}[{rest[0]}] is {found!r}, expected {rest[1]!r}")
            case "entries":
                entries = {uid: each.ref.name for uid, each in of.pods.items()}
                if entries != rest[0]:
                    return failed(f"step {number}: {name} is {entries}, expected {rest[0]}")
            case unknown:
                raise UnknownOperationError(f"op {unknown!r}")
    return PASSED


def _named(uid: str, name: str) -> Pod:
    return Pod(Ref("default", name, uid), NOTHING, NOTHING, NOTHING, NOTHING, Amounts.from_values(1000, 1000))


def _plain_node(wire: Mapping[str, Json]) -> Node:
    totals = Amounts.from_values(wire["cpu_milli"], wire["mem_bytes"])
    return Node("node", totals, watermark(totals, 0.8), NOTHING, NOTHING, NOTHING, labels=wire.get("labels") or {})


def _known_action(case: Case, action: str) -> None:
    if case["action"] != action:
        raise UnknownOperationError(f"action {case['action']!r}; known: {action}")


def _only(wire: Mapping[str, Json], known: set[str]) -> None:
    if unknown := wire.keys() - known:
        raise UnknownOperationError(f"{sorted(unknown)}; known: {', '.join(sorted(known))}")
