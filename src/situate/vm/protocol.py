"""The permit protocol v5.0 without its wire: reading a request, refusing it, what to write, when to answer what (2.5).

The server moves bytes: it reads a request, asks whether it is refused, writes the notes that it makes to the machine,
and then asks with each change of the pod, and at the end of the wait, whether there is an answer by now. What an answer
says of queues and plans (B28) is the ledger's to know and handed in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from situate.kube.patches import JsonPatch
from situate.objects.meta import ObjectMeta
from situate.vm.amounts import Amounts
from situate.vm.model import Ref
from situate.vm.names import APPROVED, REQUESTED, SCALING_UNIT
from situate.vm.rules import Rules
from situate.vm.text import amounts_of, amounts_text, amounts_value, json_text, read_amounts, unit_of
from situate.vm.unreadable import Misread, Part, Place, Unreadable
from situate.vm.writes import annotate

MOST_BODY: Final = 1024
"""Bytes of a request that are read."""
VERSION: Final = 7
VERSIONS: Final[Mapping[int, str]] = {1: "v1.0", 2: "v1.1", 3: "v2.0", 4: "v2.1", 5: "v3.0", 6: "v4.0", 7: "v5.0"}
"""That there were; only the last is accepted."""
WAIT_S: Final = 1.0
_MOST_LOAD: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """What an agent asks, in order as far as it can be told from the request alone."""

    pod: Ref
    unit: Amounts
    resources: Amounts
    last_permit: Amounts | None
    """None at first contact."""
    load1: float | None = None
    lowers_at_once: bool = False
    """D24."""

    @property
    def increases(self) -> bool:
        """Whether more is asked for than the agent holds, or it is not known what it holds."""
        return self.last_permit is None or self.resources.exceeds(self.last_permit)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is to be seen of the pod at a moment."""

    node: str
    """Empty while it is not bound."""
    machine: Ref | None
    annotations: Mapping[str, str]
    frozen: bool = False
    """Its machine is being moved: amounts do not change (D13)."""


@dataclass(frozen=True, slots=True)
class Further:
    """What an answer may say besides (B28); agents of v5.0 pass it over."""

    reason: str = ""
    """granted, partial, noRoom, claimedByOthers, frozen, starting or notLeader; empty: by the amounts alone."""
    retry_after_ms: int | None = None
    plan: str = ""
    expires: str = ""
    """RFC 3339: when an increase that is not used lapses."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    permit: Amounts | None = None
    """None: an error."""
    text: str = ""
    """Of an error."""
    migrates: bool = False
    further: Further = Further()

    @property
    def content_type(self) -> str:
        return "text/plain; charset=utf-8" if self.permit is None else "application/json"

    def body(self, rules: Rules) -> bytes:
        """`{"permit":{..}}`, with `migrate` where the machine is being moved."""
        if self.permit is None:
            return self.text.encode()
        value: dict[str, Any] = {"permit": amounts_value(self.permit, rules.resources)}
        if self.migrates:
            value["migrate"] = {}
        if not rules.compat:
            further = self.further
            said = {"reason": further.reason, "plan": further.plan, "expires": further.expires}
            value |= {key: text for key, text in said.items() if text}
            if further.retry_after_ms is not None:
                value["retryAfterMs"] = further.retry_after_ms
        return json_text(value).encode()


def read_request(method: str, body: bytes) -> PermitRequest | Answer:
    """The request, or the refusal of one that is wrong by itself: method, JSON, version, unit, in this order (C14).

    Of the body the first KiB is read, and of that the first JSON value.
    """
    if method != "POST":
        return Answer(400, text=f"method {method[:20]!r} is not supported: POST the request")
    try:
        part = Part(Place("request", ""), _first_value(body[:MOST_BODY]))
        part.mapping()
        read = _request(part)
        version = part["protoVersion"].integer() if part["protoVersion"].there else 0
        if version != VERSION:
            known = VERSIONS.get(version, f"version {version}")
            return Answer(400, text=f"protocol {known} is not supported: send protoVersion {VERSION}, v5.0")
        unit_of(part["computeUnit"])
    except _NoJson as problem:
        return Answer(400, text=f"the body is no JSON of at most {MOST_BODY} bytes: {problem}")
    except Misread as problem:
        return Answer(400, text=str(problem.unreadable))
    return read


def refused(request: PermitRequest, shown: Shown | None) -> Answer | None:
    """The refusal of a request whose pod is unknown, not bound, or no runner (C15); None: it goes on."""
    if shown is None:
        return _gone(request)
    if not shown.node:
        return Answer(404, text=f"pod {request.pod} is not bound to a node yet: ask again when it is")
    if shown.machine is None:
        return Answer(400, text=f"pod {request.pod} is no runner of a VirtualMachine")
    return None


def notes(request: PermitRequest, shown: Shown, rules: Rules) -> dict[str, str] | None:
    """What the machine's annotations are to say, in order; None where the pod shows all of it already (C15).

    With `compat` the agent's last permit becomes what is approved, unseen (D8).
    """
    said = {
        SCALING_UNIT: amounts_text(request.unit, rules.resources),
        REQUESTED: amounts_text(request.resources, rules.resources),
    }
    if rules.compat and request.last_permit is not None:
        said[APPROVED] = amounts_text(request.last_permit, rules.resources)
    return None if all(shown.annotations.get(key) == text for key, text in said.items()) else said


def patch(said: Mapping[str, str], machine: ObjectMeta, rules: Rules) -> JsonPatch:
    """That writes them to the machine: `replace` and nothing else with `compat`, for a server that bears it (D20)."""
    if not rules.compat:
        return annotate(machine, said)
    return JsonPatch([{"op": "replace", "path": path(key), "value": text} for key, text in said.items()])


def path(annotation: str) -> str:
    """As a JSON pointer."""
    return "/metadata/annotations/" + annotation.replace("~", "~0").replace("/", "~1")


def patch_failed(request: PermitRequest, why: str) -> Answer:
    return Answer(500, text=f"failed to patch VM object of pod {request.pod}: {why}")


def answered(
    request: PermitRequest,
    shown: Shown | None,
    elapsed_s: float,
    rules: Rules,
    further: Further = Further(),
    wait_s: float = WAIT_S,
) -> Answer | None:
    """What the pod allows to say after so long a wait; None: it goes on waiting (C16).

    A permit never exceeds the request (I11), but with `compat`, where it is what is approved.
    """
    if shown is None:
        return _gone(request)
    if shown.frozen and not rules.compat:
        return _frozen(request, shown, rules)
    if not request.increases:
        return Answer(200, request.resources, further=_worded(request, request.resources, further))
    read = _standing(request, shown, rules)
    if isinstance(read, Unreadable):
        return Answer(500, text=f"state of pod {request.pod} cannot be read: {read}")
    requested, approved = read
    over = elapsed_s >= wait_s
    if requested != request.resources:
        words = "the pod has not shown the request in time: ask again"
        return Answer(500, text=f"pod {request.pod}: {words}") if over else None
    if approved is None:
        return Answer(500, text=f"pod {request.pod}: nothing is approved for it yet: ask again") if over else None
    if over or request.last_permit is None or approved.exceeds(request.last_permit):
        permit = approved if rules.compat else approved.least(request.resources)
        return Answer(200, permit, further=_worded(request, permit, further))
    return None


def _standing(request: PermitRequest, shown: Shown, rules: Rules) -> tuple[Amounts | None, Amounts | None] | Unreadable:
    """What is requested and approved by the pod's annotations; None for what is not there."""
    found: list[Amounts | None] = []
    for key in (REQUESTED, APPROVED):
        text = shown.annotations.get(key)
        read = (
            None if text is None else read_amounts(text, Place.annotation(f"pod {request.pod}", key), rules.resources)
        )
        if isinstance(read, Unreadable):
            return read
        found.append(read)
    return found[0], found[1]


def _frozen(request: PermitRequest, shown: Shown, rules: Rules) -> Answer:
    """Unchanged amounts, which are never more than is asked for; the booking stays as it is."""
    read = _standing(request, shown, rules)
    approved = None if isinstance(read, Unreadable) else read[1]
    held = approved if request.last_permit is None else request.last_permit
    if held is None:
        return Answer(500, text=f"pod {request.pod} is being moved and nothing was approved for it: ask again")
    permit = held.least(request.resources)
    return Answer(200, permit, migrates=True, further=Further(reason="frozen"))


def _worded(request: PermitRequest, permit: Amounts, further: Further) -> Further:
    if further.reason:
        return further
    held = request.last_permit
    if request.resources.within(permit):
        reason = "granted"
    else:
        reason = "partial" if held is None or permit.exceeds(held) else "noRoom"
    return Further(reason, further.retry_after_ms, further.plan, further.expires)


def _gone(request: PermitRequest) -> Answer:
    return Answer(404, text=f"pod {request.pod} is not known here, or was deleted")


def _request(part: Part) -> PermitRequest:
    """Without the checks that come later."""
    pod, metrics = part["pod"], part["metrics"]
    last = part["lastPermit"]
    return PermitRequest(
        pod=Ref(pod["namespace"].text(default=""), pod["name"].text(default="")),
        unit=amounts_of(part["computeUnit"]),
        resources=amounts_of(part["resources"]),
        last_permit=amounts_of(last) if last.there else None,
        load1=_load(metrics["loadAvg1M"]) if metrics.there else None,
        lowers_at_once=part["lowersAtOnce"].value is True,
    )


def _load(part: Part) -> float | None:
    if not part.there:
        return None
    value = part.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_LOAD:
        raise part.misread(f"a number from 0 to {_MOST_LOAD}")
    return float(value)


class _NoJson(Exception):
    """The body does not begin with a JSON value."""


def _first_value(body: bytes) -> object:
    try:
        text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
        value: object = _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError) as problem:
        raise _NoJson(str(problem)) from problem
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
"""Stops after the first value: the rest of a body is nobody's business."""
