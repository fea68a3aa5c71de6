"""Write the type information of the built-in kinds, as `situate.cluster.kinds.schemas` reads it.

    python -m tests.controlplane.dump_schemas --server https://127.0.0.1:6443 --token TOKEN [--out FILE]

Asks a running kube-apiserver for its OpenAPI v3 documents and resource lists, asks Go how the same types decode
(`tests/controlplane/types`, which needs the module of this folder), and keeps what the in-memory API server uses.
Starting and stopping the control plane is left to the rest of this folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "src/situate/cluster/kinds/schemas/kubernetes.json.gz"
GROUP_VERSIONS = (
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
)
METHODS = ("get", "put", "post", "patch", "delete", "options", "head")
REFERENCE = "#/components/schemas/"


class Server:
    """GET of JSON from an API server whose certificate nobody signed."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._context = ssl._create_unverified_context()

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"{self._url}/{path}", headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, context=self._context) as answer:
            return json.load(answer)


def collect(server: Server, go: dict[str, Any]) -> dict[str, Any]:
    """Everything the data file holds, in a stable order."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    resources: dict[str, Any] = {}
    for group_version in GROUP_VERSIONS:
        document = server.get(f"openapi/v3/{group_version}")
        schemas.update({name: trimmed(schema) for name, schema in document["components"]["schemas"].items()})
        paths[group_version] = {path: operations(item) for path, item in sorted(document["paths"].items())}
        resources[group_version] = server.get(group_version)["resources"]
    return {
        "version": server.get("version")["gitVersion"],
        "schemas": dict(sorted(schemas.items())),
        "go": {name: facts(go[name]) for name in sorted(schemas) if name in go},
        "paths": paths,
        "resources": resources,
    }


def trimmed(schema: Any) -> Any:
    """The schema with short references and without the prose that repeats its `enum`."""
    if isinstance(schema, list):
        return [trimmed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() <= {"allOf", "default", "description"} and len(schema.get("allOf", ())) == 1:
        schema = {**schema, **schema["allOf"][0]}
        del schema["allOf"]
    out = {key: trimmed(value) for key, value in schema.items()}
    if isinstance(out.get("$ref"), str):
        out["$ref"] = out["$ref"].removeprefix(REFERENCE)
    if isinstance(out.get("description"), str):
        out["description"] = re.split(r"\n\nPossible enum values:", out["description"])[0]
    return out


def operations(item: dict[str, Any]) -> dict[str, Any]:
    """`{method: [action, group, version, kind]}` of one path; no action where it concerns no kind."""
    found = {}
    for method in METHODS:
        if method in item:
            kind = item[method].get("x-kubernetes-group-version-kind", {})
            action = item[method].get("x-kubernetes-action", "")
            found[method] = [action, kind.get("group", ""), kind.get("version", ""), kind.get("kind", "")]
    return found


def facts(structure: dict[str, Any]) -> list[Any]:
    """`[Go name, {field: [Go type, reflect kind, flags, path of embedded structs]}]`."""
    fields = {
        name: [field["go"], field["kind"], field.get("empty", ""), field.get("path", "")]
        for name, field in sorted(structure["fields"].items())
    }
    return [structure["name"], fields]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="URL of the API server")
    parser.add_argument("--token", required=True, help="bearer token of an administrator")
    parser.add_argument("--out", type=Path, default=DATA, help="file to write")
    parser.add_argument("--go-module", type=Path, default=HERE, help="folder with go.mod and types/")
    options = parser.parse_args()
    go = json.loads(
        subprocess.run(["go", "run", "./types"], cwd=options.go_module, check=True, capture_output=True).stdout
    )
    data = json.dumps(collect(Server(options.server, options.token), go), separators=(",", ":"), ensure_ascii=False)
    options.out.write_bytes(gzip.compress(data.encode(), mtime=0))
    print(f"{options.out}: {options.out.stat().st_size} bytes, {len(data)} uncompressed")


if __name__ == "__main__":
    main()
