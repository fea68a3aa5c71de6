"""Client side of the permit protocol: the request, the answer, and the checks of an answer.

An answer may come from a slow, old or wrong server. Version 5.0 has `permit` and `migrate`. Fields of a newer scheduler
(B28) are used if they are valid and ignored otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.vm.agent.decide.core import PluginAction
from situate.vm.api.parse_errors import ParseFailure, Part, Place
from situate.vm.api.quantities import amounts_value, parse_amounts
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts

VERSION: Final = 7
"""v5.0 (C12)."""
MAX_ANSWER: Final = 64 * 1024
"""Bytes of an answer that are read."""
MAX_RETRY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class PermitResponse:
    """A readable answer. `objection` decides whether it is accepted."""

    amount: Amounts
    migrates: bool = False
    """The VM is about to be migrated."""
    reason: str = ""
    """One word, as in B28; empty: none was given."""
    retry_after_ms: int | None = None
    plan: str = ""


@dataclass(frozen=True, slots=True)
class BadAnswer:
    """An answer without a permit, with the reason."""

    why: str


def request_body(
    machine: Ref,
    unit: Amounts,
    action: PluginAction,
    *,
    lowers_at_once: bool,
    sequence: int | None = None,
    run: str = "",
) -> bytes:
    """Return JSON of at most 1 KiB for valid Kubernetes names. `machine` is the runner Pod.

    `sequence` rises with each request of a `run`, so that an overtaken request has no effect. None: neither is sent.
    """
    body: dict[str, Any] = {
        "protoVersion": VERSION,
        "pod": {"namespace": machine.namespace, "name": machine.name},
        "computeUnit": amounts_value(unit),
        "resources": amounts_value(action.target),
        "lastPermit": None if action.last_permit is None else amounts_value(action.last_permit),
        "metrics": None if action.load1 is None else {"loadAvg1M": action.load1},
    }
    if lowers_at_once:
        body["lowersAtOnce"] = True  # D24
    if sequence is not None:
        body |= {"run": run, "sequence": sequence}
    return msgspec.json.encode(body)


def parse_answer(status: int, body: bytes) -> PermitResponse | BadAnswer:
    """Parse an answer. Any status except 200 is a failure, with any body (C14)."""
    if status != 200:
        said = body[:200].decode("utf-8", "replace").strip()
        return BadAnswer(f"the scheduler answered with status {status}{f': {said}' if said else ''}")
    if len(body) > MAX_ANSWER:
        return BadAnswer(f"the scheduler's answer is longer than {MAX_ANSWER} bytes")
    try:
        part = Part.parse_json(body.decode("utf-8", "replace"), Place("the scheduler's answer", ""))
        part.mapping()
        amount = parse_amounts(part["permit"])
    except ParseFailure as problem:
        return BadAnswer(str(problem.error))
    return PermitResponse(
        amount,
        migrates=part["migrate"].is_present,
        reason=_word(part["reason"]),
        retry_after_ms=_milliseconds(part["retryAfterMs"]),
        plan=_word(part["plan"]),
    )


def objection(permit: Amounts, requested: Amounts, used: Amounts) -> str:
    """Return why a permit is not accepted (C18); empty if it is."""
    if not all(permit):
        return f"permit has a resource that is zero: {_amounts_json(permit)}"
    if permit.exceeds(requested):
        return f"permit has resources greater than request ({_amounts_json(permit)} vs. {_amounts_json(requested)})"
    if used.exceeds(permit):
        return f"permit has resources less than VM ({_amounts_json(permit)} vs. {_amounts_json(used)})"
    return ""


def _amounts_json(amounts: Amounts) -> str:
    return msgspec.json.encode(amounts_value(amounts)).decode()


def _word(part: Part) -> str:
    """Return text; other types are ignored and do not invalidate a permit."""
    return part.value[:200] if isinstance(part.value, str) else ""


def _milliseconds(part: Part) -> int | None:
    value = part.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return int(min(value, MAX_RETRY_MS))
