"""Arguments of PodTopologySpread and their validation (upstream apis/config PodTopologySpreadArgs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from situate.objects.kinds.pods import TopologySpreadConstraint
from situate.objects.selection.label_selectors import valid_label_key
from situate.objects.settings.section import Mistake, format_value

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


class PodTopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's PodTopologySpreadArgs."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """For Pods without constraints of their own. Services and owners define the selectors."""
    defaulting_type: Literal["System", "List"] = "System"
    """`System` means maxSkew 3 over hosts and 5 over zones, both soft."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.defaulting_type == "System" and self.default_constraints:
            yield Mistake("defaultingType", '"System"', '"List" if defaultConstraints is set')
        seen: set[tuple[str, str]] = set()
        for number, constraint in enumerate(self.default_constraints):
            path = f"defaultConstraints[{number}]"
            yield from _constraint_mistakes(constraint, path)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield Mistake(path, format_value(list(pair)), "each topologyKey once with each whenUnsatisfiable")
            seen.add(pair)


def _constraint_mistakes(constraint: TopologySpreadConstraint, path: str) -> Iterable[Mistake]:
    if constraint.max_skew <= 0:
        yield Mistake(f"{path}.maxSkew", str(constraint.max_skew), "an integer, at least 1")
    if not valid_label_key(constraint.topology_key):
        yield Mistake(f"{path}.topologyKey", format_value(constraint.topology_key), "the key of a node label")
    if constraint.when_unsatisfiable not in _ACTIONS:
        yield Mistake(f"{path}.whenUnsatisfiable", format_value(constraint.when_unsatisfiable), " or ".join(_ACTIONS))
    if constraint.label_selector is not None:
        yield Mistake(
            f"{path}.labelSelector", "a selector", "none, because the services and the owner of the pod define it"
        )
