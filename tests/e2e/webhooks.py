"""Webhooks of other people: an HTTPS server in the test's own process that a real API server asks.

`with Webhooks(folder) as others:` listens; `others.serve("/path", answer)` says what is answered there, and
`others.configuration` sends API servers to it.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.controlplane.certificates import Authority

Asked = Mapping[str, Any]
"""The `request` of an AdmissionReview."""
Answer = Callable[[Asked], Mapping[str, Any]]
"""What the response says besides `uid`."""
ALLOWED: Mapping[str, Any] = {"allowed": True}


def refused(why: str) -> Mapping[str, Any]:
    return {"allowed": False, "status": {"message": why}}


def patched(*operations: Mapping[str, Any]) -> Mapping[str, Any]:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


class Webhooks:
    def __init__(self, folder: Path) -> None:
        authority = Authority("webhooks of others", datetime.now(UTC))
        pair = authority.server(names=("localhost",), addresses=("127.0.0.1",))
        certificate = folder / "webhooks.pem"
        certificate.touch(mode=0o600)
        certificate.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._bundle = base64.b64encode(authority.certificate).decode()
        self._answers: dict[str, Answer] = {}
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhooks", daemon=True)

    def __enter__(self) -> Webhooks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, path: str, answer: Answer = lambda _: ALLOWED) -> None:
        self._answers[path] = answer

    def configuration(self, name: str, path: str, namespace: str, **webhook: Any) -> dict[str, Any]:
        """A webhook for new pods of one namespace; those of a cluster are asked in the order of their names."""
        kind = "ValidatingWebhookConfiguration" if webhook.pop("validating", False) else "MutatingWebhookConfiguration"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        client = {"url": f"https://127.0.0.1:{self._server.server_port}{path}", "caBundle": self._bundle}
        chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        usual = {
            "name": f"{name}.example.com",
            "clientConfig": client,
            "rules": [rule],
            "namespaceSelector": chosen,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            "failurePolicy": "Fail",
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": [usual | webhook],
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self._answers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request, path = review["request"], self.path.partition("?")[0]
                response = {"uid": request["uid"], **answers[path](request)}
                body = json.dumps({**review, "request": None, "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """What it says goes nowhere."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """API servers hang up as they like; what it costs a test, the test sees."""


class Batches:
    """Holds questions back until so many are there at once, then lets these go; again for each of the sizes.

    `peaks` are the numbers that were there when each batch was let go: more than wanted if more came.
    """

    def __init__(self, sizes: Sequence[int], *, lingering_s: float = 0.2, within_s: float = 25.0) -> None:
        self.peaks: list[int] = []
        self._sizes = sizes
        self._lingering_s = lingering_s
        self._within_s = within_s
        self._waiting = 0
        self._changed = threading.Condition()

    def __call__(self, asked: Asked) -> Mapping[str, Any]:
        with self._changed:
            number = len(self.peaks)
            if number == len(self._sizes):
                return ALLOWED
            self._waiting += 1
            if self._waiting == self._sizes[number]:
                self._changed.wait(self._lingering_s)  # whoever comes too many comes now
                self.peaks.append(self._waiting)
                self._waiting = 0
                self._changed.notify_all()
                return ALLOWED
            came = self._changed.wait_for(lambda: len(self.peaks) > number, self._within_s)
        return ALLOWED if came else refused(f"only {self._waiting} of {self._sizes[number]} came")
