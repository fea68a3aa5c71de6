"""Create pods that differ from an earlier pod only in their name.

A controller creates thousands of pods from one template. Decoding, defaults, admission and validation give the same
result for each of them. So the result is cached, and only name, uid and times are new. Everything else that can change
the result (another namespace or manager, webhooks, priority classes) forces the full path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.admission.chain import Admission
from situate.cluster.errors.times import timestamp
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.store import Event, Store
from situate.cluster.storage.stored_object import ManagedFieldsEntry, StoredObject, share_managers
from situate.objects.messages import Request

Key: TypeAlias = tuple[str, str, bytes, bytes]
"""Namespace, manager, metadata without the name, spec as sent."""

_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""A name that every rule for pod names accepts."""
_MAX_TEMPLATES: Final = 1024
_MAX_SEEN_KEYS: Final = 8192
_PER_POD_FIELDS: Final = ("name", "uid", "creationTimestamp", "resourceVersion")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    metadata: dict[str, Any]
    spec: msgspec.Raw
    apiVersion: str = "v1"  # noqa: N815 - the field's name
    kind: str = "Pod"


_decode: Final = msgspec.json.Decoder(_Body).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Template:
    """The parts that equal pods share."""

    metadata: dict[str, Any]
    rest: bytes
    """Spec and status as JSON, with the braces around both."""
    managed: ManagedFieldsEntry
    fields: tuple[str, ...]


class PodTemplateCache:
    """Templates of the pods created in one store."""

    def __init__(self, store: Store, names: NameGenerator, admission: Admission) -> None:
        self._store = store
        self._names = names
        self._admission = admission
        self._known: dict[Key, Template] = {}
        self._seen_keys: set[int] = set()
        """Hashes of the keys of pods that took the full path.

        Most pods that are created once are never created again.
        """
        store.subscribe(self._observe)

    def parse_request(self, request: Request, namespace: str, manager: str) -> tuple[Key, str] | None:
        """Return the key of a pod's template and the pod's name; None if the pod must take the full path."""
        if self._admission.configured:
            return None
        try:
            body = _decode(request.body)
        except msgspec.DecodeError:
            return None
        name = body.metadata.pop("name", None)
        if body.kind != "Pod" or body.apiVersion != "v1" or not isinstance(name, str) or not _NAME.fullmatch(name):
            return None
        return (namespace, manager, _encode(body.metadata), bytes(body.spec)), name

    def create_from_template(self, key: Key, name: str, now: float) -> StoredObject | None:
        """Store one more pod of a template; None if the template is unknown."""
        template = self._known.get(key)
        if template is None:
            return None
        time = timestamp(now)
        metadata = {**template.metadata, "name": name, "uid": self._names.uid(), "creationTimestamp": time}
        first = template.managed
        managed = ManagedFieldsEntry(
            first.manager, first.operation, first.api_version, time, first.subresource, first.fields
        )
        return self._store.put_encoded(
            "pods", "Pod", "v1", metadata, template.rest, managed=share_managers((managed,)), fields=template.fields
        )

    def add_template(self, key: Key, made: StoredObject) -> None:
        """Cache the template of a pod that took the full path, if it is at least the second of its kind."""
        met = hash(key)
        if met not in self._seen_keys:
            if len(self._seen_keys) >= _MAX_SEEN_KEYS:
                self._seen_keys.clear()
            self._seen_keys.add(met)
            return
        rest = b"{" + made.tail[2:]
        # A new pod's conditions have the time of its creation, so a gated pod is not a template.
        if len(made.managed) != 1 or b'"conditions"' in rest:
            return
        if len(self._known) >= _MAX_TEMPLATES:
            self._known.clear()
        metadata = {name: value for name, value in made.object()["metadata"].items() if name not in _PER_POD_FIELDS}
        self._known[key] = Template(metadata, rest, made.managed[0], made.fields)

    def _observe(self, event: Event) -> None:
        if event.resource == "priorityclasses.scheduling.k8s.io":
            self._known.clear()
