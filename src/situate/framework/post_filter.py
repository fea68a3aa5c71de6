"""PostFilter: what can be done for a pod that fits nowhere (upstream runtime/framework.go RunPostFilterPlugins)."""

from __future__ import annotations

from dataclasses import dataclass

from situate.framework.cycle import Feasibility, call
from situate.framework.nominations import Nominations
from situate.framework.plugin import Diagnosis, PostFiltered
from situate.framework.pods import PodInfo
from situate.framework.profile import Profile
from situate.framework.status import Code


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """The cycle that found no node, for plugins that filter again on changed snapshots."""

    profile: Profile
    feasibility: Feasibility
    nominations: Nominations


def run_post_filter(
    profile: Profile, feasibility: Feasibility, pod: PodInfo, diagnosis: Diagnosis, nominations: Nominations
) -> PostFiltered | None:
    """Success or unresolvable ends it; otherwise the last answer that says something about a nomination wins."""
    cycle = Cycle(profile, feasibility, nominations)
    result: PostFiltered | None = None
    for plugin in profile.post_filter:
        found: PostFiltered = call(plugin, "PostFilter", plugin.post_filter, pod, diagnosis, cycle)
        if found.status.ok or found.status.code is Code.UNRESOLVABLE:
            return found
        if result is None or found.nominate is not None:
            result = found
    return result
