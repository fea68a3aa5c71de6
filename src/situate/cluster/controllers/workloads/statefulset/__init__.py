"""The StatefulSet controller: pods with a name and a number, created and deleted in order.

Upstream: pkg/controller/statefulset. The feature MaxUnavailableStatefulSet is off, as by default upstream: an update
replaces one pod at a time.
"""

from __future__ import annotations

from situate.cluster.controllers.workloads.statefulset.reconcile import StatefulSetController

__all__ = ["StatefulSetController"]
