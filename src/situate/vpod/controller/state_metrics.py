"""Gauges of the state of each StatefulSet that this process leads, computed at each scrape.

The values are therefore current and cost nothing between scrapes. A standby shows none of them; otherwise a sum over
the replicas of the controller would count everything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from situate.vpod.model.pod_classes import PodClass
from situate.vpod.state.state import State

_STATEFULSET: Final = "statefulset"
_GAUGES: Final = {
    "situate_vpod_capacity_units": "Capacity of the accepting pods, in units",
    "situate_vpod_used_units": "Reserved units",
    "situate_vpod_pending_vreplicas": "Wanted vreplicas without a place",
    "situate_vpod_overcommitted_pods": "Pods that hold more than their capacity",
    "situate_vpod_replicas_desired": "Pods that the demand needs, as of the last round of the autoscaler",
    "situate_vpod_replicas": "spec.replicas of the StatefulSet",
    "situate_vpod_draining": "1 while vpod drains pods for a scale-down",
    "kn_eventing_replicas_ready": "Placed vreplicas",
    "kn_eventing_replicas_expected": "Wanted vreplicas",
}


class StateGauges(Collector):
    """The gauges that all StatefulSets of the process share."""

    def __init__(self) -> None:
        self._states: dict[str, Callable[[], State | None]] = {}
        self._needed_pods: dict[str, int] = {}

    def set_state_source(self, name: str, state: Callable[[], State | None]) -> None:
        """Set the source of a StatefulSet's gauges: `state` returns the State while this process leads, else None."""
        self._states[name] = state

    def set_needed_pods(self, name: str, pods: int) -> None:
        """Set the number of Pods that the last round of the autoscaler found necessary."""
        self._needed_pods[name] = pods

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return no metrics, because the metrics depend on leadership."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        pods = GaugeMetricFamily("situate_vpod_pods", "Pods by class", labels=(_STATEFULSET, "class"))
        gauges = {name: GaugeMetricFamily(name, text, labels=(_STATEFULSET,)) for name, text in _GAUGES.items()}
        for name, present in self._states.items():
            state = present()
            if state is None:
                continue
            classes = _count_by_class(state)
            for pod_class, number in classes.items():
                pods.add_metric((name, str(pod_class)), number)
            for gauge, value in _gauge_values(state, classes, self._needed_pods.get(name, state.replicas)).items():
                gauges[gauge].add_metric((name,), value)
        yield pods
        yield from gauges.values()


def _count_by_class(state: State) -> Mapping[PodClass, int]:
    """Count the known ordinals below R by class."""
    classes = dict.fromkeys(PodClass, 0)
    for slot in state.slots.values():
        if slot.ordinal < state.replicas:
            classes[slot.verdict.pod_class] += 1
    return classes


def _gauge_values(state: State, classes: Mapping[PodClass, int], needed: int) -> Mapping[str, float]:
    capacity = state.options.capacity
    listed = [entry for entry in state.vpods.values() if entry.listed]
    return {
        "situate_vpod_capacity_units": classes[PodClass.ACCEPT] * capacity,
        "situate_vpod_used_units": state.used.total(),
        "situate_vpod_pending_vreplicas": state.pending.total(),
        "situate_vpod_overcommitted_pods": sum(slot.committed > capacity for slot in state.slots.values()),
        "situate_vpod_replicas_desired": needed,
        "situate_vpod_replicas": state.replicas,
        "situate_vpod_draining": state.drain is not None,
        "kn_eventing_replicas_ready": sum(entry.status_total for entry in listed),
        "kn_eventing_replicas_expected": sum(entry.wanted for entry in listed),
    }
