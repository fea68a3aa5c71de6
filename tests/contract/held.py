"""A watch that is held open as long as the tests of a server take, so that none waits for what comes by the minute."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from tests.contract.servers import Server

_AGAIN_S: Final = 0.5
_PATH: Final = "/api/v1/namespaces/default/configmaps"
_QUERY: Final = "watch=true&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnobody"


class HeldWatch(threading.Thread):
    """Of ConfigMaps that there are none of: what comes are bookmarks. It begins anew where a server is restarted."""

    def __init__(self, server: Server) -> None:
        super().__init__(name=f"held watch of {server.name}", daemon=True)
        self.after_s: list[float] = []
        """How long after the one before it, or after its watch was answered, each bookmark came."""
        self._server = server
        self._connection: http.client.HTTPConnection | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                self._watch()
            self._ended.wait(_AGAIN_S)

    def stop(self) -> None:
        self._ended.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()

    def _watch(self) -> None:
        """From a listing on: a watch from nowhere has a bookmark at the end of its start."""
        tls, place = self._server.tls(), urlsplit(self._server.url).netloc
        connection = http.client.HTTPSConnection(place, context=tls) if tls else http.client.HTTPConnection(place)
        self._connection = connection
        headers = {"Authorization": f"Bearer {self._server.token}"}
        try:
            connection.request("GET", _PATH, headers=headers)
            start = json.loads(connection.getresponse().read())["metadata"]["resourceVersion"]
            connection.request("GET", f"{_PATH}?{_QUERY}&resourceVersion={start}", headers=headers)
            answer = connection.getresponse()
            since = time.monotonic()
            while line := answer.readline():
                now = time.monotonic()
                if json.loads(line)["type"] == "BOOKMARK":
                    self.after_s.append(now - since)
                since = now
        finally:
            connection.close()
