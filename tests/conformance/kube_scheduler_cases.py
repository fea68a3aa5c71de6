"""Reading kube-scheduler's cases: objects, and what is expected of the current release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.quantity import decode_quantity
from situate.objects.settings import parse_section
from tests.conformance.outcome import Case, UnknownOperationError
from tests.plugins.twins.world import World

T = TypeVar("T")
Json = Any

_LONG_AGO = "2026-01-01T00:00:00Z"
_GONE_GATES = {"LocalStorageCapacityIsolation"}
"""Features that can no longer be switched off: `modern` says what holds instead."""


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
        if gate != "MatchLabelKeysInPodTopologySpread":
            raise UnknownOperationError(f"feature gate {gate!r}")
        plain = tuple(
            msgspec.structs.replace(each, match_label_keys=()) for each in read.spec.topology_spread_constraints
        )
        read = msgspec.structs.replace(read, spec=msgspec.structs.replace(read.spec, topology_spread_constraints=plain))
    return read


def world(case: Case) -> World:
    """Nodes that passed Filter come first, then those that did not."""
    nodes = (*(case.get("nodes") or ()), *(case.get("failed_nodes") or ()))
    services: dict[str, tuple[Mapping[str, str], ...]] = {}
    for each in case.get("objects") or ():
        if each["kind"] != "Service":
            raise UnknownOperationError(f"object of kind {each['kind']!r}")
        namespace = (each.get("metadata") or {}).get("namespace", "")
        selector = (each.get("spec") or {}).get("selector")
        if selector is not None:
            services[namespace] = (*services.get(namespace, ()), selector)
    return World(tuple(map(node, nodes)), tuple(map(pod, case.get("pods") or ())), services=services)


def feasible(case: Case) -> range:
    return range(len(case.get("nodes") or ()))


def arguments(wire: Mapping[str, Json], kind: type[T]) -> T | None:
    """None if they are refused."""
    read, _ = parse_section(dict(wire), kind)
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
