"""Pods that have a node and wait for Permit plugins (upstream runtime/waiting_pods_map.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.framework.cycle.cycle import PluginFailed, call
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.results.status import Code, Status

LONGEST_S: Final = 15 * 60.0
"""Upper limit of every Permit timeout."""


@dataclass(frozen=True, slots=True, eq=False)
class PermitWait:
    """A waiting Pod and the plugins that it waits for."""

    pod: WaitingPod
    node: str
    until: dict[str, float]
    working: frozenset[str]
    """The PreBind plugins that will have work."""


class Permits:
    """The waiting Pods of one scheduler; mutable."""

    def __init__(self) -> None:
        self._held: dict[str, PermitWait] = {}

    def __len__(self) -> int:
        """The number of waiting Pods."""
        return len(self._held)

    def __contains__(self, uid: str) -> bool:
        return uid in self._held

    def hold(self, held: PermitWait) -> None:
        """Add a Pod that waits until its plugins allow it or a timeout expires."""
        self._held[held.pod.info.uid] = held

    def allow(self, uid: str, plugin: str) -> PermitWait | None:
        """Record that one plugin allows the Pod. Return and remove the entry once all have."""
        held = self._held.get(uid)
        if held is None:
            return None
        held.until.pop(plugin, None)
        return None if held.until else self._held.pop(uid)

    def remove_pod(self, uid: str) -> PermitWait | None:
        """Remove and return the entry; None if the Pod is not waiting."""
        return self._held.pop(uid, None)

    def pop_expired(self, now: float) -> list[tuple[PermitWait, str, str]]:
        """Remove and return entries whose first deadline has passed, with the plugin and the reason."""
        found = []
        for uid, held in list(self._held.items()):
            plugin = min(held.until, key=lambda name: held.until[name])
            if held.until[plugin] <= now:
                del self._held[uid]
                found.append((held, plugin, f'rejected due to timeout after waiting at plugin "{plugin}"'))
        return found

    def next_deadline(self) -> float | None:
        return min((when for held in self._held.values() for when in held.until.values()), default=None)


def run_permit_plugins(profile: Profile, pod: PodInfo, node: str, now: float) -> tuple[Status | None, dict[str, float]]:
    """Run all Permit plugins. Return a rejection, or the deadlines of the plugins to wait for, or neither."""
    until: dict[str, float] = {}
    for plugin in profile.permit:
        status, timeout_s = call(plugin, "Permit", plugin.permit, pod, node, now)
        if status.code is Code.WAIT:
            until[plugin.name] = now + min(timeout_s, LONGEST_S)
        elif status.code.rejects:
            return Status(status.code, status.reasons, plugin.name), {}
        elif not status.ok:
            raise PluginFailed(plugin.name, "Permit", status.message or status.code.title)
    return None, until
