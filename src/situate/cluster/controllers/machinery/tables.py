"""Names of the store's tables, and types of objects and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Obj: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON. It must not be changed in place."""

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

PODS = "pods"
NODES = "nodes"
LEASES = "leases.coordination.k8s.io"
NAMESPACES = "namespaces"
CLAIMS = "persistentvolumeclaims"
SERVICE_ACCOUNTS = "serviceaccounts"
EVENTS = "events"
DEPLOYMENTS = "deployments.apps"
REPLICA_SETS = "replicasets.apps"
STATEFUL_SETS = "statefulsets.apps"
REVISIONS = "controllerrevisions.apps"
DISRUPTION_BUDGETS = "poddisruptionbudgets.policy"
SERVICES = "services"
ENDPOINT_SLICES = "endpointslices.discovery.k8s.io"
