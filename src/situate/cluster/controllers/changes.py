"""A change of one stored object, as the controllers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Obj: TypeAlias = Mapping[str, Any]
"""A Kubernetes object as decoded JSON; nobody changes one in place."""

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

PODS = "pods"
NODES = "nodes"
LEASES = "leases.coordination.k8s.io"
NAMESPACES = "namespaces"
CLAIMS = "persistentvolumeclaims"
SERVICE_ACCOUNTS = "serviceaccounts"
CONFIG_MAPS = "configmaps"
EVENTS = "events"
DEPLOYMENTS = "deployments.apps"
REPLICA_SETS = "replicasets.apps"
STATEFUL_SETS = "statefulsets.apps"
REVISIONS = "controllerrevisions.apps"
DISRUPTION_BUDGETS = "poddisruptionbudgets.policy"


@dataclass(frozen=True, slots=True)
class Change:
    """One object before and after a write."""

    resource: str
    """Plural and group as upstream writes a GroupResource: `pods`, `deployments.apps`."""
    old: Obj | None
    """None if the object was created."""
    new: Obj | None
    """None if the object is gone."""

    @property
    def last(self) -> Obj:
        """The newest known form."""
        known = self.new if self.new is not None else self.old
        assert known is not None
        return known

    @property
    def key(self) -> Key:
        metadata = self.last["metadata"]
        return metadata.get("namespace", ""), metadata["name"]
