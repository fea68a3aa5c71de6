"""The paths of the API (apiserver endpoints/request/requestinfo.go)."""

from __future__ import annotations

from functools import lru_cache

import msgspec


class Target(msgspec.Struct, frozen=True):
    """What a path names."""

    group: str
    version: str
    plural: str
    namespace: str
    """Empty for objects of the cluster and across namespaces."""
    name: str
    """Empty for the collection."""
    subresource: str


@lru_cache(maxsize=4096)  # the same few objects are written again and again
def target(path: str) -> Target | None:
    """The resource or object that a path names; None if it names none (`/version`, `/apis/apps/v1`)."""
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
    # /namespaces/<name>, /namespaces/<name>/status and /finalize are about the namespace itself.
    about_itself = not group and rest[2:3] in (["status"], ["finalize"])
    if rest[0] == "namespaces" and len(rest) > 2 and not about_itself:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 and rest[2] != "proxy":
        return None
    name = rest[1] if len(rest) > 1 else ""
    return Target(group, version, rest[0], namespace, name, rest[2] if len(rest) > 2 else "")
