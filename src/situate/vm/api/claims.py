"""Claims, hand-overs and migration times in annotations: canonical JSON text, fields in the order of B1.

Amounts are as counted on the node. Times are RFC 3339 in UTC, to the microsecond. Reading a written text gives an equal
value. Reading a broken text gives an `ParseError` that names the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from situate.objects.values.timestamps import BadTime, micro_time, parse_time
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place
from situate.vm.api.quantities import cpu_value, json_text, memory_value
from situate.vm.model.events import WrittenClaim, WrittenHandOver
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import RESOURCES, Amounts


def claim_text(claim: WrittenClaim | Claim, resources: Sequence[str] = RESOURCES) -> str:
    """Return `{id,plan,node,beneficiary{kind,namespace,name,uid},source{podUID},amount{cpu,mem},deadline}` (B1)."""
    beneficiary = claim.beneficiary
    return json_text(
        {
            "id": claim.id,
            "plan": claim.plan,
            "node": claim.node,
            "beneficiary": {"kind": beneficiary.kind.value, **_ref_value(beneficiary.ref)},
            "source": {"podUID": claim.source_uid},
            "amount": _amount_value(claim.amount, resources),
            "deadline": micro_time(datetime.fromtimestamp(claim.deadline, UTC)),
        }
    )


def read_claim(text: str, place: Place, resources: Sequence[str] = RESOURCES) -> WrittenClaim | ParseError:
    try:
        part = Part.parse_json(text, place)
        part.mapping()
        beneficiary = part["beneficiary"]
        kind = BeneficiaryKind(beneficiary["kind"].choice(*(each.value for each in BeneficiaryKind)))
        return WrittenClaim(
            id=_name(part["id"]),
            plan=part["plan"].text(default=""),
            node=_name(part["node"]),
            beneficiary=Beneficiary(kind, _ref(beneficiary)),
            source_uid=_name(part["source"]["podUID"]),
            amount=_amount(part["amount"], resources),
            deadline=_moment(part["deadline"]),
        )
    except ParseFailure as problem:
        return problem.error


def amount_text(amount: Amounts, resources: Sequence[str] = RESOURCES) -> str:
    """Return `{cpu,mem}`."""
    return json_text(_amount_value(amount, resources))


def read_amount(text: str, place: Place, resources: Sequence[str] = RESOURCES) -> Amounts | ParseError:
    try:
        return _amount(Part.parse_json(text, place), resources)
    except ParseFailure as problem:
        return problem.error


def handover_text(handover: WrittenHandOver, resources: Sequence[str] = RESOURCES) -> str:
    """Return `{source{namespace,name,uid},beneficiary{namespace,name,uid},amount{cpu,mem}}` (B10)."""
    return json_text(
        {
            "source": _ref_value(handover.source),
            "beneficiary": _ref_value(handover.beneficiary),
            "amount": _amount_value(handover.amount, resources),
        }
    )


def read_handover(text: str, place: Place, resources: Sequence[str] = RESOURCES) -> WrittenHandOver | ParseError:
    try:
        part = Part.parse_json(text, place)
        part.mapping()
        source, beneficiary = _ref(part["source"]), _ref(part["beneficiary"])
        return WrittenHandOver(source, beneficiary, _amount(part["amount"], resources))
    except ParseFailure as problem:
        return problem.error


def migration_times_text(at: Iterable[float]) -> str:
    """Return `["2026-01-31T12:00:00.000000Z"]`, oldest first (B25)."""
    return json_text([micro_time(datetime.fromtimestamp(each, UTC)) for each in sorted(at)])


def read_migration_times(text: str, place: Place) -> tuple[float, ...] | ParseError:
    """Return the times, oldest first."""
    try:
        return tuple(sorted(_moment(each) for each in Part.parse_json(text, place).items()))
    except ParseFailure as problem:
        return problem.error


def moment_text(at: float) -> str:
    """Return `2026-01-31T12:00:00.000000Z`; this is no JSON."""
    return micro_time(datetime.fromtimestamp(at, UTC))


def read_moment(text: str, place: Place) -> float | ParseError:
    """Return seconds since the epoch."""
    try:
        return _moment(Part(place, text))
    except ParseFailure as problem:
        return problem.error


def _ref_value(ref: Ref) -> dict[str, str]:
    return {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}


def _ref(part: Part) -> Ref:
    return Ref(_name(part["namespace"]), _name(part["name"]), part["uid"].text(default=""))


def _name(part: Part) -> str:
    text = part.text()
    if not text:
        raise part.failure("non-empty text")
    return text


def _amount_value(amounts: Amounts, resources: Sequence[str]) -> dict[str, Any]:
    further = zip(resources[len(RESOURCES) :], amounts.values[len(RESOURCES) :], strict=False)
    return {
        "cpu": cpu_value(amounts.cpu),
        "mem": memory_value(amounts.memory),
        **{name: memory_value(amount) for name, amount in further if amount},
    }


def _amount(part: Part, resources: Sequence[str]) -> Amounts:
    part.mapping()
    further = (part[name].units() if part[name].is_present else 0 for name in resources[len(RESOURCES) :])
    return Amounts.from_values(part["cpu"].milli(), part["mem"].units(), *further)


def _moment(part: Part) -> float:
    text = part.text()
    try:
        return parse_time(text).timestamp()
    except BadTime as problem:
        raise part.failure("a time such as 2024-01-31T12:00:00Z") from problem
