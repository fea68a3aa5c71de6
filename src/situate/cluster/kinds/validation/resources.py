"""Validate requests and limits of containers, and amounts of nodes.

After `validateResourceRequirements` and its neighbours in `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, forbidden, invalid, required
from situate.cluster.errors.quantity_text import parse_amount
from situate.cluster.kinds.validation.metadata import NEGATIVE
from situate.cluster.kinds.validation.names import label_key

_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
"""Resources with a whole number of pieces."""
_STANDARD: Final = (
    _COUNTED
    | _CONTAINER
    | {"storage", "requests.storage"}
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER}
)


def is_native(name: str) -> bool:
    """Return whether the resource is one of Kubernetes' own; all others are extended resources."""
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not is_native(name) and not name.startswith("requests.") and not label_key(f"requests.{name}")


def _allows_overcommit(name: str) -> bool:
    return is_native(name) and not name.startswith("hugepages-")


def validate_requirements(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    """Check that names are known, no amount is negative, and no request exceeds its limit."""
    errors: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, text in limits.items():
        errors += _amount(name, text, f"{path}.limits")
    for name, text in requests.items():
        errors += _amount(name, text, f"{path}.requests")
        limit = limits.get(name)
        if limit is None:
            if not _allows_overcommit(name):
                detail = "Limit must be set for non overcommitable resources"
                errors.append(required(f"{path}.limits", detail))
        elif text != limit:
            errors += _limit_errors(name, text, limit, f"{path}.requests")
    names = limits.keys() | requests.keys()
    if any(name.startswith("hugepages-") for name in names) and not names & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _limit_errors(name: str, text: str, limit: str, path: str) -> list[FieldError]:
    request, most = parse_amount(text), parse_amount(limit)
    if request != most and not _allows_overcommit(name):
        return [invalid(path, text, f"must be equal to {name} limit of {limit}")]
    if request > most:
        return [invalid(path, text, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _amount(name: str, text: str, parent: str) -> list[FieldError]:
    if (name in _CONTAINER and text[0] != "-") or not (problems := _amount_problems(name, text)):
        return []
    path = f"{parent}[{name}]"
    return [invalid(path, value, detail) for value, detail in problems]


@lru_cache(maxsize=4096)
def _amount_problems(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Return the problems of the name, then of the amount, as pairs (value shown, detail)."""
    found = [(name, problem) for problem in label_key(name)]
    huge = name.startswith("hugepages-")
    if not found and "/" not in name:
        if name not in _STANDARD and not huge:
            found.append((name, "must be a standard resource type or fully qualified"))
        if name not in _CONTAINER and not huge:
            found.append((name, "must be a standard resource for containers"))
    elif not found and not is_native(name) and not _is_extended(name):
        found.append((name, "doesn't follow extended resource name standard"))
    return (*found, *_quantity_problems(name, text))


def _quantity_problems(name: str, text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    value = parse_amount(text)
    if value < 0:
        found.append((text, NEGATIVE))
    if (name in _COUNTED or _is_extended(name)) and value.denominator != 1:
        found.append((text, "must be an integer"))
    if name.startswith("hugepages-"):
        size = parse_amount(name.removeprefix("hugepages-"))
        if size <= 0 or value <= 0 or value % size:
            found.append((text, f"{text} is not positive integer multiple of {name}"))
    return found


def validate_amounts(amounts: Mapping[str, str], path: str) -> list[FieldError]:
    """Validate capacity or allocatable of a node."""
    return [
        invalid(f"{path}.{name}", value, detail)
        for name, text in amounts.items()
        for value, detail in _quantity_problems(name, text)
        if not name.startswith("hugepages-")
    ]
