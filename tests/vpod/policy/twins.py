"""Each plugin written for one pod, to be read beside the reference; the vectorised ones must agree with these."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.vpod.policy.views import PlainPod, PlainView

MAX_UINT64 = 2**64 - 1


class NoScoreHere(Exception):
    """The plugin answers with an error for this pod."""


def pod_fits_resources(view: PlainView, pod: PlainPod) -> bool:
    return pod.free > 0


def no_max_resource_count(num_partitions: int) -> Callable[[PlainView, PlainPod], bool]:
    def passes(view: PlainView, pod: PlainPod) -> bool:
        size = len([other for other in view.pods if other.in_spread])
        return pod.in_spread or size + 1 <= num_partitions

    return passes


def even_pod_spread(max_skew: int) -> Callable[[PlainView, PlainPod], bool]:
    def passes(view: PlainView, pod: PlainPod) -> bool:
        if view.replicas == 0:
            return True
        for other in view.pods:
            if not other.schedulable or other.ordinal == pod.ordinal or (other.own == 0 and other.free <= 0):
                continue
            if abs(pod.own + 1 - other.own) > max_skew:
                return False
        return True

    return passes


def _complement(view: PlainView, penalties: Iterable[int]) -> int:
    return 0 if view.replicas == 0 else MAX_UINT64 - sum(penalties)


def even_pod_spread_score(view: PlainView, pod: PlainPod) -> int:
    return _complement(
        view,
        (
            abs(pod.own + 1 - other.own)
            for other in view.pods
            if other.schedulable and other.ordinal != pod.ordinal and not (other.own == 0 and other.free == 0)
        ),
    )


def remove_with_even_pod_spread(view: PlainView, pod: PlainPod) -> int:
    return _complement(
        view,
        (
            abs(pod.own - 1 - other.own)
            for other in view.pods
            if other.schedulable and other.ordinal != pod.ordinal and other.in_spread
        ),
    )


def _over_domains(view: PlainView, mine: str | None, known: Iterable[str], spread: dict[str, int], step: int) -> int:
    if view.replicas == 0:
        return 0
    if mine is None:
        raise NoScoreHere
    others = [name for name in known if name != mine and (step > 0 or name in spread)]
    return _complement(view, (abs(spread.get(mine, 0) + step - spread.get(name, 0)) for name in others))


def availability_node(view: PlainView, pod: PlainPod) -> int:
    return _over_domains(view, pod.node, view.node_zone, view.node_spread, 1)


def availability_zone(view: PlainView, pod: PlainPod) -> int:
    return _over_domains(view, pod.zone, set(view.node_zone.values()), view.zone_spread, 1)


def remove_with_availability_node(view: PlainView, pod: PlainPod) -> int:
    return _over_domains(view, pod.node, view.node_zone, view.node_spread, -1)


def remove_with_availability_zone(view: PlainView, pod: PlainPod) -> int:
    return _over_domains(view, pod.zone, set(view.node_zone.values()), view.zone_spread, -1)


def lowest_ordinal(view: PlainView, pod: PlainPod) -> int:
    return MAX_UINT64 - pod.ordinal


def remove_with_highest_ordinal(view: PlainView, pod: PlainPod) -> int:
    return pod.ordinal
