"""Reading kube-scheduler's cases: objects, and what is expected of the current release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, TopologySpreadConstraint
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.settings.section import parse_section
from situate.objects.values.quantity import decode_quantity
from tests.conformance.outcome import PASSED, Case, CaseRunner, Outcome, UnknownOperationError, failed
from tests.plugins.twins.world import World

T = TypeVar("T")
Json = Any

_LONG_AGO = "2026-01-01T00:00:00Z"
_GONE_GATES = {"DefaultPodTopologySpread", "LocalStorageCapacityIsolation", "PodOverhead"}
"""Features that can no longer be switched off: `modern` says what holds instead."""
_WITHOUT: Mapping[str, Callable[[TopologySpreadConstraint], TopologySpreadConstraint]] = {
    "MatchLabelKeysInPodTopologySpread": lambda each: msgspec.structs.replace(each, match_label_keys=()),
    "MinDomainsInPodTopologySpread": lambda each: msgspec.structs.replace(each, min_domains=None),
    "NodeInclusionPolicyInPodTopologySpread": lambda each: msgspec.structs.replace(
        each, node_affinity_policy="Honor", node_taints_policy="Ignore"
    ),
}
"""What a cluster reads of a constraint where the feature is off."""
_OWNERS = ("ReplicationController", "ReplicaSet", "StatefulSet")


class RefusedArguments(Exception):
    """As it should be where a case expects an `error`."""


def argued(runner: CaseRunner, known: frozenset[str]) -> CaseRunner:
    """Hold a refusal of the plugin's arguments against what the case expects of them; `known`: what it may expect."""

    def run(case: Case) -> Outcome:
        if unknown := case["expected"].keys() - known - {"error"}:
            allowed = ", ".join(sorted({*known, "error"}))
            raise UnknownOperationError(f"expectation {', '.join(sorted(unknown))}; known: {allowed}")
        try:
            outcome = runner(case)
        except RefusedArguments as refusal:
            return PASSED if case["expected"].get("error") else failed(f"the arguments were refused: {refusal}")
        return failed("the arguments were taken") if case["expected"].get("error") else outcome

    return run


def node(wire: Mapping[str, Json]) -> Node:
    return msgspec.convert(wire, Node, dec_hook=decode_quantity)


def pod(wire: Mapping[str, Json], **changed: Json) -> Pod:
    """`changed`: fields of its spec."""
    metadata = dict(wire.get("metadata") or {})
    if metadata.get("deletionTimestamp") == "SET":
        metadata["deletionTimestamp"] = _LONG_AGO
    spec = {**(wire.get("spec") or {}), **changed}
    return msgspec.convert({**wire, "metadata": metadata, "spec": spec}, Pod, dec_hook=decode_quantity)


def incoming(case: Case) -> Pod:
    """The pod to place; a node's name on it is left over from the source."""
    return without_gates(pod(case["pod"], nodeName=""), case)


def without_gates(read: Pod, case: Case) -> Pod:
    """As a cluster with these feature gates reads it."""
    for gate, on in {**(case.get("features") or {}), **(case.get("feature_gates") or {})}.items():
        if on or gate in _GONE_GATES:
            continue
        if gate not in _WITHOUT:
            raise UnknownOperationError(f"feature gate {gate!r}")
        plain = tuple(map(_WITHOUT[gate], read.spec.topology_spread_constraints))
        read = msgspec.structs.replace(read, spec=msgspec.structs.replace(read.spec, topology_spread_constraints=plain))
    return read


def world(case: Case) -> World:
    """Nodes that passed Filter come first, then those that did not."""
    nodes = (*(case.get("nodes") or ()), *(case.get("failed_nodes") or ()))
    services: dict[str, tuple[Mapping[str, str], ...]] = {}
    owners: dict[tuple[str, str, str], LabelSelector] = {}
    namespaces: dict[str, Mapping[str, str]] = {}
    for each in case.get("objects") or ():
        metadata, selector = each.get("metadata") or {}, (each.get("spec") or {}).get("selector")
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        match each["kind"]:
            case "Namespace":
                namespaces[name] = metadata.get("labels") or {}
            case "Service" if selector is not None:
                services[namespace] = (*services.get(namespace, ()), selector)
            case kind if kind in _OWNERS and selector is not None:
                wire = {"matchLabels": selector} if kind == "ReplicationController" else selector
                owners[kind, namespace, name] = msgspec.convert(wire, LabelSelector)
            case kind if kind not in (*_OWNERS, "Service"):
                raise UnknownOperationError(f"object of kind {kind!r}")
    return World(
        tuple(map(node, nodes)), tuple(map(pod, case.get("pods") or ())), namespaces, services=services, owners=owners
    )


def feasible(case: Case) -> range:
    return range(len(case.get("nodes") or ()))


def arguments(wire: Mapping[str, Json], kind: type[T]) -> T:
    """`RefusedArguments` with the mistakes."""
    read, mistakes = parse_section(dict(wire), kind)
    if read is None:
        raise RefusedArguments("; ".join(map(str, mistakes)))
    return read


def codes_expected(case: Case) -> dict[str, str]:
    """By node, of the current release."""
    expected, modern = case["expected"], case.get("modern") or {}
    codes = dict(expected["codes"]) if "codes" in expected else {}
    codes |= {name: status["code"] for name, status in (expected.get("status") or {}).items()}
    if modern.get("same", True):
        return codes
    if "codes" in modern:
        return dict(modern["codes"])
    changed = codes if not modern.get("feasible_same", True) else {n for n, code in codes.items() if code != "Success"}
    return {name: modern["code"] if name in changed else code for name, code in codes.items()}


def scores_expected(case: Case) -> dict[str, int]:
    """By node, of the current release."""
    modern = case.get("modern") or {}
    scores = case["expected"]["scores"] if modern.get("same", True) else modern["scores"]
    return dict(scores)
