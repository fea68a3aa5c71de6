"""Sees every version of every object of a namespace from outside of the processes that are judged."""

from __future__ import annotations

import json
import socket
import threading
from http.client import HTTPException
from typing import Any

from situate.testing.sharding.world.reports import REPORTS
from tests.sharding.processes.judging import Seen
from tests.sharding.processes.place import Place
from tests.waiting import eventually


class Witness:
    """Watches from when it is made until `end`."""

    def __init__(self, place: Place, namespace: str) -> None:
        self.seen: dict[str, Seen] = {}
        """By UID."""
        self._place = place
        self._path = REPORTS.path(namespace)
        version = place.call("GET", self._path)["metadata"]["resourceVersion"]
        self._connection, self._lines = place.watch(self._path, version)
        self._newest = int(version)
        self._thread = threading.Thread(target=self._read, name="witness", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Until it has seen all that has happened so far."""
        probe = {"apiVersion": f"{REPORTS.group}/{REPORTS.version}", "kind": REPORTS.kind, "metadata": {"name": "end"}}
        end = int(self._place.call("POST", self._path, probe)["metadata"]["resourceVersion"])
        eventually("the witness has seen the end", lambda: self._newest >= end or not self._thread.is_alive())
        assert self._thread.is_alive(), "the watch has ended"

    def end(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._connection.close()

    def _read(self) -> None:
        try:
            while line := self._lines.readline():
                self._saw(json.loads(line))
        except (OSError, ValueError, HTTPException):
            return  # its end

    def _saw(self, event: dict[str, Any]) -> None:
        content = event["object"]
        found = self.seen.setdefault(content["metadata"]["uid"], Seen())
        if event["type"] == "DELETED":
            found.gone = True
        else:
            found.versions.append(content)
        self._newest = int(content["metadata"]["resourceVersion"])
