"""PostFilter: plugins for a Pod without a feasible node (upstream runtime/framework.go RunPostFilterPlugins)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from situate.framework.cycle.cycle import Feasibility, PluginFailed, call
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered, PostFilterPlugin
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import Steps, run_without_questions
from situate.framework.preemption.nominations import Nominations
from situate.framework.profile.profile import Profile
from situate.framework.results.status import Code, unschedulable_status


@dataclass(frozen=True, slots=True, eq=False)
class Cycle:
    """The cycle that found no feasible node, for plugins that filter changed snapshots."""

    profile: Profile
    feasibility: Feasibility
    nominations: Nominations


@runtime_checkable
class ExtenderPostFilterPlugin(PostFilterPlugin, Protocol):
    """A PostFilter plugin that consults extenders."""

    def post_filter_steps(
        self, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle, extenders: Sequence[Extender]
    ) -> Steps[PostFiltered]:
        """Run `post_filter` with questions to these extenders."""
        ...


def run_post_filter(
    profile: Profile, feasibility: Feasibility, pod: PodInfo, diagnosis: Diagnosis, nominations: Nominations
) -> PostFiltered | None:
    """Run the PostFilter plugins in order.

    Success or unresolvable ends the run. Otherwise the last answer that sets or clears the nomination is used, with the
    reasons of all.
    """
    return run_without_questions(post_filter_steps(profile, feasibility, pod, diagnosis, nominations, ()))


def post_filter_steps(
    profile: Profile,
    feasibility: Feasibility,
    pod: PodInfo,
    diagnosis: Diagnosis,
    nominations: Nominations,
    extenders: Sequence[Extender],
) -> Steps[PostFiltered | None]:
    """Run the PostFilter plugins with questions to the extenders that manage the Pod."""
    cycle = Cycle(profile, feasibility, nominations)
    result: PostFiltered | None = None
    reasons: list[str] = []
    for plugin in profile.post_filter:
        found: PostFiltered
        if extenders and isinstance(plugin, ExtenderPostFilterPlugin):
            found = yield from _run_plugin_steps(plugin, pod, diagnosis, cycle, extenders)
        else:
            found = call(plugin, "PostFilter", plugin.post_filter, pod, diagnosis, cycle)
        if found.status.ok or found.status.code is Code.UNRESOLVABLE:
            return found
        reasons += found.status.reasons
        if result is None or found.nominate is not None:
            result = found
    return None if result is None else replace(result, status=unschedulable_status(*reasons))


def _run_plugin_steps(
    plugin: ExtenderPostFilterPlugin, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle, extenders: Sequence[Extender]
) -> Steps[PostFiltered]:
    try:
        return (yield from plugin.post_filter_steps(pod, diagnosis, cycle, extenders))
    except PluginFailed:
        raise
    except Exception as problem:
        raise PluginFailed(plugin.name, "PostFilter", f"{type(problem).__name__}: {problem}") from problem
