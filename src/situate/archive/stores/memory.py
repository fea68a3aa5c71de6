"""An archive in memory, for tests and simulations: the simplest store."""

from __future__ import annotations

from situate.archive.protocol import NotArchived
from situate.archive.records.query import Page, Query, page_of, position_of
from situate.archive.records.record import BadRecord, ByName, ByUid, GroupKind, Record, encode_record, parse_record
from situate.archive.stores.stored_bytes import check_replaces, read_back


class MemoryArchiver:
    """An archive of bytes, as in other stores, so that each record is encoded and decoded. It ends with the process."""

    def __init__(self) -> None:
        self._records: dict[ByUid, bytes] = {}
        """Records by key; the keys contain the place."""
        self._places: dict[tuple[GroupKind, str], ByUid] = {}

    async def put(self, record: Record) -> None:
        key = record.subject.key
        present = self._places.get((key.kind, key.uid))
        if present is not None:
            check_replaces(record, self._records[present], str(key))
            del self._records[present]
        self._places[key.kind, key.uid] = key
        self._records[key] = encode_record(record)

    async def get(self, key: ByUid | ByName) -> Record:
        if isinstance(key, ByUid):
            present = self._places.get((key.kind, key.uid))
            if present is None or key.place not in (None, present.place):
                raise NotArchived(key)
            return read_back(self._records[present], str(present))
        place = key.namespace, key.name
        found = [
            read_back(stored, str(present))
            for present, stored in self._records.items()
            if present.kind == key.kind and present.place == place
        ]
        if not found:
            raise NotArchived(key)
        return min(found, key=lambda record: position_of(record).order)

    async def search(self, query: Query) -> Page:
        records, corrupt = [], []
        for key, stored in self._records.items():
            try:
                records.append(parse_record(stored, str(key)))
            except BadRecord as error:
                corrupt.append(error)
        return page_of(records, query, corrupt)

    async def delete(self, key: ByUid) -> None:
        present = self._places.pop((key.kind, key.uid), None)
        if present is not None:
            del self._records[present]

    async def check(self) -> None:
        """Do nothing: memory is always available."""

    async def close(self) -> None:
        """Do nothing: there are no connections. The records stay as long as the archiver."""
