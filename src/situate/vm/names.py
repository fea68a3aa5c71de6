"""Groups, labels, annotations and other names that objects carry for us, Neon's and our own."""

from __future__ import annotations

from typing import Final

GROUP: Final = "vm.neon.tech"
API_VERSION: Final = f"{GROUP}/v1"
MACHINE_KIND: Final = "VirtualMachine"
MIGRATION_KIND: Final = "VirtualMachineMigration"

NAME_LABEL: Final = f"{GROUP}/name"
"""On a runner pod: its VirtualMachine."""
ENABLED_LABEL: Final = "autoscaling.neon.tech/enabled"
AUTO_MIGRATION_LABEL: Final = "autoscaling.neon.tech/auto-migration-enabled"
ALWAYS_MIGRATE_LABEL: Final = "autoscaling.neon.tech/testing-only-always-migrate"
CREATED_BY_SCHEDULER_LABEL: Final = "autoscaling.neon.tech/created-by-scheduler"
"""On migrations that we create. Labels count as set only with the value `"true"`."""

BOUNDS: Final = "autoscaling.neon.tech/bounds"
SCALING_CONFIG: Final = "autoscaling.neon.tech/config"
SCALING_UNIT: Final = "autoscaling.neon.tech/scaling-unit"
REQUESTED: Final = "internal.autoscaling.neon.tech/resources-requested"
APPROVED: Final = "internal.autoscaling.neon.tech/resources-approved"
USAGE: Final = f"{GROUP}/usage"
RESOURCES: Final = f"{GROUP}/resources"
OVERCOMMIT: Final = f"{GROUP}/overcommit"
FINALIZER: Final = f"{GROUP}/finalizer"

PREFIX: Final = "vm.situate.dev"
CLAIM: Final = f"{PREFIX}/claim"
"""On a migration: whom the room is for that it makes (B2)."""
TARGET_NODE: Final = f"{PREFIX}/target-node"
"""On a migration: where room is reserved for it (B2)."""
CLAIM_CLOSED: Final = f"{PREFIX}/claim-closed"
"""On the beneficiary: the id of the last claim that was used for it (B9)."""
HANDOVER: Final = f"{PREFIX}/handover"
"""On a migration: what is to happen when its source is gone, written before it is deleted (B10)."""
MOVED: Final = f"{PREFIX}/moved"
"""On a VirtualMachine: when it was moved, so that its cool-down survives us (B25)."""
RESIZE_REQUESTED: Final = f"{PREFIX}/resize-requested"
"""On a plain pod: the size that it asks for (B34)."""
DRAIN: Final = f"{PREFIX}/drain"
"""On a node, as annotation or taint: move away what can be moved (B46)."""
