"""`metadata` as received, before its shared parts are looked up, for all kinds with many objects."""

from __future__ import annotations

from datetime import datetime

import msgspec

from situate.objects.decoding.interning import NOTHING


class MetaWire(msgspec.Struct, gc=False, rename="camel"):
    """`metadata` with undecoded shared parts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: msgspec.Raw = NOTHING
    annotations: msgspec.Raw = NOTHING
    owner_references: msgspec.Raw = NOTHING
    finalizers: msgspec.Raw = NOTHING
    generate_name: str = ""
