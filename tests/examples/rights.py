"""What manifests let an account do, beside what it needs to be let do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from situate.objects.reviews.authorization import Permission

Right: TypeAlias = tuple[str | None, str, str, str]
"""Namespace (None: all), group, resource, verb."""


def granted(documents: Iterable[Mapping[str, Any]], account: str) -> set[Right]:
    found = [*documents]
    roles = {(each["kind"], each["metadata"]["name"]): each.get("rules", ()) for each in found}
    return {
        (binding["metadata"].get("namespace"), group, resource, verb)
        for binding in found
        if binding["kind"].endswith("Binding") and any(each["name"] == account for each in binding["subjects"])
        for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(permissions: Iterable[Permission]) -> set[Right]:
    return {(each.namespace, each.group, each.resource, verb) for each in permissions for verb in each.verbs}
