"""The input of the plugins: the Pods of a StatefulSet from the point of view of one vpod, as arrays.

A view is created for one decision. Plugins only read it. A loop that places vreplicas one by one changes its own copy
through ``add``, which updates all counts together.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN_DOMAIN = -1


class Domains(msgspec.Struct, frozen=True):
    """Nodes or zones. A domain without a Pod of the StatefulSet counts too, because vreplicas can spread to it."""

    of_pod: Ints  # (pods,), index of the Pod's domain, UNKNOWN_DOMAIN if the cluster does not list it
    own: Ints  # (domains,), vreplicas of the vpod
    in_spread: Bools  # (domains,), the vpod has an entry there, possibly 0

    def copy(self) -> Domains:
        return Domains(self.of_pod, self.own.copy(), self.in_spread.copy())

    def with_pod_in_first(self) -> Domains:
        return msgspec.structs.replace(self, of_pod=np.append(self.of_pod, 0 if len(self.own) else UNKNOWN_DOMAIN))

    def add(self, pod: int, vreplicas: int) -> None:
        domain = int(self.of_pod[pod])
        if domain != UNKNOWN_DOMAIN:
            self.own[domain] += vreplicas
            self.in_spread[domain] = self.own[domain] > 0


class PolicyView(msgspec.Struct, frozen=True):
    """The Pods in ascending order of ordinal. All arrays except the domains' have one entry for each Pod."""

    replicas: int  # spec.replicas, the `R` of docs/spec/vpod.md
    ordinals: Ints
    schedulable: Bools  # Pods that take part: the candidates, and the Pods compared with a candidate
    free: Ints  # units; negative if a Pod is overcommitted
    own: Ints  # vreplicas of the vpod
    in_spread: Bools  # the vpod has an entry there, possibly 0
    nodes: Domains
    zones: Domains
    weight: int = 1  # units that one vreplica costs
    free_known: bool = True  # False: no Pod was ever seen, so the free capacity is unknown

    def copy(self) -> PolicyView:
        """Copy the view with writable counts. Arrays that never change during a decision are shared."""
        return PolicyView(
            self.replicas,
            self.ordinals,
            self.schedulable,
            self.free.copy(),
            self.own.copy(),
            self.in_spread.copy(),
            self.nodes.copy(),
            self.zones.copy(),
            self.weight,
            self.free_known,
        )

    def with_empty_pod(self, capacity: int) -> PolicyView:
        """Return the view with one more, empty Pod at the end. Its node and zone are a guess: the first ones."""
        ordinal = int(self.ordinals[-1]) + 1 if len(self.ordinals) else 0
        return msgspec.structs.replace(
            self,
            ordinals=np.append(self.ordinals, ordinal),
            schedulable=np.append(self.schedulable, True),
            free=np.append(self.free, capacity),
            own=np.append(self.own, 0),
            in_spread=np.append(self.in_spread, False),
            nodes=self.nodes.with_pod_in_first(),
            zones=self.zones.with_pod_in_first(),
        )

    def add(self, pod: int, vreplicas: int) -> None:
        """Add vreplicas of the vpod on the Pod at this index; a negative number removes them."""
        self.own[pod] += vreplicas
        self.free[pod] -= vreplicas * self.weight
        self.in_spread[pod] = self.own[pod] > 0
        self.nodes.add(pod, vreplicas)
        self.zones.add(pod, vreplicas)
