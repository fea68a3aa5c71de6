"""Build migrations and claims from chosen VMs and targets.

Ids derive from the plan's id, so the same input gives the same plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from situate.vm.api.well_known import MIGRATION_PREFIX
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move
from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.candidates import Candidate
from situate.vm.planning.rules.migration_cost import bandwidth


@dataclass(frozen=True, slots=True)
class Step:
    """One VM and its target node."""

    candidate: Candidate
    target: str
    beneficiary: Beneficiary | None = None
    claimed: Amounts | None = None
    """The claimed part of the capacity that the VM leaves. None: no claim."""


def plan_id(subject: str, now: float) -> str:
    """Return the id of a plan. `subject` is the UID of the beneficiary or the name of the node.

    Two plans for one subject are at least 1 ms apart.
    """
    return f"{subject}-{round(now * 1000)}"


def beneficiary(pod: Pod) -> Beneficiary:
    return Beneficiary(BeneficiaryKind.POD if pod.machine is None else BeneficiaryKind.VM, pod.ref)


def migration_ref(mover: Candidate) -> Ref:
    return Ref(mover.machine.ref.namespace, f"{MIGRATION_PREFIX}{mover.pod.ref.name}")


def steps_with_claims(
    movers: Iterable[Candidate], targets: Iterable[str], whom: Beneficiary, need: Amounts
) -> list[Step]:
    """Split the need over the amounts that the VMs leave, first ones first.

    The amount beyond the need is not claimed (B6).
    """
    steps = []
    for mover, target in zip(movers, targets, strict=True):
        claimed = mover.amount.minimum(need)
        need = need - claimed
        steps.append(Step(mover, target, whom, claimed) if claimed else Step(mover, target))
    return steps


def build_migrations(
    ident: str, steps: Sequence[Step], now: float, rules: Rules
) -> tuple[tuple[Move, ...], tuple[Claim, ...]]:
    """Return migrations and claims in the order of the steps. A claim has the number of its migration, from 1."""
    moves, claims = [], []
    for number, step in enumerate(steps, start=1):
        claim = ""
        if step.beneficiary is not None and step.claimed is not None:
            claim = f"{ident}-{number}"
            deadline = now + rules.deadlines.completion_s + rules.deadlines.claim_s
            source = step.candidate.pod.uid
            claims.append(Claim(claim, ident, step.candidate.node, step.beneficiary, source, step.claimed, deadline))
        moves.append(
            Move(
                name=migration_ref(step.candidate).name,
                plan=ident,
                machine=step.candidate.machine.ref,
                source=step.candidate.pod.ref,
                source_node=step.candidate.node,
                target_node=step.target,
                amount=step.candidate.amount,
                created_at=now,
                claim=claim,
                bandwidth=bandwidth(rules),
            )
        )
    return tuple(moves), tuple(claims)
