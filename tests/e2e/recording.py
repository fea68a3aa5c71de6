"""Everything that happened to some resources, in the order in which it happened.

Each resource is watched by a connection of its own; resourceVersions of one etcd order what they show.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.waiting import eventually


@dataclass(frozen=True, slots=True)
class Change:
    """One revision of one object."""

    revision: int
    at: float
    """When it was heard of, by `time.monotonic`."""
    deleted: bool
    object: dict[str, Any]


class Recording:
    """`with Recording(plane, path, …) as recording:` watches lists; `changes` tells what they showed."""

    def __init__(self, plane: ControlPlane, *paths: str) -> None:
        self._watches = [_Watch(plane, path) for path in paths]

    def __enter__(self) -> Recording:
        for watch in self._watches:
            watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        for watch in self._watches:
            watch.stop()

    def changes(self) -> Iterator[Change]:
        """Every object as it was at the start, then every change until now."""
        for watch in self._watches:
            watch.catch_up()
        return iter(sorted((each for watch in self._watches for each in watch.seen), key=lambda each: each.revision))


class _Watch(threading.Thread):
    def __init__(self, plane: ControlPlane, path: str) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self.seen: list[Change] = []
        self._plane = plane
        self._path = path
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=plane.tls())
        self._version = ""

    def start(self) -> None:
        listed = self._plane.request("GET", self._path)
        self._version = listed["metadata"]["resourceVersion"]
        kind = {"kind": listed["kind"].removesuffix("List")}  # the items of a list do not say it
        self.seen = [_change("ADDED", each | kind) for each in listed["items"]]
        self._connection.connect()
        super().start()

    def run(self) -> None:
        query = f"watch=1&resourceVersion={self._version}"
        headers = {"Authorization": f"Bearer {self._plane.token()}"}
        self._connection.request("GET", f"{self._path}?{query}", headers=headers)
        answer = self._connection.getresponse()
        while line := answer.readline():
            event = json.loads(line)
            self.seen.append(_change(event["type"], event["object"]))

    def catch_up(self) -> None:
        """Until the watch has shown what a list shows now."""
        items = self._plane.request("GET", self._path)["items"]
        last = max((_revision(each) for each in items), default=0)
        eventually(f"{self.name} is up to date", lambda: max((e.revision for e in self.seen), default=0) >= last)

    def stop(self) -> None:
        self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()


def _change(kind: str, shown: dict[str, Any]) -> Change:
    return Change(_revision(shown), time.monotonic(), kind == "DELETED", shown)


def _revision(shown: dict[str, Any]) -> int:
    return int(shown["metadata"]["resourceVersion"])
