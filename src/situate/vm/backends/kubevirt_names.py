"""KubeVirt's groups, kinds, labels and annotations, as in its API (kubevirt.io/api/core/v1)."""

from __future__ import annotations

from typing import Final

from situate.objects.resources import unstructured

GROUP: Final = "kubevirt.io"
INSTANCE_KIND: Final = "VirtualMachineInstance"
INSTANCES: Final = unstructured(GROUP, "v1", INSTANCE_KIND, "virtualmachineinstances")
INSTANCE_MIGRATIONS: Final = unstructured(
    GROUP, "v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations"
)

APP_LABEL: Final = GROUP
LAUNCHER: Final = "virt-launcher"
"""The app of Pods that run VMs. Pods that only attach volumes have another one."""
MIGRATION_UID_LABEL: Final = f"{GROUP}/migrationJobUID"
"""On a Pod that was created as a migration target. The label remains after the migration."""
MIGRATION_NAME: Final = f"{GROUP}/migrationJobName"
"""Name of the migration that the Pod was created for, as an annotation."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
LIVE_MIGRATABLE: Final = "LiveMigratable"
"""The deciding condition: False with volumes that are not shared, and with devices that are passed through."""
