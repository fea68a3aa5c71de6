"""Emulator of NeonVM without a hypervisor: a VM controller and a migration controller that only change objects.

`reconcile_object` is the whole reconcile function. From the objects around one object and the time, it returns the next
single write and the time of the next call. It has no memory. The state of a hypervisor (start of copying, planned
failures) is on the objects, so any process can continue at any step. The same reconcile function has three hosts:
`situate.embedded.virtual_machines` in the in-memory cluster, `controller` beside an API server (`situate vm machines`),
and the conformance vectors.

Contract for the source of a finished migration (B10), for schedulers that free capacity by migrations:

1. The VM runs at its target, the owners of both Pods are swapped, and the migration is Succeeded. Its
   `status.sourcePodName` names the source while that Pod exists.
2. A migration without the annotation `vm.situate.dev/claim` has no beneficiary: the source is deleted at once.
3. With a claim, the source is deleted as soon as `vm.situate.dev/handover` is written, by the emulator or by the
   writer. Both use its UID, so a second deletion has no effect. Without a hand-over for `Settings.handover_s`, the
   source is deleted all the same, and the scheduler relies on the event of its end (B9).
4. When the source is gone, `sourcePodName`, `sourcePodIP` and `sourceNode` are removed from the status. A migration
   that is deleted before keeps its finalizer until the deletion of the source has been requested.

Not emulated: disks, networks, the monitor in the guest, and the refusals of upstream's webhooks (`crds` has them as
rules of the API server).
"""

from __future__ import annotations

from situate.vm.emulator.decision import Create, Delete, Key, Kind, Note, Patch, ReconcileResult, Write
from situate.vm.emulator.reconcile import affected_keys, reconcile_object
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import Objects

__all__ = [
    "Create",
    "Delete",
    "Key",
    "Kind",
    "Note",
    "Objects",
    "Patch",
    "ReconcileResult",
    "Settings",
    "Write",
    "affected_keys",
    "reconcile_object",
]
