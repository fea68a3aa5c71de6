"""DynamicResources: pods that claim devices are refused, and told so (upstream plugins/dynamicresources, KEP-4381).

Dynamic resource allocation is not supported: no devices are allocated here, and a pod placed without its devices could
not start. The plugin stands where upstream's does, so that configurations which name it load.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from situate.framework.plugin_api.events import EventHint
from situate.framework.plugin_api.plugin import SKIPPED, Diagnosis, PostFiltered, PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.post_filter import Cycle
from situate.framework.results.status import Code, unresolvable, unschedulable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.settings.section import Duration, Mistake


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's DynamicResourcesArgs; accepted, and of no effect while no devices are allocated."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration = 600.0

    def mistakes(self) -> Iterable[Mistake]:
        if self.binding_timeout < 1.0:
            yield Mistake("bindingTimeout", f"{self.binding_timeout:g}s", "1s or more")


class DynamicResources:
    """Refuses every pod with `spec.resourceClaims`."""

    name = "DynamicResources"
    about_claims = True
    arguments = DynamicResourcesArgs

    def __init__(self, arguments: DynamicResourcesArgs = DynamicResourcesArgs()) -> None:  # noqa: B008  # frozen
        pass

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Skipped for all other pods."""
        claims = pod.pod.spec.resource_claims
        if not claims:
            return SKIPPED
        names = ", ".join(claim.name for claim in claims)
        return PreFiltered(
            unresolvable(
                f"pod claims devices (spec.resourceClaims: {names}), which this scheduler does not allocate; "
                "give it the schedulerName of one that supports dynamic resource allocation, such as kube-scheduler"
            )
        )

    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle) -> PostFiltered:  # noqa: ARG002
        """Nothing: there is no allocation to take back. The words are upstream's.

        As there, it fails where PreFilter ended before its own was asked, and nobody behind it makes room then.
        """
        refusal = diagnosis.status
        order = [plugin.name for plugin in cycle.profile.pre_filter]
        if (
            refusal is not None
            and refusal.code is Code.UNRESOLVABLE
            and refusal.plugin in order
            and order.index(refusal.plugin) < order.index(self.name)
        ):
            return PostFiltered(unresolvable("not found"))
        return PostFiltered(unschedulable("no new claims to deallocate"))

    def events(self) -> tuple[EventHint, ...]:
        """None: what a pod claims does not change."""
        return ()
