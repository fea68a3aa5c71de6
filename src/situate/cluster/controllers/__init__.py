"""What the control plane does by itself: workload controllers, kubelets, node life cycle and garbage collection.

Every controller is a plain state machine: `observe` says which keys a change of an object concerns, `reconcile` answers
with the writes that bring the cluster one step nearer to what is asked. `Machinery` runs them all; it performs the
writes through the API as any client's, under the names of upstream's service accounts, so that admission, generation
and managed fields are the API's business alone. There is no clock here: the time of a step comes in.

Left out, and refused by nobody: Jobs, CronJobs, DaemonSets, ReplicationControllers, autoscalers, quotas, volumes and
endpoints. Such objects can be stored, and nothing acts upon them.
"""

from __future__ import annotations

from situate.cluster.controllers.machinery.actions import Answer, Writer
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.machinery import Further, Machinery
from situate.cluster.controllers.machinery.settings import KubeletSettings, MachinerySettings, NodeLifecycleSettings

__all__ = [
    "Answer",
    "Change",
    "Further",
    "KubeletSettings",
    "Machinery",
    "MachinerySettings",
    "NodeLifecycleSettings",
    "Writer",
]
