"""Write the field numbers of Kubernetes' protobuf messages, from the Go modules of the control plane.

    python -m tests.controlplane.dump_protobuf FOLDER_OF_GO_MODULES

Reads `k8s.io/api@VERSION` and `k8s.io/apimachinery@VERSION` there (`go env GOMODCACHE`): the fields from each
`generated.proto`, and which of them JSON shows inside their parent from the tags in `types.go`.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).parents[2] / "src/situate/cluster/apiserver/protobuf/messages.json.gz"
GROUPS = (
    *("admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1"),
    *("autoscaling/v2", "batch/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1", "networking/v1"),
    *("node/v1", "policy/v1", "rbac/v1", "scheduling/v1", "storage/v1"),
)
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (optional|repeated) ([\w.]+) (\w+) = (\d+);", re.MULTILINE)
_MAP = re.compile(r"^  map<string, ([\w.]+)> (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r'json:",inline" protobuf:"[^"]*name=(\w+)')


def messages(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Full name of each message to its fields by number: name, type, and `repeated`, `map` or `inline`."""
    proto = (folder / "generated.proto").read_text()
    found = re.search(r"^package ([\w.]+);", proto, re.MULTILINE)
    assert found is not None
    package = found[1]
    types = "\n".join(path.read_text() for path in sorted(folder.glob("types*.go")))
    inline = {name: set(_INLINE.findall(body)) for name, body in _STRUCT.findall(types)}
    out: dict[str, dict[str, list[str]]] = {}
    for message, body in _MESSAGE.findall(proto):
        fields: dict[str, list[str]] = {}
        for label, kind, name, number in _FIELD.findall(body):
            how = "repeated" if label == "repeated" else "inline" if name in inline.get(message, ()) else ""
            fields[number] = [name, _qualified(kind, package), how]
        for kind, name, number in _MAP.findall(body):
            fields[number] = [name, _qualified(kind, package), "map"]
        out[f"{package}.{message}"] = fields
    return out


def _qualified(kind: str, package: str) -> str:
    scalar = kind in ("string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double")
    return kind.lstrip(".") if scalar or "." in kind else f"{package}.{kind}"


def main() -> None:
    modules = Path(sys.argv[1]) / "k8s.io"
    api = max(modules.glob("api@v*"))
    machinery = max(modules.glob("apimachinery@v*"))
    folders = [api / group for group in GROUPS]
    folders += [machinery / "pkg" / path for path in ("api/resource", "apis/meta/v1", "runtime", "util/intstr")]
    known: dict[str, dict[str, list[str]]] = {}
    for folder in folders:
        known.update(messages(folder))
    TARGET.write_bytes(gzip.compress(json.dumps(known, sort_keys=True, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
