"""Controllers of the control plane: workloads, kubelets, node lifecycle and garbage collection.

Every controller is a plain state machine. `observe` returns the keys that a change affects. `reconcile` returns the
writes that bring the cluster one step closer to the desired state. `Machinery` runs all of them. It sends the writes
through the API like those of any client, under the names of upstream's service accounts. So admission, generation and
managed fields stay with the API. There is no clock here: the caller passes the time of a step.

There are no controllers for Jobs, CronJobs, DaemonSets, ReplicationControllers, autoscalers, quotas, volumes and
Endpoints. Such objects can be stored but have no effect.
"""

from __future__ import annotations

from situate.cluster.controllers.machinery.actions import ActionWriter, WriteAnswer
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.machinery import ControllerFactory, Machinery
from situate.cluster.controllers.machinery.settings import KubeletSettings, MachinerySettings, NodeLifecycleSettings

__all__ = [
    "ActionWriter",
    "Change",
    "ControllerFactory",
    "KubeletSettings",
    "Machinery",
    "MachinerySettings",
    "NodeLifecycleSettings",
    "WriteAnswer",
]
