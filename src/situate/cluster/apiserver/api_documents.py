"""Build discovery and OpenAPI documents, and cache them until the catalog changes."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from situate.cluster.apiserver import discovery, openapi
from situate.cluster.errors.field_errors import Refused
from situate.cluster.errors.refusals import RequestRefused
from situate.cluster.kinds.custom_resources import CustomResources
from situate.cluster.read.list_and_watch import json_response
from situate.cluster.storage.resources import Catalog
from situate.objects.messages import Response

_encode: Final = msgspec.json.Encoder().encode
_PROTOBUF: Final = "application/com.github.proto-openapi"


class Documents:
    """All documents below the root that are not resources."""

    def __init__(self, catalog: Catalog, custom: CustomResources) -> None:
        self._catalog = catalog
        self._custom = custom
        self._generation = -1
        self._cache: dict[tuple[str, bool], Response | None] = {}

    def get(self, path: str, accept: str) -> Response | None:
        """Return the document; None if no document has this path."""
        if self._generation != self._catalog.generation:
            self._cache.clear()
            self._generation = self._catalog.generation
        if path == "/openapi/v2":
            return _empty_swagger(accept)
        key = (path, path in ("/api", "/apis") and discovery.wants_aggregated(accept))
        if key not in self._cache:
            self._cache[key] = self._build_response(*key)
        return self._cache[key]

    def _build_response(self, path: str, aggregated: bool) -> Response | None:
        catalog = self._catalog
        if aggregated:
            body = _encode(discovery.aggregated_discovery(catalog, core=path == "/api"))
            etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
            return Response(200, body, {"content-type": discovery.AGGREGATED, "etag": etag})
        document = self._build_document(path)
        return None if document is None else json_response(200, _encode(document))

    def _build_document(self, path: str) -> Any:
        catalog = self._catalog
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz"]}
            case ["api"]:
                return discovery.core_versions()
            case ["apis"]:
                return discovery.group_list(catalog)
            case ["api", version]:
                return discovery.resource_list(catalog, "", version)
            case ["apis", group]:
                return discovery.group_document(catalog, group)
            case ["apis", group, version]:
                return discovery.resource_list(catalog, group, version)
            case ["openapi", "v3"]:
                return openapi.discovery(self._custom.definitions)
            case ["openapi", "v3", *rest]:
                return openapi.document("/".join(rest), self._custom.definitions)
            case _:
                return None


def _empty_swagger(accept: str) -> Response:
    """Return the document of version 2, which has no content. Raises `RequestRefused` (406) if JSON is requested."""
    if not accept.startswith(_PROTOBUF):
        text = "situate's embedded API server writes /openapi/v2 only in protobuf, and empty; use /openapi/v3"
        raise RequestRefused(Refused(406, "NotAcceptable", text))
    return Response(200, openapi.EMPTY_SWAGGER, {"content-type": f"{_PROTOBUF}.spec.v2.v1.0+protobuf"})
