"""The Deployment controller: replicas of one template, moved to the next by ReplicaSets.

Upstream: pkg/controller/deployment. One look does the first thing that is due and is repeated after each change, where
upstream goes on with copies in memory; the writes are the same ones in the same order.
"""

from __future__ import annotations

from situate.cluster.controllers.workloads.deployment.reconcile import DeploymentController

__all__ = ["DeploymentController"]
