"""Neon's files about the older model, which nobody has to pass: reservations, requests, pressure, bookkeeping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.first_generation import (
    NodeResource,
    PodResource,
    autoscaling_disabled,
    bounds_changed,
    deleted,
    migration_started,
    requested,
    reserved,
    too_much_pressure,
)
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, compared

Json = Any


def reserve(case: Case) -> Outcome:
    if case["action"] != "reserve_new_pod":
        raise UnknownOperationError(f"action {case['action']!r}; known: reserve_new_pod")
    node, overbudget = reserved(_node(case["state"]["node"]), _pod(case["state"]["pod"]))
    return _compared(case["expected"], node, None, overbudget=overbudget)


def agent_request(case: Case) -> Outcome:
    if set(case["action"]) != {"agent_request"}:
        raise UnknownOperationError(f"action {sorted(case['action'])}; known: agent_request")
    asked = case["action"]["agent_request"]
    state = case["state"]
    node, pod = requested(
        _node(state["node"]),
        _pod(state["pod"]),
        asked["requested"],
        asked["last_permit"],
        asked["factor"],
        starting=asked["starting_migration"],
    )
    return _compared(case["expected"], node, pod)


def pressure(case: Case) -> Outcome:
    match case["list"]:
        case "too_much_pressure":
            got = too_much_pressure(_node(case["state"]["cpu"]), _node(case["state"]["mem"]))
            return compared({"expected": got}, {"expected": case["expected"]})
        case "bookkeeping":
            return _bookkeeping(case)
        case unknown:
            raise UnknownOperationError(f"list {unknown!r}")


def _bookkeeping(case: Case) -> Outcome:
    before, expected = case["state"], case["expected"]
    node, pod = _node(before["node"]), _pod(before["pod"])
    match case["action"]:
        case "start_migration":
            node, pod = migration_started(node, pod)
        case "pod_deleted":
            node = deleted(node, pod, migrating=_is_source(case["name"]))
        case "autoscaling_disabled":
            node, pod = autoscaling_disabled(node, pod)
        case "bounds_changed":
            node, pod = bounds_changed(node, pod, expected["pod"]["min"], expected["pod"]["max"])
        case "agent_request":
            wanted = pod.reserved - pod.buffer + expected["pod"]["capacity_pressure"]
            node, pod = requested(node, pod, wanted, None, 1, starting=True)
        case unknown:
            raise UnknownOperationError(f"action {unknown!r}")
    return _compared(expected, node, pod)


def _is_source(name: str) -> bool:
    """Which pod it is that was deleted stands in the name of the case."""
    return ("source" in name or "migrating" in name) and "not-" not in name


def _compared(expected: Json, node: NodeResource, pod: PodResource | None, **more: object) -> Outcome:
    """Only the fields that the case names."""
    node_value = {
        "total": node.total,
        "watermark": node.watermark,
        "reserved": node.reserved,
        "buffer": node.buffer,
        "capacity_pressure": node.pressure,
        "pressure_accounted_for": node.accounted,
    }
    actual: dict[str, Json] = {**more}
    if "node" in expected:
        actual["node"] = {key: node_value[key] for key in expected["node"]}
    if "pod" in expected and pod is not None:
        pod_value = {
            "reserved": pod.reserved,
            "buffer": pod.buffer,
            "capacity_pressure": pod.pressure,
            "min": pod.minimum,
            "max": pod.maximum,
        }
        actual["pod"] = {key: pod_value[key] for key in expected["pod"]}
    return compared(actual, expected)


def _node(wire: Mapping[str, int]) -> NodeResource:
    return NodeResource(
        wire["total"],
        wire["watermark"],
        wire["reserved"],
        wire["buffer"],
        wire["capacity_pressure"],
        wire["pressure_accounted_for"],
    )


def _pod(wire: Mapping[str, int]) -> PodResource:
    return PodResource(wire["reserved"], wire["buffer"], wire["capacity_pressure"], wire["min"], wire["max"])
