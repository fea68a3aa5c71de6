"""DefaultBinder: binds through the API (upstream plugins/defaultbinder)."""

from __future__ import annotations

from situate.framework.plugin_api.actions import Action, Bind
from situate.framework.pod.pods import PodInfo


class DefaultBinder:
    """A Bind plugin for every Pod that no earlier plugin has bound."""

    name = "DefaultBinder"

    def bind(self, pod: PodInfo, node: str) -> tuple[Action, ...]:
        return (Bind(pod.key, pod.uid, node),)
