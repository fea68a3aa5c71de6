"""A stand-in for what needs a hypervisor: a VM controller and a migrator, as NeonVM's, that only act upon objects.

`look` is all of it: given what is there of one object and the time, it answers with the one write that comes next and
with when to look again. It remembers nothing. What a hypervisor would know (since when it copies, what goes wrong with
it) stands on the objects, so a look goes on wherever the last one ended, in whatever process. Three dresses run the
same looks: `situate.cluster.controllers.virtual_machines` in the in-memory cluster, `controller` beside an API server
(`situate vm machines`), and the conformance vectors.

What becomes of the source of a move that is done (B10), for those who make room by moves:

1. The machine runs at its target, the owners of both pods are swapped, and the migration says Succeeded; its
   `status.sourcePodName` names the source as long as that pod is there.
2. A migration without the annotation `vm.situate.dev/claim` frees its room for nobody: the source is deleted at once.
3. With it the source is deleted as soon as `vm.situate.dev/handover` is written, by us or by whoever wrote it: both
   name its uid, so a second one does nothing. Nobody wrote it for `Settings.handover_s`: it is deleted all the same,
   and the event of its end has to do (B9).
4. The source is gone: `sourcePodName`, `sourcePodIP` and `sourceNode` are taken off the status. A migration that is
   deleted before waits with its finalizer until the source's deletion has been asked for.

Left out: disks, networks, the monitor in the guest, and refusing what the reference's webhooks refuse (`crds` says it
as rules of the API server).
"""

from __future__ import annotations

from situate.vm.emulator.decision import Create, Delete, Key, Kind, Look, Note, Patch, Write
from situate.vm.emulator.reconcile import concerned, look
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import Objects

__all__ = [
    "Create",
    "Delete",
    "Key",
    "Kind",
    "Look",
    "Note",
    "Objects",
    "Patch",
    "Settings",
    "Write",
    "concerned",
    "look",
]
