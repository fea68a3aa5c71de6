"""Parse the paths of the API (apiserver endpoints/request/requestinfo.go)."""

from __future__ import annotations

from functools import lru_cache

import msgspec


class Target(msgspec.Struct, frozen=True):
    """The object or collection that a path names."""

    group: str
    version: str
    plural: str
    namespace: str
    """Empty for cluster-scoped objects and for all namespaces."""
    name: str
    """Empty for the collection."""
    subresource: str


@lru_cache(maxsize=4096)  # requests name the same few objects repeatedly
def parse_target(path: str) -> Target | None:
    """Return the resource or object that a path names; None if it names none (`/version`, `/apis/apps/v1`)."""
    parts = path.split("/")
    if parts[-1] == "":
        parts.pop()
    if len(parts) > 3 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    namespace = ""
    # The paths /namespaces/<name>, /namespaces/<name>/status and /finalize name the namespace itself.
    about_itself = not group and rest[2:3] in (["status"], ["finalize"])
    if rest[0] == "namespaces" and len(rest) > 2 and not about_itself:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 and rest[2] != "proxy":
        return None
    name = rest[1] if len(rest) > 1 else ""
    return Target(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "")
