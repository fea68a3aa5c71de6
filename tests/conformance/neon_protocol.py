"""Neon's file about the permit protocol: requests that are refused, the machine's patch, and when what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from situate.objects.kinds.meta import ObjectMeta
from situate.vm.api.parse_errors import Part, Place
from situate.vm.api.quantities import amounts_text, amounts_value, parse_amounts
from situate.vm.api.well_known import APPROVED, REQUESTED, SCALING_UNIT
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.config.settings import PORT
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.protocol.permit_request import (
    MAX_BODY,
    VERSIONS,
    HttpAnswer,
    ObservedPod,
    annotation_path,
    patch_failure_answer,
    permit_refusal,
    read_request,
    request_annotations,
    request_patch,
)
from situate.vm.protocol.permit_response import WAIT_S, answer_from_annotations
from tests.conformance.neon_cases import COMPAT
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, compared, failed

Json = Any
_POD: Final = {"node": "node-1", "owner_vm": "vm-a", "annotations": {}}
_UNIT: Final = {"vCPUs": "250m", "mem": "1Gi"}
_NO_INCREASE: Final = {
    "protoVersion": 7,
    "pod": {"name": "vm-a-xyz", "namespace": "default"},
    "computeUnit": _UNIT,
    "resources": _UNIT,
    "lastPermit": _UNIT,
}
"""Answered at once, if all of it is read."""
_GUEST: Final = {
    "cpus": {"min": "250m", "use": "250m", "max": 8},
    "memorySlots": {"min": 1, "use": 1, "max": 32},
    "memorySlotSize": "1Gi",
}
"""What every runner pod says, and only cases about something else leave out."""
_AMOUNTS: Final = {SCALING_UNIT, REQUESTED, APPROVED}
_EXPECTED: Final = {"status", "body", "vm_patch", "waits", "answered_after_ms", "permit", "migrate"}


def cases(document: Json) -> list[Case]:
    constants = ("port", "path", "wait_timeout_ms", "max_body_bytes", "proto_versions")
    there = {key: document[key] for key in constants if key in document}
    first: Case = {"name": "constants", "constants": there}
    return [first, *(document.get("cases") or ())]


def permit_protocol(case: Case) -> Outcome:
    if "constants" in case:
        constants = {
            "port": PORT,
            "path": "any",
            "wait_timeout_ms": round(WAIT_S * 1000),
            "max_body_bytes": MAX_BODY,
            "proto_versions": {str(number): name for number, name in VERSIONS.items()},
        }
        return compared(constants, case["constants"])
    if unknown := case["expected"].keys() - _EXPECTED:
        raise UnknownOperationError(f"expected {sorted(unknown)}")
    actual = _exchanged(case)
    body: str = case["expected"].get("body") or ""
    if body not in actual["body"]:
        return failed(f"body: expected {body!r} in it, got {actual['body']!r}")
    return compared(actual, {key: value for key, value in case["expected"].items() if key != "body"})


def _exchanged(case: Case) -> dict[str, Json]:
    """The exchange as the server leads it, on the clock of the case."""
    wire, state = case["request"], case.get("state") or {}
    request = read_request(wire.get("method", "POST"), _body(wire))
    if isinstance(request, HttpAnswer):
        return _seen(request, None, 0)
    first = _shown(state.get("pod", _POD))
    denied = permit_refusal(request, first)
    if denied is not None or first is None:
        return _seen(denied or patch_failure_answer(request, "no pod"), None, 0)
    said = request_annotations(request, first, COMPAT)
    written = None if said is None else _operations(request_patch(said, ObjectMeta(), COMPAT).body)
    if written is not None and state.get("patch_error"):
        return _seen(patch_failure_answer(request, "the API refuses it"), written, 0)
    shown: ObservedPod | None = first
    for at_ms, pod in _moments(case):
        shown = shown if pod is ... else _shown(pod)
        answer = answer_from_annotations(request, shown, at_ms / 1000, changed=shown is not first)
        if answer is not None:
            return _seen(answer, written, at_ms)
    raise AssertionError("nothing was answered at the end of the wait")


def _moments(case: Case) -> Iterator[tuple[int, Json]]:
    """When the server looks, and what the pod looks like from then on; `...` is as before."""
    yield 0, ...
    for update in sorted(case.get("pod_updates") or (), key=lambda update: update["after_ms"]):
        if update["after_ms"] >= WAIT_S * 1000:
            break
        annotations = update.get("annotations")
        yield update["after_ms"], None if update.get("deleted") else {**_POD, **update, "annotations": annotations}
    yield round(WAIT_S * 1000), ...


def _seen(answer: HttpAnswer, written: Json, at_ms: int) -> dict[str, Json]:
    body = answer.body(COMPAT).decode()
    value = json.loads(body) if answer.permit is not None else {}
    return {
        "status": answer.status,
        "body": body,
        "vm_patch": written,
        "waits": at_ms > 0,
        "answered_after_ms": at_ms,
        "permit": value.get("permit"),
        "migrate": value.get("migrate"),
    }


def _body(wire: Mapping[str, Json]) -> bytes:
    if "raw" in wire:
        return str(wire["raw"]).encode()
    if "single_json_object_of_bytes" in wire:
        frame = len(json.dumps({**_NO_INCREASE, "padding": ""}))
        padding = "x" * (wire["single_json_object_of_bytes"] - frame)
        return json.dumps({**_NO_INCREASE, "padding": padding}).encode()
    return json.dumps({key: value for key, value in wire.items() if key != "method"}).encode()


def _shown(pod: Json) -> ObservedPod | None:
    if pod is None:
        return None
    machine = Ref("default", pod["owner_vm"]) if pod.get("owner_vm") else None
    annotations = {GUEST: _GUEST} | (pod.get("annotations") or {})
    shown = {key: _text(key, value) for key, value in annotations.items() if value is not None}
    return ObservedPod(pod.get("node") or "", machine, shown)


def _text(key: str, value: Json) -> str:
    """As the pod carries what the case shows decoded."""
    if isinstance(value, str):
        return value
    return amounts_text(parse_amounts(Part(Place("case", ""), value))) if key in _AMOUNTS else json.dumps(value)


def _operations(body: Json) -> list[list[Json]]:
    """With values decoded, and annotations by their names."""
    root = annotation_path("")
    found = []
    for operation in body:
        name = operation["path"].removeprefix(root).replace("~1", "/").replace("~0", "~")
        amounts = parse_amounts(Part.parse_json(operation["value"], Place("patch", name)))
        found.append([operation["op"], name, amounts_value(amounts)])
    return found
