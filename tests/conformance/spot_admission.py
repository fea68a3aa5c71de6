"""Admission, targets and the ledger of spot's vectors, put to `admit`, `resolved` and `Ledger`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from situate.spot.admission.admit import AdmissionSettings, AdmissionView, NeedsRead, PodRequest, admit
from situate.spot.admission.ledger import Ledger, ReleaseEntry, Reservation, Slot, missing_on_demand
from situate.spot.admission.patch import PlacementTerms
from situate.spot.model.counts import counted_pods, effective_on_demand_count
from situate.spot.model.pods_nodes_workloads import MIX, ON_DEMAND, Capacity, Owner, PodFacts, PodKey
from situate.spot.nodes.known_signals import SIGNALS, on_demand_requirement, spot_requirement
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.on_demand_policy import BadPolicy, parse_policy
from situate.spot.workloads.on_demand_policy import on_demand_target as number_of
from situate.spot.workloads.on_demand_target import TargetRules
from situate.spot.workloads.owners import Controller, ReplicaSetFacts
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, UnknownPhraseError, compared, failed
from tests.conformance.spot_cases import NAMESPACE, NOW, UID, nodes, owner, pods, policy_text

Json = Any
OWN_NAMESPACE = "situate"
_SET_UID = "uid-of-the-replica-set"
_OPTED_OUT = re.compile(r"@.*(opt.?(ed.?)?out|disable|exclude|ignore|unmanaged|skip).*", re.IGNORECASE)
"""Annotations of a pod that stand for the product's own way to say that it is left alone."""
SETTINGS = AdmissionSettings(
    PlacementTerms(on_demand_requirement(SIGNALS), spot_requirement(SIGNALS)),
    TargetRules(),
    own_namespace=OWN_NAMESPACE,
)


def targets(case: Case) -> Outcome:
    text = policy_text(case.get("policy") or {})
    try:
        policy = parse_policy(text if text is not None else "default")
    except BadPolicy:
        return compared({"invalid": True}, case["expect"])
    replicas = case.get("replicas", 1)
    number = number_of(policy, replicas, stateful=case.get("kind") == "StatefulSet")
    return compared({"on_demand": number, "spot": replicas - number}, case["expect"])


def admission(case: Case) -> Outcome:
    of = owner(case)
    text = policy_text(case.get("policy") or {})
    annotations = {"spot.situate.dev/mix": "disabled"} if text is None else {ON_DEMAND: text}
    of = replace(of, annotations=annotations)
    request = case.get("request") or {}
    ledger, held = _ledger(case, of, request.get("rev", of.revision))
    answered = admit(
        _request(case, of), AdmissionView(_cluster(case, of), SETTINGS, {}), ledger, NOW, token="a-new-token"
    )
    if isinstance(answered, NeedsRead):
        return failed("it asks for a live read")
    answer, after = answered
    actual: dict[str, Json] = {"class": str(answer.pod_class or "unmanaged")}
    expected = case["expect"]
    expected = dict(expected) if isinstance(expected, Mapping) else {"class": expected}
    if "expect_ledger_delta" in case:
        slot = Slot(of.uid, request.get("rev", of.revision))
        actual["delta"] = len(after.unmatched_reservations(slot, (), NOW)) - held
        expected["delta"] = case["expect_ledger_delta"]
    return compared(actual, expected)


def _ledger(case: Case, of: Owner, revision: str) -> tuple[Ledger, int]:
    ledger = Ledger.empty((case.get("params") or {}).get("reservation_ttl_s", 30))
    slot = Slot(of.uid, revision)
    for wire in case.get("reservations") or ():
        # a token is a name where the pod has one; generated ones are nobody's name
        decided_at = NOW - (wire.get("age_s") or 0)
        entry = Reservation(wire["token"], Capacity(wire.get("class", "on-demand")), decided_at, wire["token"])
        ledger = ledger.with_reservation(Slot(of.uid, wire.get("rev", revision)), entry)
    return ledger, len(ledger.unmatched_reservations(slot, (), NOW))


def _request(case: Case, of: Owner) -> PodRequest:
    request = case.get("request") or {}
    told = request.get("annotations") or {}
    annotations = {key: value for key, value in told.items() if not _OPTED_OUT.fullmatch(key)}
    labels = {"pod-template-hash": request.get("rev", "")}
    if len(annotations) < len(told):
        labels[MIX] = "disabled"
    if spoken := [key for key in annotations if key.startswith("@")]:
        raise UnknownPhraseError(f"annotation {spoken[0]}")
    controller = {
        "Deployment": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{of.name}-hash", "uid": _SET_UID},
        "ReplicaSet": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of.name, "uid": of.uid},
        "StatefulSet": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": of.name, "uid": of.uid},
        "DaemonSet": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": of.name, "uid": of.uid},
        "Job": {"apiVersion": "batch/v1", "kind": "Job", "name": of.name, "uid": of.uid},
        "Node": {"apiVersion": "v1", "kind": "Node", "name": of.name, "uid": of.uid},
        "": None,
    }
    if of.kind not in controller:
        raise UnknownOperationError(f"workload of kind {of.kind!r}")
    reference = controller[of.kind]
    metadata: dict[str, Json] = {"annotations": annotations, "labels": labels}
    if reference is not None:
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    if request.get("name"):
        metadata["name"] = request["name"]
    namespace = request.get("namespace", NAMESPACE.name)
    spec: dict[str, Json] = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
    if request.get("node_name"):
        spec["nodeName"] = request["node_name"]
    return PodRequest(
        OWN_NAMESPACE if namespace == "@self" else namespace,
        {"metadata": metadata, "spec": spec},
        bool(request.get("dry_run")),
    )


def _cluster(case: Case, of: Owner) -> Cluster:
    """The ReplicaSet wants any number of pods, so that the slot rule has nothing to say, as the vectors have none."""
    between = {
        _SET_UID: ReplicaSetFacts(
            _SET_UID, Controller("apps/v1", "Deployment", of.name, of.uid), of.namespace, "web-hash", replicas=10**6
        ),
        of.uid: ReplicaSetFacts(of.uid, None, of.namespace, of.name),
    }
    return Cluster(
        owners={of.uid: of},
        replica_sets=between if of.kind in ("Deployment", "ReplicaSet") else {},
        pods={of.uid: pods(case.get("pods") or (), of)},
        nodes=nodes(),
        namespaces={NAMESPACE.name: NAMESPACE},
    )


class LedgerSteps:
    """One workload's ledger and the pods that are seen, on a clock that only `wait` moves."""

    def __init__(self, before: Mapping[str, Json], op: Mapping[str, Json]) -> None:
        self.now = NOW
        self.target = before.get("target", 0)
        self.slot = Slot(UID, "")
        self.ledger = Ledger.empty(op.get("reservation_ttl_s", 30), op.get("release_ttl_s", 15))
        self.pods = _seen(before, op)
        for wire in before.get("reservations") or ():
            self._reserve(wire["id"], wire["id"], age_s=wire.get("age_s", 0))
        releases = before.get("releases") or ()
        released = tuple(ReleaseEntry(wire["id"], self.now - wire.get("age_s", 0)) for wire in releases)
        self.ledger = replace(self.ledger, releases={self.slot: released} if released else {})
        self.granted = 0
        self.last_token = ""
        self.last_name = ""
        self.answers: list[Capacity] = []

    def admit(self, name: str | None, *, dry_run: bool = False) -> Capacity:
        known = self.ledger.find_reservation(self.slot, name or "", "", self.now)
        if known is not None:
            answer = known.pod_class
        else:
            lacking = missing_on_demand(self.ledger, self.slot, self.target, self.pods, nodes(), self.now)
            answer = Capacity.ON_DEMAND if lacking else Capacity.SPOT
        self.answers.append(answer)
        self.last_name = name or ""
        if not dry_run and answer is Capacity.ON_DEMAND:
            self.granted += 1
            self.last_token = name or f"generated-{len(self.answers)}"
            self._reserve(self.last_token, name or "")
        return answer

    def reinvoke(self) -> None:
        """The object carries the token of the last answer."""
        if self.ledger.find_reservation(self.slot, "", self.last_token, self.now) is None:
            self._reserve(self.last_token, "")

    def delete(self, name: str) -> None:
        if name == "foreign":
            return  # a pod of another owner has another slot
        pod = next((each for each in self.pods if each.key.name == name), None)
        known = pod if pod is not None else _pod(name)
        self.ledger = self.ledger.with_release(self.slot, known, nodes(), self.now)

    def observe(self, name: str) -> None:
        self.pods = [*self.pods, _pod(name)]

    def reconcile(self) -> None:
        self.ledger = self.ledger.without_settled_entries(self.slot, self.pods, self.now)

    def _reserve(self, token: str, name: str, age_s: float = 0) -> None:
        entry = Reservation(token, Capacity.ON_DEMAND, self.now - age_s, name)
        self.ledger = self.ledger.with_reservation(self.slot, entry)

    def state(self) -> dict[str, Json]:
        return {
            "target": self.target,
            "observed_active": effective_on_demand_count(counted_pods(self.pods), nodes()),
            "missing": missing_on_demand(self.ledger, self.slot, self.target, self.pods, nodes(), self.now),
            "reservations": [
                {"id": entry.token, "age_s": self.now - entry.decided_at}
                for entry in self.ledger.unmatched_reservations(self.slot, (), self.now)
            ],
            "releases": [
                {"id": entry.name, "age_s": self.now - entry.released_at}
                for entry in self.ledger.releases.get(self.slot, ())
            ],
            "granted_on_demand": self.granted,
        }


def ledger(case: Case) -> Outcome:
    op, before, after = case["op"], case.get("before") or {}, dict(case.get("after") or {})
    steps = LedgerSteps(before, op)
    expected_class = case.get("expect_class")
    dry_run = bool(op.get("dry_run"))
    if "admit" in op:
        steps.admit(op["admit"], dry_run=dry_run)
    elif "delete" in op or "evict" in op:
        if not dry_run:
            steps.delete(op.get("delete", op.get("evict")))
    elif "reconcile" in op:
        steps.reconcile()
    elif "sequence" in op:
        for phrase in op["sequence"]:
            _phrase(steps, phrase)
    elif "concurrent_admits" in op:
        for _ in range(op["concurrent_admits"]):
            steps.admit(None)
    else:
        raise UnknownOperationError(f"op {sorted(op)}")
    if expected_class is not None and (not steps.answers or steps.answers[-1] != expected_class):
        return failed(f"class: expected {expected_class!r}, got {steps.answers[-1:]!r}")
    return _compared_ledger(steps, after, compare_ages="admit" not in op)


def _compared_ledger(steps: LedgerSteps, after: dict[str, Json], *, compare_ages: bool) -> Outcome:
    state = steps.state()

    def ages(entries: list[Json]) -> list[Json]:
        return entries if compare_ages else [{**each, "age_s": 0} for each in entries]

    for kind in ("reservations", "releases"):
        if kind in after:
            after[kind] = ages([{**each, "id": _identity(each["id"], steps)} for each in after[kind]])
            state[kind] = ages(state[kind])
    return compared(state, after)


def _identity(text: str, steps: LedgerSteps) -> str:
    """Generated tokens are any that are not empty."""
    return steps.last_token if text in ("<same token>", "<generated>") and steps.last_token else text


def _phrase(steps: LedgerSteps, phrase: str) -> None:
    for text in (phrase, re.sub(r"\s*\((?!dry-run)[^)]*\)", "", phrase)):  # a remark in parentheses is for people
        if _known_phrase(steps, text.strip()):
            return
    raise UnknownPhraseError(phrase)


def _known_phrase(steps: LedgerSteps, phrase: str) -> bool:
    if match := re.fullmatch(
        r"(dry-run )?admit(?: (?:a )?(?:nameless|unnamed|generateName)(?: pod)?| (?!\(|again\b|dry-run\b)(\S+))?"
        r"(?: again)?( \(?dry-run\)?)?",
        phrase,
    ):
        steps.admit(match[2], dry_run=bool(match[1] or match[3]))
    elif match := re.fullmatch(r"(?:retry|re-?admit)(?: (?:of )?(\S+))?(?: .*)?", phrase):
        steps.admit(match[1] or steps.last_name or None)
    elif match := re.fullmatch(r"(?:wait )?(\d+) ?s(?:econds)?(?: (?:pass|later))?", phrase):
        steps.now += int(match[1])
    elif match := re.fullmatch(r"(?:delete|evict) (\S+)( \(?dry-run\)?)?|(\S+) (?:is )?(?:deleted|evicted)", phrase):
        if not match[2]:
            steps.delete(match[1] or match[3])
    elif match := re.fullmatch(
        r"(?:observe|see) (?:pod )?(\S+)|(?:pod )?(\S+) (?:is )?(?:observed|seen|appears)(?: as a pod)?", phrase
    ):
        steps.observe(match[1] or match[2])
    elif re.fullmatch(r"reconciles?(?: again)?", phrase):
        steps.reconcile()
    elif re.fullmatch(
        r"(?:the )?(?:resource)?quota (?:rejects|refuses)(?: \S+)?|rejected by (?:the )?(?:resource)?quota"
        r"|(?:(?:a|another) )?validating webhook (?:rejects|refuses)(?: \S+)?",
        phrase,
        re.IGNORECASE,
    ):
        pass  # the pod never comes
    elif re.fullmatch(r"reinvoke(?: \S+)?(?: with our own mark)?|reinvocation(?: .*)?", phrase):
        steps.reinvoke()
    else:
        return False
    return True


def _seen(before: Mapping[str, Json], op: Mapping[str, Json]) -> list[PodFacts]:
    """The on-demand pods that are seen: those named, or as many as are said to be active."""
    inactive = set(before.get("inactive") or ())
    if "observed" in before:
        return [_pod(name, active=name not in inactive) for name in before["observed"] or ()]
    active = before.get("observed_active") or 0
    named = [op[key] for key in ("delete", "evict") if _counts(op.get(key))]
    named += [each["id"] for each in before.get("releases") or ()]
    reserved = {each["id"] for each in before.get("reservations") or ()}
    names = [name for name in dict.fromkeys(named) if name not in reserved][:active]
    others = (f"seen-{number}" for number in range(active))
    return [_pod(name) for name in [*names, *others][:active]]


def _counts(name: object) -> bool:
    return isinstance(name, str) and name.startswith("test-pod-")


def _pod(name: str, *, active: bool = True) -> PodFacts:
    capacity = Capacity.ON_DEMAND if name.startswith(("test-pod-", "seen-", "t")) else Capacity.SPOT
    return PodFacts(PodKey("shop", name), name, pod_class=capacity, terminating=not active)
