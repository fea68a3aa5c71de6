"""Build the JSON patch that removes the vreplicas of one source from one Pod, as Knative's ConsumerGroup evictor does.

All functions are pure; the controller sends the patch to the status subresource. Source: eventing-kafka-broker,
control-plane/pkg/reconciler/consumergroup/evictor.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vpod.sources.adapters import value_at_path
from situate.vpod.sources.status_patch import condition_status

SCHEDULED_CONDITION = "ConsumersScheduled"

JsonPatch = list[dict[str, Any]]


def may_evict(content: Mapping[str, Any], condition: str = SCHEDULED_CONDITION) -> bool:
    """Return whether the object is scheduled; otherwise a schedule is in progress. An absent condition is Unknown."""
    return condition_status(content, condition) == "True"


def eviction_patch(content: Mapping[str, Any], pod: str, placements_path: str = "status.placements") -> JsonPatch:
    """Return operations that remove every placement on the Pod; empty if there is none.

    Each removal first tests that the entry is unchanged. The order is from the last entry to the first, so that indexes
    stay valid.
    """
    placements = value_at_path(content, placements_path)
    if not isinstance(placements, list):
        return []
    pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in placements_path.split("."))
    patch: JsonPatch = []
    for index in range(len(placements) - 1, -1, -1):
        entry = placements[index]
        if isinstance(entry, Mapping) and entry.get("podName") == pod:
            patch.append({"op": "test", "path": f"{pointer}/{index}", "value": entry})
            patch.append({"op": "remove", "path": f"{pointer}/{index}"})
    return patch
