"""Reserve, and its opposite (upstream runtime/framework.go RunReservePluginsReserve)."""

from __future__ import annotations

from situate.framework.cycle import PluginFailed, call
from situate.framework.pods import PodInfo
from situate.framework.profile import Profile
from situate.framework.status import Status


def concerns(plugin: object, pod: PodInfo) -> bool:
    """Whether Reserve and PreBind of the plugin may have something to do for the pod.

    A plugin that knows better says so by a method `reserves(pod)`, whose answer depends on the pod's template alone.
    """
    knows = getattr(plugin, "reserves", None)
    return True if knows is None else bool(knows(pod))


def reserve(profile: Profile, pod: PodInfo, node: str) -> Status | None:
    """None if all plugins have reserved, else the rejection. What was reserved is for the caller to take back."""
    for plugin in profile.reserve:
        status: Status = call(plugin, "Reserve", plugin.reserve, pod, node)
        if status.code.rejects:
            return Status(status.code, status.reasons, plugin.name)
        if not status.ok:
            raise PluginFailed(plugin.name, "Reserve", status.message or status.code.title)
    return None


def unreserve(profile: Profile, pod: PodInfo, node: str) -> None:
    """All plugins, in reverse; those that never reserved too."""
    for plugin in reversed(profile.reserve):
        plugin.unreserve(pod, node)
