"""Pods as the ledger counts them: plain Pods by their requests, runner Pods by their annotations (C3, C8, C9).

`framework.resources` computes the whole request of a Pod, with sidecars, overhead and ongoing resizes (B33, D15). The
plugin decides whether an unreadable Pod may be placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from situate.framework.pod.resources import amounts, pod_request
from situate.objects.kinds import pods as objects
from situate.objects.kinds.meta import Condition
from situate.vm.api.machines import ObservedMachine, read_machine_annotations
from situate.vm.api.parse_errors import ParseError, ParseFailure, ParseResult, Place
from situate.vm.api.quantities import read_amounts, read_guest, read_overcommit, read_resize, read_unit, read_usage
from situate.vm.api.resize_annotation import PENDING, build_resize, infeasible_refusal, resizable_requests
from situate.vm.api.well_known import (
    ALWAYS_MIGRATE_LABEL,
    API_VERSION,
    APPROVED,
    AUTO_MIGRATION_LABEL,
    ENABLED_LABEL,
    MACHINE_KIND,
    MIGRATION_KIND,
    NEEDS_NODE,
    NOT_RESIZED,
    OVERCOMMIT,
    REQUESTED,
    RESIZE_REFUSED,
    RESIZE_REQUESTED,
    SCALING_UNIT,
    USAGE,
)
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.model.pods_and_nodes import NO_LOAD, NO_OVERCOMMIT, Load, Machine, Phase, Pod, Ref, Resize, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import RESOURCES, Amounts, total

T = TypeVar("T")


def read_pod(pod: objects.Pod, rules: Rules, machine: ObservedMachine | None = None) -> ParseResult[Pod]:
    """Parse a Pod. `machine` is the VirtualMachine of a runner Pod, if known.

    `value` is None if its annotations give no amount to reserve; `str(wrong[0])` is the reason (D18).
    """
    if machine_ref(pod) is None:
        return _read_plain_pod(pod, rules)
    try:
        return _read_runner_pod(pod, rules, machine)
    except ParseFailure as problem:
        return ParseResult(None, (problem.error,))


def pod_from_requests(pod: objects.Pod, rules: Rules, machine: ObservedMachine | None = None) -> Pod:
    """Return the amounts for a Pod on a node while its annotations are unreadable: its requests, as for a plain Pod.

    The containers of a runner Pod request little. So its VM's approved amount counts too, or the VM's maximum if the
    approved amount is unknown (I2).
    """
    asked, approved = _effective_request(pod, rules), None
    if machine is not None:
        approved = machine.approved
        asked = asked.maximum(machine.used).maximum(machine.notes.maximum if approved is None else approved)
    if machine_ref(pod) is not None and GUEST in pod.metadata.annotations:
        place = Place.annotation(_about(pod), GUEST)
        guest = read_guest(pod.metadata.annotations[GUEST], place, rules.resources)
        if not isinstance(guest, ParseError):
            asked = asked.maximum(guest.maximum if approved is None else guest.use)
    return _build_pod(pod, rules, asked, asked, asked)


def has_ended(pod: objects.Pod) -> bool:
    """Return whether it uses nothing of its node any more: finished, and no container is running (D14, B3)."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return pod.finished and not any(each.state.running is not None for each in statuses)


def machine_ref(pod: objects.Pod) -> Ref | None:
    """Return the VirtualMachine that the Pod runs; None if it is no runner Pod (C3)."""
    for owner in pod.metadata.owner_references:
        if owner.kind == MACHINE_KIND and owner.api_version == API_VERSION:
            return Ref(pod.metadata.namespace, owner.name, owner.uid)
    return None


def role_of(pod: objects.Pod) -> Role:
    """Return its role in a migration, by owner references: a Pod controlled by a migration is the target (C3)."""
    owners = [
        owner
        for owner in pod.metadata.owner_references
        if owner.kind == MIGRATION_KIND and owner.api_version == API_VERSION
    ]
    if not owners:
        return Role.IDLE
    return Role.TARGET if any(owner.controller for owner in owners) else Role.SOURCE


def is_migratable(pod: objects.Pod, role: Role) -> bool:
    """Return whether vm may migrate its VM, or a migration has begun (C9)."""
    labels = pod.metadata.labels
    wanted = "true" in (labels.get(ALWAYS_MIGRATE_LABEL), labels.get(AUTO_MIGRATION_LABEL))
    return role is Role.SOURCE or (role is not Role.TARGET and wanted)


def no_overcommit(rules: Rules) -> Amounts:
    return Amounts((NO_OVERCOMMIT,) * len(rules.resources))


def _read_runner_pod(pod: objects.Pod, rules: Rules, seen: ObservedMachine | None) -> ParseResult[Pod]:
    about, annotations, labels = _about(pod), pod.metadata.annotations, pod.metadata.labels
    if GUEST not in annotations:
        step = "the VM controller writes this annotation, and the scheduler waits for it"
        raise ParseFailure(ParseError(about, Place.annotation(about, GUEST).field, "", "the resources of the VM", step))
    guest = _value_or_raise(read_guest(annotations[GUEST], Place.annotation(about, GUEST), rules.resources))
    overcommit = no_overcommit(rules)
    if OVERCOMMIT in annotations:
        place = Place.annotation(about, OVERCOMMIT)
        overcommit = _value_or_raise(read_overcommit(annotations[OVERCOMMIT], place, rules.resources))
    used = guest.use
    if USAGE in annotations:
        used = used.maximum(
            _value_or_raise(read_usage(annotations[USAGE], Place.annotation(about, USAGE), rules.resources))
        )
    if seen is not None:
        used = used.maximum(seen.used)
    ref = machine_ref(pod)
    assert ref is not None
    role = role_of(pod)
    autoscaled = labels.get(ENABLED_LABEL) == "true"
    notes, wrong = read_machine_annotations(pod.metadata, about, guest, rules)
    if seen is not None:
        notes = replace(seen.notes, closed_claim=seen.notes.closed_claim or notes.closed_claim)
    machine = Machine(
        ref=ref,
        own=(pod.spec.scheduler_name == rules.scheduler_name) if seen is None else seen.own,
        autoscaled=autoscaled,
        role=role,
        migratable=is_migratable(pod, role),
        always_migrate=labels.get(ALWAYS_MIGRATE_LABEL) == "true",
        phase=Phase.RUNNING if seen is None else seen.phase,
        minimum=notes.minimum,
        maximum=notes.maximum,
        limit=None if rules.compat else notes.maximum,
        load=NO_LOAD if notes.downtime_s is None else Load(last_downtime_s=notes.downtime_s),
        closed_claim=notes.closed_claim,
        moved_at=notes.moved_at,
        evacuation=notes.evacuation,
    )
    booked, requested, unit = _autoscaled_amounts(pod, guest.use) if autoscaled else (guest.use, guest.use, None)
    granted = None if rules.compat or seen is None or seen.pod != pod.metadata.name else seen.approved
    if granted is not None:
        # its agent has this permit, and its copy to the Pod may be slow: a new leader has no other source (I2)
        booked = booked.maximum(granted)
    if not rules.compat:
        booked = booked.maximum(used)
        requested = requested if autoscaled else booked
    further = _further_amounts(_effective_request(pod, rules))
    left = role is Role.IDLE and seen is not None and seen.pod not in ("", pod.metadata.name)
    if not rules.compat and (left or pod.metadata.deletion_timestamp is not None):
        machine = replace(machine, limit=booked + further)  # no migration for a deleted Pod, or one without its VM
    made = _build_pod(pod, rules, booked + further, requested + further, used + further)
    own = resizable_requests(pod, rules)
    return ParseResult(
        replace(
            made,
            factor=made.factor if unit is None else unit,
            overcommit=overcommit,
            machine=machine,
            approved=autoscaled and (APPROVED in annotations or granted is not None),
            account=own,
            infeasible=None if own is None else infeasible_refusal(pod),
        ),
        wrong,
    )


def _autoscaled_amounts(pod: objects.Pod, use: Amounts) -> tuple[Amounts, Amounts, Amounts | None]:
    """Return the approved amount, the requested amount and the unit of an autoscaled VM (C8)."""
    about, annotations = _about(pod), pod.metadata.annotations

    def read(name: str) -> Amounts | None:
        if name not in annotations:
            return None
        reader = read_unit if name == SCALING_UNIT else read_amounts
        return _value_or_raise(reader(annotations[name], Place.annotation(about, name))).with_others_from(use - use)

    unit, approved, requested = read(SCALING_UNIT), read(APPROVED), read(REQUESTED)
    if requested is not None and unit is None:
        step = f"the writer of {REQUESTED} must write this annotation too"
        raise ParseFailure(ParseError(about, Place.annotation(about, SCALING_UNIT).field, "", "a compute unit", step))
    return use if approved is None else approved, use if requested is None else requested, unit


def _read_plain_pod(pod: objects.Pod, rules: Rules) -> ParseResult[Pod]:
    if rules.compat:
        asked = total(
            (_amounts_of(amounts(each.resources.requests), rules) for each in pod.spec.containers), len(rules.resources)
        )
        return ParseResult(_build_pod(pod, rules, asked, asked, asked))
    asked = _effective_request(pod, rules)
    put_off, unseen = _is_deferred(pod), _is_unanswered(pod)
    admitted = _allocated_amounts(pod, rules) if put_off or unseen else asked
    unanswered = not put_off and asked.exceeds(admitted)
    waits = (put_off or unanswered) and pod.metadata.deletion_timestamp is None  # no migration for a deleted Pod
    made = replace(_build_pod(pod, rules, asked, asked, admitted), deferred=waits, unanswered=waits and unanswered)
    wish = _resize_request(pod, asked, rules)
    if wish is None:
        return ParseResult(made)
    if isinstance(wish, ParseError):
        return ParseResult(made, (wish,))
    if wish.refusal is not None:
        return ParseResult(replace(made, resize=wish))
    return ParseResult(replace(made, requested=wish.wanted, factor=wish.step, resize=wish))


def _resize_request(pod: objects.Pod, asked: Amounts, rules: Rules) -> Resize | ParseError | None:
    """Return the resize request of the Pod; None if it has none."""
    text = pod.metadata.annotations.get(RESIZE_REQUESTED)
    if text is None:
        return None
    wish = read_resize(text, Place.annotation(_about(pod), RESIZE_REQUESTED))
    return wish if isinstance(wish, ParseError) else build_resize(pod, asked, wish, rules)


def _effective_request(pod: objects.Pod, rules: Rules) -> Amounts:
    """Return its effective request. A condition for an earlier size does not count (B35)."""
    pending = pod.condition(PENDING)
    if pending is not None and not _is_current(pod, pending):
        pod = _with_pending_condition(pod)
    return _amounts_of(pod_request(pod).amounts, rules)


def _is_current(pod: objects.Pod, condition: Condition) -> bool:
    """Return whether the condition is for the current generation. No observed generation counts as current."""
    seen = condition.observed_generation
    return condition.status == "True" and (not seen or seen >= pod.metadata.generation)


def _is_deferred(pod: objects.Pod) -> bool:
    pending = pod.condition(PENDING)
    return pending is not None and _is_current(pod, pending) and pending.reason == "Deferred"


def _is_unanswered(pod: objects.Pod) -> bool:
    """Return whether its kubelet has not seen the current generation. Before 1.34 kubelets do not report it: False."""
    return 0 < pod.status.observed_generation < pod.metadata.generation


def _allocated_amounts(pod: objects.Pod, rules: Rules) -> Amounts:
    """Return the amounts that its kubelet has granted, computed as if the rest of its request were infeasible."""
    return _amounts_of(
        pod_request(_with_pending_condition(pod, Condition(PENDING, "True", "Infeasible"))).amounts, rules
    )


def _with_pending_condition(pod: objects.Pod, *pending: Condition) -> objects.Pod:
    """Return the Pod with this condition of a pending resize instead of its own."""
    conditions = (*(each for each in pod.status.conditions if each.type != PENDING), *pending)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=conditions))


def _build_pod(pod: objects.Pod, rules: Rules, reserved: Amounts, requested: Amounts, used: Amounts) -> Pod:
    metadata = pod.metadata
    created = metadata.creation_timestamp
    return Pod(
        ref=Ref(metadata.namespace, metadata.name, metadata.uid),
        reserved=reserved,
        requested=requested,
        used=used,
        factor=Amounts.zero(len(rules.resources)),
        overcommit=no_overcommit(rules),
        created_at=created.timestamp() if created is not None else 0.0,
        priority=pod.spec.priority or 0,
        ignored=metadata.namespace in rules.ignored_namespaces,
        needs_node=_has_condition(pod, NEEDS_NODE),
        resize_refused=_has_condition(pod, RESIZE_REFUSED),
        not_resized=_has_condition(pod, NOT_RESIZED),
    )


def _has_condition(pod: objects.Pod, kind: str) -> bool:
    """Return whether a condition of vm is true. An earlier leader may have written it."""
    condition = pod.condition(kind)
    return condition is not None and condition.status == "True"


def _amounts_of(by_name: Mapping[str, int], rules: Rules) -> Amounts:
    return Amounts(tuple(max(0, by_name.get(name, 0)) for name in rules.resources))


def _further_amounts(asked: Amounts) -> Amounts:
    """Return the amounts without CPU and memory, which the VM's annotations give."""
    return Amounts((0,) * len(RESOURCES) + asked.values[len(RESOURCES) :])


def _value_or_raise(read: T | ParseError) -> T:
    if isinstance(read, ParseError):
        raise ParseFailure(read)
    return read


def _about(pod: objects.Pod) -> str:
    return f"pod {pod.metadata.namespace}/{pod.metadata.name}"
