"""An extender that tests talk to over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

WANTED: Final = "node-2"


class Extending:
    """An extender that likes one node best; `answers` says otherwise. What it was asked last is kept by verb."""

    def __init__(self) -> None:
        self.wanted = WANTED
        self.refusing = False
        self.broken = False
        self.asked: dict[str, Any] = {}

    def answer(self, verb: str, arguments: Any) -> tuple[int, Any]:
        self.asked[verb] = arguments
        if self.broken:
            return 500, "out of order"
        names = [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]
        if verb == "prioritize":
            return 200, [{"Host": name, "Score": 10 * (name == self.wanted)} for name in names]
        if self.refusing:
            return 200, {"FailedNodes": dict.fromkeys(names, "no licence")}
        return 200, {"Nodes": arguments["Nodes"]}


@contextmanager
def serving() -> Iterator[tuple[Extending, str]]:
    """It, and its urlPrefix."""
    extending = Extending()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, said = extending.answer(self.path.rpartition("/")[2], arguments)
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield extending, f"http://127.0.0.1:{server.server_port}/scheduler"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
