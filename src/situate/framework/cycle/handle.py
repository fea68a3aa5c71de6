"""The plugins' access to the framework: the cluster state, and requests other than a placement.

The engine executes a plugin's requests after the call, never during it, so that a cycle does not change while plugins
run. A plugin that needs a handle has a method `with_handle`, which returns the same plugin with the handle. Every
engine provides its own handle. A plugin that runs on a branch therefore cannot reach the live scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from situate.framework.cycle.feasibility_query import FeasibilityResult
from situate.framework.plugin_api.actions import Action
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile, map_plugins, plugins_of
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class PluginRequests:
    """Requests of plugins that the engine has not executed yet; of one engine."""

    activate: list[str] = field(default_factory=list)
    """Uids."""
    allow: list[tuple[str, str]] = field(default_factory=list)
    """Uid, and the plugin that allows it."""
    reject: list[tuple[str, str, str]] = field(default_factory=list)
    """Uid, plugin and reason."""
    actions: list[Action] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there are requests that the engine executes itself."""
        return bool(self.activate or self.allow or self.reject)

    def take_requests(self) -> PluginRequests:
        """Remove and return the requests that the engine executes itself; executing them may add new ones."""
        taken = PluginRequests(self.activate, self.allow, self.reject)
        self.activate, self.allow, self.reject = [], [], []
        return taken


class Handle:
    """The access of one plugin to one engine."""

    def __init__(
        self,
        plugin: str,
        wishes: PluginRequests,
        snapshot: Callable[[], Snapshot],
        what_if: Callable[[PodInfo, Snapshot], FeasibilityResult],
    ) -> None:
        self._plugin = plugin
        self._requests = wishes
        self._snapshot = snapshot
        self._what_if = what_if

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot, as a branch that the plugin may change."""
        return self._snapshot().branch()

    def what_if(self, pod: PodInfo, snapshot: Snapshot) -> FeasibilityResult:
        """Return the result of the Pod's profile for this changed cluster."""
        return self._what_if(pod, snapshot)

    def activate(self, uids: Iterable[str]) -> None:
        """Make pending Pods active at once, without an event and without backoff; unknown uids are ignored."""
        self._requests.activate.extend(uids)

    def allow(self, uid: str) -> None:
        """Allow a Pod that waits for this plugin's Permit; no effect on other Pods."""
        self._requests.allow.append((uid, self._plugin))

    def reject(self, uid: str, reason: str) -> None:
        """Reject a Pod that waits for any plugin's Permit; no effect on other Pods."""
        self._requests.reject.append((uid, self._plugin, reason))

    def ask(self, *actions: Action) -> None:
        """Request actions other than a placement: an eviction, or a patch such as a scale or a resize."""
        self._requests.actions.extend(actions)


@runtime_checkable
class HandlePlugin(Plugin, Protocol):
    def with_handle(self, handle: Handle) -> Plugin:
        """Return the same plugin with the handle. Each engine calls this once, including engines for trials."""
        ...


def with_handles(profile: Profile, lend: Callable[[str], Handle]) -> Profile:
    """Return the profile with a handle in each plugin that needs one; the same profile if none does."""
    if not any(map(_takes_handle, plugins_of(profile))):
        return profile
    return map_plugins(
        profile, lambda plugin: plugin.with_handle(lend(plugin.name)) if _takes_handle(plugin) else plugin
    )


def _takes_handle(plugin: Any) -> bool:
    return hasattr(plugin, "with_handle")
