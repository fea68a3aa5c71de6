"""The Deployment controller: replicas of one template, moved to the next template by ReplicaSets.

Upstream: pkg/controller/deployment. One reconcile does the first due step and repeats after each change. Upstream
continues with copies in memory instead. The writes and their order are the same.
"""

from __future__ import annotations

from situate.cluster.controllers.workloads.deployment.reconcile import DeploymentController

__all__ = ["DeploymentController"]
