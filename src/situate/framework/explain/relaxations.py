"""Constraints of a Pod, each of which can be dropped separately; input of `situate.framework.explain.least_change`.

A relaxation is an edit of the Pod with a description. The plugins decide whether it helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import msgspec

from situate.objects.kinds.nodes import Taint
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import BadSelector, selector_of

T = TypeVar("T")
Edit = Callable[[PodSpec], PodSpec]


class Kind(StrEnum):
    """The kinds of change, the one with the smallest effect on others first."""

    GATE = "gate"
    """Needs only time, and the owner of the gate."""
    PREEMPTION = "preemption"
    """Needs only time: the scheduler preempts by itself."""
    UNCORDON = "uncordon"
    CAPACITY = "room"
    TOLERATION = "toleration"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    SPREAD = "topologySpread"
    ANTI_AFFINITY = "podAntiAffinity"
    AFFINITY = "podAffinity"
    HOST_PORT = "hostPort"
    VOLUME = "volume"
    PRIORITY = "priority"
    """At the expense of other Pods."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The removal or reduction of one constraint."""

    kind: Kind
    text: str
    """An imperative: `drop nodeSelector disk=ssd`."""
    edit: Edit

    def apply_to(self, pod: Pod) -> Pod:
        return msgspec.structs.replace(pod, spec=self.edit(pod.spec))


def relaxations(spec: PodSpec) -> Iterator[Relaxation]:
    """Yield every constraint on node labels, other Pods, ports and volumes, by `Kind` and then in spec order."""
    yield from _node_selector(spec)
    yield from _node_affinity(spec)
    yield from _spread(spec)
    yield from _pod_affinity(spec, Kind.ANTI_AFFINITY, "pod_anti_affinity")
    yield from _pod_affinity(spec, Kind.AFFINITY, "pod_affinity")
    yield from _host_ports(spec)
    yield from _volumes(spec)


def toleration_relaxation(toleration: Toleration) -> Relaxation:
    """Return a relaxation that adds one toleration."""
    value = f"={toleration.value}" if toleration.value else ""
    effect = f":{toleration.effect}" if toleration.effect else " with any value and effect"
    text = f"tolerate taint {toleration.key}{value}{effect}" if toleration.key else "tolerate every taint"
    return Relaxation(
        Kind.TOLERATION, text, lambda spec: _replace_fields(spec, tolerations=(*spec.tolerations, toleration))
    )


def toleration_of(taint: Taint) -> Toleration:
    """Return the narrowest toleration of the taint."""
    operator = "Equal" if taint.value else "Exists"
    return Toleration(taint.key, operator, taint.value, taint.effect)


def wider_toleration_of(taint: Taint) -> Toleration:
    """Return the toleration of every value and effect of the taint's key."""
    return Toleration(taint.key, "Exists")


def with_max_skew(number: int, constraint: TopologySpreadConstraint, max_skew: int) -> Relaxation:
    """Return a relaxation with another maxSkew for the constraint at this index."""

    def edit(spec: PodSpec) -> PodSpec:
        held = list(spec.topology_spread_constraints)
        held[number] = _replace_fields(held[number], max_skew=max_skew)
        return _replace_fields(spec, topology_spread_constraints=tuple(held))

    text = f"raise maxSkew from {constraint.max_skew} to {max_skew} of {_constraint_text(constraint)}"
    return Relaxation(Kind.SPREAD, text, edit)


def with_priority(priority: int) -> Relaxation:
    """Return a relaxation with another priority, at which the Pod may preempt."""
    return Relaxation(
        Kind.PRIORITY,
        f"raise the priority to {priority}" if priority > 0 else f"allow preemption at priority {priority}",
        lambda spec: _replace_fields(spec, priority=priority, preemption_policy="PreemptLowerPriority"),
    )


def hard_constraints(spec: PodSpec) -> list[tuple[int, TopologySpreadConstraint]]:
    """Return the constraints that refuse nodes, with their indices."""
    listed = enumerate(spec.topology_spread_constraints)
    return [(number, each) for number, each in listed if each.when_unsatisfiable == "DoNotSchedule"]


def _node_selector(spec: PodSpec) -> Iterator[Relaxation]:
    for key, value in spec.node_selector.items():

        def edit(spec: PodSpec, key: str = key) -> PodSpec:
            return _replace_fields(
                spec, node_selector={name: text for name, text in spec.node_selector.items() if name != key}
            )

        yield Relaxation(Kind.NODE_SELECTOR, f"drop nodeSelector {key}={value}", edit)


def _node_affinity(spec: PodSpec) -> Iterator[Relaxation]:
    """Yield each requirement of each term with several, and then the whole required node affinity."""
    required = spec.affinity.node_affinity.required if spec.affinity.node_affinity is not None else None
    if required is None:
        return
    for number, term in enumerate(required.node_selector_terms):
        for field in ("match_expressions", "match_fields"):
            for requirement in getattr(term, field):
                if len(term.match_expressions) + len(term.match_fields) > 1:
                    which = f" term {number + 1}" if len(required.node_selector_terms) > 1 else ""
                    text = f"drop {_requirement_text(requirement)} from required node affinity{which}"
                    yield Relaxation(Kind.NODE_AFFINITY, text, _without_requirement(number, field, requirement))

    def drop(spec: PodSpec) -> PodSpec:
        node_affinity = spec.affinity.node_affinity
        assert node_affinity is not None
        return _with_affinity(spec, node_affinity=_replace_fields(node_affinity, required=None))

    terms = " or ".join(_term_text(term) for term in required.node_selector_terms)
    yield Relaxation(Kind.NODE_AFFINITY, f"drop required node affinity ({terms or 'without terms'})", drop)


def _without_requirement(number: int, field: str, requirement: NodeSelectorRequirement) -> Edit:
    def edit(spec: PodSpec) -> PodSpec:
        node_affinity = spec.affinity.node_affinity
        assert node_affinity is not None
        if node_affinity.required is None:
            return spec  # already dropped as a whole
        terms = list(node_affinity.required.node_selector_terms)
        left = list(getattr(terms[number], field))
        if requirement in left:
            left.remove(requirement)
        terms[number] = _replace_fields(terms[number], **{field: tuple(left)})
        required = _replace_fields(node_affinity.required, node_selector_terms=tuple(terms))
        return _with_affinity(spec, node_affinity=_replace_fields(node_affinity, required=required))

    return edit


def _spread(spec: PodSpec) -> Iterator[Relaxation]:
    for _, constraint in hard_constraints(spec):

        def edit(spec: PodSpec, constraint: TopologySpreadConstraint = constraint) -> PodSpec:
            left = tuple(each for each in spec.topology_spread_constraints if each is not constraint)
            return _replace_fields(spec, topology_spread_constraints=left)

        yield Relaxation(Kind.SPREAD, f"drop {_constraint_text(constraint)}", edit)


def _pod_affinity(spec: PodSpec, kind: Kind, field: str) -> Iterator[Relaxation]:
    affinity: PodAffinity | None = getattr(spec.affinity, field)
    for term in affinity.required if affinity is not None else ():

        def edit(spec: PodSpec, term: PodAffinityTerm = term) -> PodSpec:
            held: PodAffinity = getattr(spec.affinity, field)
            left = _replace_fields(held, required=tuple(each for each in held.required if each is not term))
            return _with_affinity(spec, **{field: left})

        name = "anti-affinity" if kind is Kind.ANTI_AFFINITY else "affinity"
        text = f"drop required pod {name} to {_selection_text(term)} by {term.topology_key}"
        yield Relaxation(kind, text, edit)


def _host_ports(spec: PodSpec) -> Iterator[Relaxation]:
    wanted = {
        (port.host_port, port.protocol or "TCP")
        for container in (*spec.containers, *spec.init_containers)
        for port in container.ports
        if port.host_port > 0
    }
    for number, protocol in sorted(wanted):

        def without(container: Container, number: int = number, protocol: str = protocol) -> Container:
            ports = tuple(
                each for each in container.ports if (each.host_port, each.protocol or "TCP") != (number, protocol)
            )
            return _replace_fields(container, ports=ports)

        def edit(spec: PodSpec, without: Callable[[Container], Container] = without) -> PodSpec:
            return _replace_fields(
                spec,
                containers=tuple(map(without, spec.containers)),
                init_containers=tuple(map(without, spec.init_containers)),
            )

        yield Relaxation(Kind.HOST_PORT, f"drop host port {number}/{protocol}", edit)


def _volumes(spec: PodSpec) -> Iterator[Relaxation]:
    for volume in spec.volumes:

        def edit(spec: PodSpec, name: str = volume.name) -> PodSpec:
            return _replace_fields(spec, volumes=tuple(each for each in spec.volumes if each.name != name))

        yield Relaxation(Kind.VOLUME, f"drop volume {volume.name}", edit)


def _with_affinity(spec: PodSpec, **fields: object) -> PodSpec:
    affinity: Affinity = _replace_fields(spec.affinity, **fields)
    return _replace_fields(spec, affinity=affinity)


def _replace_fields(value: T, **fields: object) -> T:
    changed: T = msgspec.structs.replace(value, **fields)  # type: ignore[type-var]  # all values here are structs
    return changed


def _requirement_text(requirement: NodeSelectorRequirement) -> str:
    values = f" {','.join(requirement.values)}" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def _term_text(term: NodeSelectorTerm) -> str:
    return (
        ", ".join(_requirement_text(each) for each in (*term.match_expressions, *term.match_fields)) or "an empty term"
    )


def _constraint_text(constraint: TopologySpreadConstraint) -> str:
    return f"the spread of {_selector_text(constraint.label_selector)} over {constraint.topology_key}"


def _selection_text(term: PodAffinityTerm) -> str:
    names = f" in {','.join(term.namespaces)}" if term.namespaces else ""
    if term.namespace_selector is not None:
        names += f" in namespaces with {_selector_text(term.namespace_selector)}"
    return _selector_text(term.label_selector) + names


def _selector_text(wire: LabelSelector | None) -> str:
    """Return the selector in kubectl syntax."""
    try:
        selector = selector_of(wire)
    except BadSelector:
        return "pods"
    if selector.nothing:
        return "nothing"
    plain = [
        f"{each.key}={next(iter(each.values))}" if each.operator == "in" and len(each.values) == 1 else str(each)
        for each in selector.requirements
    ]
    return ",".join(plain) or "anything"
