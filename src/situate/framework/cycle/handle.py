"""What the framework lends to plugins: a look at the cluster, and a way to ask for things beside a placement.

What a plugin asks for is noted and heeded by the engine once the call is over, never in its midst, so that no cycle
changes under another plugin's feet. A plugin that wants a handle has a method `with_handle`, which returns the same
plugin holding it: every engine lends its own, so that a plugin that is asked "what if" on a branch cannot reach the
scheduler that is at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from situate.framework.cycle.feasibility_query import Answer
from situate.framework.plugin_api.actions import Action
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile, members, with_each
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(slots=True, eq=False)
class Wishes:
    """What plugins have asked for and nobody has heeded yet; of one engine."""

    activate: list[str] = field(default_factory=list)
    """Uids."""
    allow: list[tuple[str, str]] = field(default_factory=list)
    """Uid, and the plugin that allows it."""
    reject: list[tuple[str, str, str]] = field(default_factory=list)
    """Uid, plugin and reason."""
    actions: list[Action] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is something that the engine itself has to heed."""
        return bool(self.activate or self.allow or self.reject)

    def taken(self) -> Wishes:
        """What the engine itself has to heed, which is forgotten here; heeding it may bring new ones."""
        taken = Wishes(self.activate, self.allow, self.reject)
        self.activate, self.allow, self.reject = [], [], []
        return taken


class Handle:
    """Lent by one engine to one plugin."""

    def __init__(
        self,
        plugin: str,
        wishes: Wishes,
        snapshot: Callable[[], Snapshot],
        what_if: Callable[[PodInfo, Snapshot], Answer],
    ) -> None:
        self._plugin = plugin
        self._wishes = wishes
        self._snapshot = snapshot
        self._what_if = what_if

    @property
    def snapshot(self) -> Snapshot:
        """The newest one; what is made of it by `assume` and the like is the plugin's own."""
        return self._snapshot().branch()

    def what_if(self, pod: PodInfo, snapshot: Snapshot) -> Answer:
        """Where the pod's profile would put it if the cluster were like this."""
        return self._what_if(pod, snapshot)

    def activate(self, uids: Iterable[str]) -> None:
        """Makes waiting pods active at once, without an event and without back-off; unknown ones are passed over."""
        self._wishes.activate.extend(uids)

    def allow(self, uid: str) -> None:
        """Lets a pod go that this plugin's Permit holds; harmless if it does not."""
        self._wishes.allow.append((uid, self._plugin))

    def reject(self, uid: str, reason: str) -> None:
        """Ends the placement of a pod that any plugin's Permit holds; harmless if none does."""
        self._wishes.reject.append((uid, self._plugin, reason))

    def ask(self, *actions: Action) -> None:
        """Has something done beside any placement: an eviction, or a patch: of a scale, a resize, any object."""
        self._wishes.actions.extend(actions)


@runtime_checkable
class HandlePlugin(Plugin, Protocol):
    def with_handle(self, handle: Handle) -> Plugin:
        """The same plugin holding the handle; each engine asks once, also those on which something is tried."""
        ...


def with_handles(profile: Profile, lend: Callable[[str], Handle]) -> Profile:
    """The profile with a handle in each plugin that wants one; the profile itself if none does."""
    if not any(map(_wants, members(profile))):
        return profile
    return with_each(profile, lambda plugin: plugin.with_handle(lend(plugin.name)) if _wants(plugin) else plugin)


def _wants(plugin: Any) -> bool:
    return hasattr(plugin, "with_handle")
