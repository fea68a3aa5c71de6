"""Ask a real API server again for the answers that tests/cluster/test_recorded.py holds the in-memory one to.

    python -m tests.controlplane.record_semantics --server https://127.0.0.1:6443 --token TOKEN

Keeps the requests of `tests/cluster/recorded/*.json` and replaces the answers. Creations are dry runs; the apply
scenarios write and delete objects called `recorded` in the namespace default.
"""

from __future__ import annotations

import argparse
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.waiting import eventually

RECORDED = Path(__file__).parents[1] / "cluster/recorded"
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "generation", "selfLink")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    """JSON in, JSON out, with the warnings, against an API server whose certificate nobody signed."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._context = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, method=method, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self._context) as answer:
                return recorded(answer.status, json.load(answer), answer.headers.get_all("Warning"))
        except urllib.error.HTTPError as error:
            return recorded(error.code, json.load(error), error.headers.get_all("Warning"))


def recorded(status: int, body: dict[str, Any], warnings: list[str] | None) -> dict[str, Any]:
    """The answer without what differs from run to run."""
    metadata = body.get("metadata", {})
    for key in VOLATILE:
        metadata.pop(key, None)
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
    texts = [warning.removeprefix('299 - "')[:-1].replace('\\"', '"') for warning in warnings or ()]
    return {"status": status, "body": body, "warnings": texts}


def record_creations(server: Server, cases: list[dict[str, Any]]) -> None:
    for case in cases:
        case["answer"] = server.ask("POST", case["path"] + "?dryRun=All&fieldManager=recorder", case["body"])


def record_applies(server: Server, scenarios: list[dict[str, Any]]) -> None:
    for scenario in scenarios:
        path = scenario["path"]
        remove(server, path)
        for step in scenario["steps"]:
            query = f"?fieldManager={step['manager']}" + ("&force=true" if step["force"] else "")
            match step["operation"]:
                case "create":
                    step["answer"] = server.ask("POST", path + query, step["body"])
                case "put":
                    step["answer"] = server.ask("PUT", f"{path}/recorded{query}", step["body"])
                case _:
                    kind = "application/apply-patch+yaml"
                    step["answer"] = server.ask("PATCH", f"{path}/recorded{query}", step["body"], kind)
        remove(server, path)


def remove(server: Server, path: str) -> None:
    """Finalizers go first, or the object would stay."""
    patch = {"metadata": {"finalizers": None}}
    server.ask("PATCH", f"{path}/recorded", patch, "application/merge-patch+json")
    server.ask("DELETE", f"{path}/recorded?gracePeriodSeconds=0")


def wait_served(server: Server, path: str) -> None:
    """Until the resource can be listed."""
    eventually(f"{path} is served", lambda: server.ask("GET", path)["status"], lambda status: status == 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="URL of the API server")
    parser.add_argument("--token", required=True, help="bearer token of an administrator")
    options = parser.parse_args()
    server = Server(options.server, options.token)
    for name in ("creations", "definitions", "custom_resources", "applies"):
        file = RECORDED / f"{name}.json"
        data = json.loads(file.read_text())
        if name == "applies":
            record_applies(server, data)
        elif name == "custom_resources":
            server.ask("POST", DEFINITIONS, data["definition"])
            wait_served(server, data["cases"][0]["path"])
            record_creations(server, data["cases"])
            server.ask("DELETE", f"{DEFINITIONS}/{data['definition']['metadata']['name']}")
        else:
            record_creations(server, data)
        file.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
        print(f"{file.name}: recorded")


if __name__ == "__main__":
    main()
