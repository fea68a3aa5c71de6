"""Create the initial objects of a new cluster: namespaces, priority classes and the Service `kubernetes`.

They equal those of kube-apiserver's bootstrap controllers. A store that already has a namespace is not changed.
"""

from __future__ import annotations

from typing import Final

from situate.cluster.errors.refusals import raise_if_refused
from situate.cluster.errors.times import timestamp
from situate.cluster.kinds.rules import Obj
from situate.cluster.kinds.schemas.decoding import Strictness
from situate.cluster.patch.fieldmanager import ManagerIdentity, update_managers
from situate.cluster.storage.resources import Catalog
from situate.cluster.storage.store import Store
from situate.cluster.write import ObjectWriter

_MANAGER: Final = "kube-apiserver"
_OBJECTS: Final[tuple[Obj, ...]] = (
    *(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ),
    *(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        }
        for name, value, description in (
            (
                "system-cluster-critical",
                2_000_000_000,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if "
                "necessary.",
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        )
    ),
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    },
)


def bootstrap(catalog: Catalog, store: Store, writing: ObjectWriter, now: float) -> None:
    """Create the objects of a new cluster."""
    if store.table("namespaces").objects:
        return
    for given in _OBJECTS:
        resource = catalog.find_kind(given["apiVersion"], given["kind"])
        assert resource is not None
        semantics = writing.semantics_of(resource)
        obj: Obj = raise_if_refused(semantics.check(given, Strictness.STRICT, None)).object
        semantics.default(obj)
        obj["metadata"].update(uid=writing.names.uid(), creationTimestamp=timestamp(now))
        writing.rules(resource).prepare_create(obj, now)
        writer = ManagerIdentity(_MANAGER, resource.api_version, timestamp(now))
        obj["metadata"]["managedFields"] = update_managers(None, obj, semantics.schema, writer)
        writing.storage.put(resource, obj)
