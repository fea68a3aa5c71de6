"""What the plugins see: the pods of a StatefulSet as one vpod finds them, as arrays.

A view is made anew for one decision. Plugins only read it; a loop that places one vreplica after the other writes its
own copy, through ``add``, which keeps all counts in step.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNKNOWN_DOMAIN = -1


class Domains(msgspec.Struct, frozen=True):
    """Nodes or zones. A domain without a pod of ours counts too: an empty zone is a place to spread to."""

    of_pod: Ints  # (pods,), index of the pod's domain, UNKNOWN_DOMAIN where the cluster does not know it
    own: Ints  # (domains,), vreplicas of the vpod
    in_spread: Bools  # (domains,), the vpod has an entry there, be it of zero

    def copy(self) -> Domains:
        return Domains(self.of_pod, self.own.copy(), self.in_spread.copy())

    def with_pod_in_first(self) -> Domains:
        return msgspec.structs.replace(self, of_pod=np.append(self.of_pod, 0 if len(self.own) else UNKNOWN_DOMAIN))

    def add(self, pod: int, vreplicas: int) -> None:
        domain = int(self.of_pod[pod])
        if domain != UNKNOWN_DOMAIN:
            self.own[domain] += vreplicas
            self.in_spread[domain] = self.own[domain] > 0


class View(msgspec.Struct, frozen=True):
    """The pods in ascending order of ordinal. All arrays but the domains' have one entry a pod."""

    replicas: int  # spec.replicas, R of the reference
    ordinals: Ints
    schedulable: Bools  # pods that take part: the candidates, and those a candidate is compared with
    free: Ints  # units; negative where a pod is overcommitted
    own: Ints  # vreplicas of the vpod
    in_spread: Bools  # the vpod has an entry there, be it of zero
    nodes: Domains
    zones: Domains
    weight: int = 1  # units that one vreplica takes
    free_known: bool = True  # False: no pod has ever been seen, so nothing is said about room

    def copy(self) -> View:
        """A copy whose counts may be written; what never changes during a decision is shared."""
        return View(
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

    def with_empty_pod(self, capacity: int) -> View:
        """One more pod behind all others, that holds nothing; where it will stand is a guess."""
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
        """Put so many vreplicas of the vpod on the pod at this index; a negative number takes them away."""
        self.own[pod] += vreplicas
        self.free[pod] -= vreplicas * self.weight
        self.in_spread[pod] = self.own[pod] > 0
        self.nodes.add(pod, vreplicas)
        self.zones.add(pod, vreplicas)
