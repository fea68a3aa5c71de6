"""Objects of KubeVirt for tests: they say only what matters. The machine is `db`, and runs on n1."""

from __future__ import annotations

from typing import Any

from situate.objects.kinds import pods
from situate.objects.kinds.unstructured import Unstructured, unstructured_from
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL
from tests.vm.objects import container, pod

OWNER = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "name": "db",
    "uid": "uid-db",
    "controller": True,
}
LIVE = {"type": "LiveMigratable", "status": "True"}


def instance(status: Any = None, *, labels: Any = None, **metadata: Any) -> Unstructured:
    wanted = {AUTO_MIGRATION_LABEL: "true"} if labels is None else labels
    return unstructured_from(
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "db", "namespace": "default", "uid": "uid-db", "labels": wanted, **metadata},
            "spec": {"domain": {"memory": {"guest": "2Gi"}}},
            "status": {"phase": "Running", "nodeName": "n1", "conditions": [LIVE], **(status or {})},
        }
    )


def launcher(name: str = "virt-launcher-db-1", node: str = "n1", made_for: str = "", **more: Any) -> pods.Pod:
    """`made_for`: the uid of a migration; its name is `m`."""
    labels = {"kubevirt.io": "virt-launcher", **({"kubevirt.io/migrationJobUID": made_for} if made_for else {})}
    annotations = {"kubevirt.io/migrationJobName": "m"} if made_for else {}
    more.setdefault("owners", (OWNER,))
    return pod(
        name,
        container("compute", cpu="500m", memory="3Gi"),
        labels={**labels, **more.pop("labels", {})},
        annotations=annotations,
        nodeName=node,
        **more,
    )


def migration(status: Any = None, name: str = "schedplugin-virt-launcher-db-1", **metadata: Any) -> Unstructured:
    return unstructured_from(
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": name, "namespace": "default", "uid": "uid-m", **metadata},
            "spec": {"vmiName": "db"},
            "status": status or {},
        }
    )
