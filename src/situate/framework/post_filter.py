"""PostFilter: what can be done for a pod that fits nowhere (upstream runtime/framework.go RunPostFilterPlugins)."""

from __future__ import annotations

from situate.framework.cycle import Feasibility, call
from situate.framework.nominations import Nominations
from situate.framework.plugin import Diagnosis, PostFiltered
from situate.framework.pods import PodInfo
from situate.framework.profile import Profile
from situate.framework.status import Code


def run_post_filter(
    profile: Profile, feasibility: Feasibility, pod: PodInfo, diagnosis: Diagnosis, nominations: Nominations
) -> PostFiltered | None:
    """Success or unresolvable ends it; otherwise the last answer that says something about a nomination wins."""
    result: PostFiltered | None = None
    for plugin in profile.post_filter:
        found: PostFiltered = call(plugin, "PostFilter", plugin.post_filter, pod, diagnosis, (feasibility, nominations))
        if found.status.ok or found.status.code is Code.UNRESOLVABLE:
            return found
        if result is None or found.nominate is not None:
            result = found
    return result
