"""KubeVirt's groups, kinds, labels and annotations, as its API has them (kubevirt.io/api/core/v1)."""

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
"""The app of pods that run machines; those that only attach volumes are another one."""
MIGRATION_UID_LABEL: Final = f"{GROUP}/migrationJobUID"
"""On a pod that was made to move into, also long after its machine has moved."""
MIGRATION_NAME: Final = f"{GROUP}/migrationJobName"
"""The same as an annotation."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
LIVE_MIGRATABLE: Final = "LiveMigratable"
"""The condition that decides: False with volumes that are not shared, and with devices that are passed through."""
