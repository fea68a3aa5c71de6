"""JSON paths in dot notation, with which the scale subresource finds its fields in a custom resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths of the replicas and the selector, such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str
    """Empty if the resource has no selector."""

    @staticmethod
    def from_subresource(scale: Mapping[str, Any]) -> ScalePaths:
        """Return the paths in a version's `subresources.scale`."""
        return ScalePaths(
            scale.get("specReplicasPath", ""), scale.get("statusReplicasPath", ""), scale.get("labelSelectorPath", "")
        )


def get_path(obj: Any, path: str) -> Any:
    """Return the value at the path; None if a step of the path is missing."""
    for step in path.removeprefix(".").split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def set_path(obj: dict[str, Any], path: str, value: Any) -> None:
    """Set the value in place. Missing objects on the path are created."""
    *steps, last = path.removeprefix(".").split(".")
    for step in steps:
        below = obj.get(step)
        if not isinstance(below, dict):
            below = obj[step] = {}
        obj = below
    obj[last] = value
