"""Run Reserve plugins, or revert them (upstream runtime/framework.go RunReservePluginsReserve)."""

from __future__ import annotations

from situate.framework.cycle.cycle import PluginFailed, call
from situate.framework.plugin_api.plugin import RESERVED, Reserved
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.results.status import Status
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.storage import Reservation


def may_apply_to(plugin: object, pod: PodInfo) -> bool:
    """Return whether Allot, Reserve and PreBind of the plugin may apply to the Pod.

    A plugin can narrow this with a method `reserves(pod)`, which must depend only on the Pod's template and volumes.
    """
    knows = getattr(plugin, "reserves", None)
    return True if knows is None else bool(knows(pod))


def reserve(profile: Profile, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
    """Return the reservations of all plugins together, or the first rejection. The caller reverts after a rejection."""
    together = RESERVED
    for plugin in profile.reserve:
        reserved: Reserved = call(plugin, "Reserve", plugin.reserve, pod, node, snapshot)
        status = reserved.status
        if status.code.rejects:
            return Reserved(Status(status.code, status.reasons, plugin.name))
        if not status.ok:
            raise PluginFailed(plugin.name, "Reserve", status.message or status.code.title)
        one, other = together.storage, reserved.storage
        if other:
            together = Reserved(storage=Reservation(one.given + other.given, one.wanted + other.wanted))
    return together


def unreserve(profile: Profile, pod: PodInfo, node: str) -> None:
    """Call unreserve of all plugins in reverse order, including plugins that did not reserve."""
    for plugin in reversed(profile.reserve):
        plugin.unreserve(pod, node)
