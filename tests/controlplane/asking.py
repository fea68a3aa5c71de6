"""One request to a program of the control plane on this machine, past any proxy that the environment names."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any


def ask(
    port: int,
    method: str,
    path: str,
    *,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    timeout_s: float = 30.0,
) -> tuple[int, str]:
    """Status and text of the answer. Raises OSError or `http.client.HTTPException` if there was none."""
    data = None if body is None else json.dumps(body)
    if tls is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=tls)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
