"""Answer reads from files of objects as an API server would, so that a command reads files and clusters alike.

It answers only GET of an object, a list, or the resources of a group and version. A type without an object in the files
is an empty list. The resources are those that have an object or a definition in the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from situate.cli.input.dumps import DumpedObject, read_objects
from situate.cli.terminal.failures import WrongInput
from situate.cluster.storage.paths import Target, parse_target
from situate.kube.transport.protocol import Stream
from situate.objects.messages import Request, Response
from situate.objects.selection.field_selectors import field_text, parse_field_selector
from situate.objects.selection.label_selectors import parse_selector

_CRD: Final = "CustomResourceDefinition"
_WRITE_HINT: Final = "write the objects with kubectl get -A -o yaml"


ObjectsByName = dict[tuple[str, str], Mapping[str, Any]]
"""Objects of one type by namespace and name, in the order in which an API server lists them."""


class FileTransport:
    """Transport that serves the objects of files from memory."""

    def __init__(self, paths: Iterable[Path], option: str = "--objects") -> None:
        """Read the files at once. Raises `WrongInput`, which names `option`, the file and the line.

        If several files hold an object, the last file counts.
        """
        given = tuple(paths)
        found = list(read_objects(given, option))
        if not found:
            raise WrongInput(f"{option} {', '.join(map(str, given))}: found no object; {_WRITE_HINT}")
        self._served = {(api_version, plural): entry for api_version, plural, entry in _defined_versions(found)}
        plurals = {
            (_group(api_version), entry["kind"]): plural for (api_version, plural), entry in self._served.items()
        }
        objects: dict[tuple[str, str], ObjectsByName] = {}
        for each in found:
            plural = plurals.get((_group(each.api_version), each.kind)) or guess_plural(each.kind)
            objects.setdefault((each.api_version, plural), {})[_object_key(each.content)] = each.content
            entry = {"kind": each.kind, "namespaced": bool(_object_key(each.content)[0]), "status": True}
            self._served.setdefault((each.api_version, plural), entry)
        self._objects = {type_: dict(sorted(named.items(), key=_sort_key)) for type_, named in objects.items()}

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:  # noqa: ARG002
        """Answer 405 for a write, and 404 for an object that no file has."""
        if request.method != "GET":
            return _failure(405, "MethodNotAllowed", f"{request.method} {request.path}: files of objects are read-only")
        wanted = parse_target(request.path)
        if wanted is None and (api_version := _discovery_version(request.path)):
            return self._list_types(api_version)
        if wanted is None or wanted.subresource:
            return _failure(404, "NotFound", f"{request.path}: files hold objects, and no other documents")
        return self._get_object(wanted) if wanted.name else self._list_objects(wanted, request)

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:  # noqa: ARG002
        """Fail: commands that read files read them once and watch nothing."""
        raise AssertionError(f"{request.path}: a watch of files")

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _list_types(self, api_version: str) -> Response:
        """List the types that have an object or a definition in the files."""
        resources = []
        for (served, plural), entry in self._served.items():
            if served == api_version:
                names = (plural, f"{plural}/status") if entry["status"] else (plural,)
                resources += [
                    {"name": name, "kind": entry["kind"], "namespaced": entry["namespaced"]} for name in names
                ]
        if not resources:
            return _failure(404, "NotFound", f"no file has an object or a definition of {api_version}")
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}
        return Response(200, msgspec.json.encode(listed))

    def _objects_of_type(self, wanted: Target) -> ObjectsByName:
        api_version = f"{wanted.group}/{wanted.version}" if wanted.group else wanted.version
        return self._objects.get((api_version, wanted.plural), {})

    def _get_object(self, wanted: Target) -> Response:
        found = self._objects_of_type(wanted).get((wanted.namespace, wanted.name))
        if found is None:
            return _failure(404, "NotFound", f'{wanted.plural} "{wanted.name}" not found in the files')
        return Response(200, msgspec.json.encode(found))

    def _list_objects(self, wanted: Target, request: Request) -> Response:
        labels = parse_selector(request.parameter("labelSelector"))
        fields = parse_field_selector(request.parameter("fieldSelector"))
        items = [
            each
            for (namespace, _), each in self._objects_of_type(wanted).items()
            if wanted.namespace in ("", namespace)
            and labels.matches(_labels(each))
            and fields.matches({one.field: field_text(each, one.field) for one in fields.requirements})
        ]
        listed = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}
        return Response(200, msgspec.json.encode(listed))


def guess_plural(kind: str) -> str:
    """Return the plural name of a kind without a definition (apimachinery pkg/api/meta, UnsafeGuessKindToResource)."""
    singular = kind.lower()
    if singular.endswith("s") and singular != "endpoints":
        return singular + "es"
    if singular.endswith("y"):
        return singular[:-1] + "ies"
    return singular if singular == "endpoints" else singular + "s"


def _defined_versions(objects: Iterable[DumpedObject]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return the `apiVersion`, the plural name and the facts of each version of each definition among the objects."""
    for each in objects:
        spec = each.content.get("spec")
        names = spec.get("names") if isinstance(spec, Mapping) else None
        if each.kind != _CRD or not isinstance(spec, Mapping) or not isinstance(names, Mapping):
            continue
        versions = spec.get("versions")
        for version in versions if isinstance(versions, list) else ():
            if not isinstance(version, Mapping):
                continue
            subresources = version.get("subresources")
            yield (
                f"{spec.get('group')}/{version.get('name')}",
                str(names.get("plural")),
                {
                    "kind": str(names.get("kind")),
                    "namespaced": spec.get("scope") != "Cluster",
                    "status": isinstance(subresources, Mapping) and "status" in subresources,
                },
            )


def _discovery_version(path: str) -> str:
    """Return the group and version of a discovery path; empty for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "apis" and len(parts) == 3:
        return f"{parts[1]}/{parts[2]}"
    return parts[1] if parts[0] == "api" and len(parts) == 2 else ""


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _metadata(content: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = content.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _labels(content: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels; empty if they cannot be read, because the reader of the object reports that mistake."""
    labels = _metadata(content).get("labels")
    return labels if isinstance(labels, Mapping) else {}


def _sort_key(named: tuple[tuple[str, str], object]) -> str:
    """Return the object's key in etcd, by which an API server sorts a list."""
    return "/".join(named[0])


def _object_key(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace and the name."""
    metadata = _metadata(content)
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _failure(code: int, reason: str, message: str) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return Response(code, msgspec.json.encode({**status, "message": message}))
