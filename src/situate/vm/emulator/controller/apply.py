"""Writes of reconciliations. Their results go to the stores at once."""

from __future__ import annotations

from typing import Final, assert_never

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from situate.kube.events import NORMAL, WARNING, RecordEvent
from situate.kube.patches import MergePatch
from situate.objects.kinds.events import ObjectReference
from situate.runtime.leadership.actuator import Actuator
from situate.vm.api.well_known import API_VERSION
from situate.vm.emulator import Create, Delete, Note, Patch, Write
from situate.vm.emulator.controller.informers import RESOURCES, EmulatorInformers

FIELD_MANAGER: Final = "situate-vm-machines"
FAILED_CREATE: Final = "FailedCreate"
"""Reason of the Event on a VM or migration whose Pod the server refuses."""


class EmulatorApplier:
    """Writer of one process. Its async methods raise the client's errors, or an error if it does not lead."""

    def __init__(self, client: Client, watched: EmulatorInformers, actuator: Actuator, record: RecordEvent) -> None:
        self._client = client
        self._informers = watched
        self._actuator = actuator
        self._record = record

    async def apply(self, write: Write) -> None:
        """Send a write. AlreadyExists and NotFound count as success; the watch causes the next reconciliation."""
        resource, learn = RESOURCES[write.kind], self._informers.reflectors[write.kind].learn
        try:
            match write:
                case Create():
                    created = self._client.create(resource, write.body, write.namespace, field_manager=FIELD_MANAGER)
                    learn(await self._actuator.write(created))
                case Patch():
                    patched = self._client.patch(
                        resource,
                        write.name,
                        MergePatch(write.body),
                        write.namespace,
                        write.subresource or None,
                        FIELD_MANAGER,
                    )
                    learn(await self._actuator.write(patched))
                case Delete():
                    deleted = self._client.delete(resource, write.name, write.namespace, uid=write.uid)
                    await self._actuator.write(deleted)
                case _:
                    assert_never(write)
        except (AlreadyExists, NotFound):
            return
        except (Forbidden, Invalid) as refused:
            # it stays so until the VM, or the violated rule, is changed
            if isinstance(write, Create) and write.note is not None:
                self._record(_reference(write.note), WARNING, FAILED_CREATE, str(refused))
            raise
        self._record_event(write.note)

    def _record_event(self, note: Note | None) -> None:
        if note is not None:
            self._record(_reference(note), WARNING if note.warning else NORMAL, note.reason, note.message)


def _reference(note: Note) -> ObjectReference:
    meta = note.regarding["metadata"]
    version = meta.get("resourceVersion", "")
    return ObjectReference(API_VERSION, note.kind, meta.get("namespace", ""), meta["name"], meta["uid"], version)
