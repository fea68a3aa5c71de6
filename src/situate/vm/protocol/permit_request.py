"""Permit protocol v5.0 without I/O: read and refuse requests, choose the annotations to write, encode answers.

The server moves bytes. It reads a request, checks whether it is refused, and writes the resulting annotations to the
VM. Then it asks for the answer at each change and at the end of the wait. With `compat` the Pod's annotations hold the
answer, else the ledger does: both are in `situate.vm.protocol.permit_response`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from situate.kube.patches import JsonPatch
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.values.timestamps import rfc3339
from situate.vm.api.parse_errors import ParseFailure, Part, Place, replace_lone_surrogates
from situate.vm.api.patches import annotate
from situate.vm.api.quantities import amounts_text, amounts_value, json_text, parse_amounts, parse_unit
from situate.vm.api.well_known import APPROVED, REQUESTED, SCALING_UNIT
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import PermitDecision as Told

MAX_BODY: Final = 1024
"""Bytes of a request that are read."""
VERSION: Final = 7
VERSIONS: Final[Mapping[int, str]] = {1: "v1.0", 2: "v1.1", 3: "v2.0", 4: "v2.1", 5: "v3.0", 6: "v4.0", 7: "v5.0"}
"""All protocol versions. Only the last is accepted."""
_MAX_LOAD: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A request of an agent, valid as far as the request alone shows."""

    pod: Ref
    unit: Amounts
    resources: Amounts
    last_permit: Amounts | None
    """None at first contact."""
    load1: float | None = None
    lowers_at_once: bool = False
    """The agent lowers its own permit when it sends a decrease (D24)."""
    sequence: int | None = None
    """Number of the request (F5); None if the agent does not number its requests or names no run."""
    run: str = ""
    """Run of the agent for this Pod. Numbers rise within a run; those of different runs are not comparable."""

    @property
    def increases(self) -> bool:
        """Whether the request exceeds the agent's permit, or the permit is unknown."""
        return self.last_permit is None or self.resources.exceeds(self.last_permit)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """State of the Pod, as watched."""

    node: str
    """Empty while the Pod is not bound."""
    machine: Ref | None
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    permit: Amounts | None = None
    """None: an error."""
    text: str = ""
    """Text of the error."""
    decision: Told | None = None
    """The ledger's extra fields (B28), which v5.0 agents ignore. None with `compat`."""

    @property
    def content_type(self) -> str:
        return "text/plain; charset=utf-8" if self.permit is None else "application/json"

    def body(self, rules: Rules) -> bytes:
        """Encode `{"permit":{..}}`, with `migrate` while the VM is being migrated."""
        if self.permit is None:
            return self.text.encode()
        value: dict[str, Any] = {"permit": amounts_value(self.permit, rules.resources)}
        if self.decision is not None:
            value |= _extra_fields(self.decision)
        return json_text(value).encode()


def read_request(method: str, body: bytes) -> PermitRequest | HttpAnswer:
    """Parse the request, or refuse it if it is wrong by itself: method, JSON, version, unit, in this order (C14).

    Only the first KiB of the body is read, and of that the first JSON value.
    """
    if method != "POST":
        return HttpAnswer(400, text=f"must be POST: method {method[:20]!r} is not supported")
    try:
        part = Part(Place("request", ""), decode_first_value(body[:MAX_BODY]))
        part.mapping()
        version = part["protoVersion"].integer() if part["protoVersion"].is_present else 0
        if version != VERSION:  # other versions may have other fields, so do not report those
            known = VERSIONS.get(version, f"version {version}")
            wrong = "protocol version mismatch" if version else "invalid protocol version"
            return HttpAnswer(
                400, text=f"{wrong}: protocol {known} is not supported, send protoVersion {VERSION} (v5.0)"
            )
        wrong_unit = _unit_error(part["computeUnit"])
        if wrong_unit:
            return HttpAnswer(400, text=f"computeUnit fields must be non-zero quantities: {wrong_unit}")
        read = _parse_request(part)
    except NoJson as problem:
        return HttpAnswer(400, text=f"bad JSON: the body is not JSON of at most {MAX_BODY} bytes: {problem}")
    except ParseFailure as problem:
        return HttpAnswer(400, text=f"bad JSON: {problem.error}")
    return read


def permit_refusal(request: PermitRequest, shown: ObservedPod | None) -> HttpAnswer | None:
    """Refuse a request if its Pod is unknown, not bound, or no runner Pod (C15). None: the request is valid.

    The error texts begin as upstream's do, so that searches in logs find them.
    """
    if shown is None:
        return unknown_pod_answer(request)
    if not shown.node:
        return HttpAnswer(
            404, text=f"pod's node is unknown: {request.pod} is not bound yet; ask again after it is bound"
        )
    if shown.machine is None:
        return HttpAnswer(
            400, text=f"pod is not associated with a VM: {request.pod} is not a runner Pod of a VirtualMachine"
        )
    return None


def request_annotations(request: PermitRequest, shown: ObservedPod, rules: Rules) -> dict[str, str] | None:
    """Return the annotations to write to the VM, in order; None if the Pod already shows all of them (C15).

    With `compat` the agent's last permit becomes the approved amount, without a check (D8).
    """
    said = {
        SCALING_UNIT: amounts_text(request.unit),
        REQUESTED: amounts_text(request.resources),
    }
    if rules.compat and request.last_permit is not None:
        said[APPROVED] = amounts_text(request.last_permit)
    return None if all(shown.annotations.get(key) == text for key, text in said.items()) else said


def request_patch(said: Mapping[str, str], machine: ObjectMeta, rules: Rules) -> JsonPatch:
    """Return the patch that writes the annotations to the VM.

    With `compat` it only uses `replace`, which needs a lenient server (D20).
    """
    if not rules.compat:
        return annotate(machine, said)
    return JsonPatch([{"op": "replace", "path": annotation_path(key), "value": text} for key, text in said.items()])


def annotation_path(annotation: str) -> str:
    """Return the JSON pointer of an annotation."""
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def patch_failure_answer(request: PermitRequest, why: str) -> HttpAnswer:
    return HttpAnswer(500, text=f"failed to patch VM object of pod {request.pod}: {why}")


def unknown_pod_answer(request: PermitRequest) -> HttpAnswer:
    return HttpAnswer(404, text=f"pod not found: {request.pod} is not known or was deleted")


def _extra_fields(told: Told) -> dict[str, Any]:
    """Return the extra fields that have a value: `migrate`, `reason`, `retryAfterMs`, `plan` and `expires`."""
    value: dict[str, Any] = {"migrate": {}} if told.migrate else {}
    value["reason"] = told.reason.value
    if told.retry_after_s is not None:
        value["retryAfterMs"] = round(told.retry_after_s * 1000)
    if told.plan:
        value["plan"] = told.plan
    if told.expires is not None:
        value["expires"] = rfc3339(datetime.fromtimestamp(told.expires, UTC))
    return value


def _unit_error(part: Part) -> str:
    """Return why the part is no compute unit; empty if it is one."""
    try:
        parse_unit(part)
    except ParseFailure as problem:
        return str(problem.error)
    return ""


def _parse_request(part: Part) -> PermitRequest:
    """Parse the fields. The caller has checked version and unit; `permit_refusal` checks the Pod."""
    pod, metrics = part["pod"], part["metrics"]
    last, number, run = part["lastPermit"], part["sequence"], part["run"].text(default="")
    sequence = number.integer() if number.is_present else None
    return PermitRequest(
        pod=Ref(pod["namespace"].text(default=""), pod["name"].text(default="")),
        unit=parse_amounts(part["computeUnit"]),
        resources=parse_amounts(part["resources"]),
        last_permit=parse_amounts(last) if last.is_present else None,
        load1=_parse_load(metrics["loadAvg1M"]) if metrics.is_present else None,
        lowers_at_once=part["lowersAtOnce"].value is True,
        sequence=sequence if run else None,
        run=run,
    )


def _parse_load(part: Part) -> float | None:
    if not part.is_present:
        return None
    value = part.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_LOAD:
        raise part.failure(f"a number from 0 to {_MAX_LOAD}")
    return float(value)


class NoJson(Exception):
    """The body does not begin with a JSON value."""


def decode_first_value(body: bytes) -> object:
    try:
        text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
        value = replace_lone_surrogates(_DECODER.raw_decode(text)[0])
    except (ValueError, RecursionError) as problem:
        raise NoJson(str(problem)) from problem
    return value


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_reject_constant)
"""Decodes the first value and ignores the rest of the body."""
