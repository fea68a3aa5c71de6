"""Whether a toleration covers a taint (upstream: component-helpers scheduling/corev1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """An empty effect covers every effect, an empty key with Exists every taint."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and toleration.get("value", "") == taint.get("value", "")


def untolerated(
    tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Mapping[str, Any]], effects: tuple[str, ...]
) -> Mapping[str, Any] | None:
    """The first taint of these effects that no toleration covers."""
    known = list(tolerations)
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(entry, taint) for entry in known):
            return taint
    return None


def unwanted(tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Mapping[str, Any]]) -> int:
    """How many PreferNoSchedule taints no toleration covers."""
    known = list(tolerations)
    soft = (taint for taint in taints if taint.get("effect") == "PreferNoSchedule")
    return sum(not any(tolerates(entry, taint) for entry in known) for taint in soft)
