"""DynamicResources: refuses Pods that claim devices, with a reason (upstream plugins/dynamicresources, KEP-4381).

Dynamic resource allocation is not supported. A Pod placed without its devices could not start. The plugin exists so
that configurations with its name load.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from situate.framework.plugin_api.events import EventHint
from situate.framework.plugin_api.plugin import SKIPPED, Diagnosis, PostFiltered, PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.post_filter import Cycle
from situate.framework.results.status import Code, unresolvable_status, unschedulable_status
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.settings.section import Duration, Mistake


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's DynamicResourcesArgs; accepted without effect, because no devices are allocated."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration = 600.0

    def mistakes(self) -> Iterable[Mistake]:
        if self.binding_timeout < 1.0:
            yield Mistake("bindingTimeout", f"{self.binding_timeout:g}s", "1s or more")


class DynamicResources:
    """A PreFilter plugin that refuses every Pod with `spec.resourceClaims`."""

    name = "DynamicResources"
    about_claims = True
    arguments = DynamicResourcesArgs

    def __init__(self, arguments: DynamicResourcesArgs = DynamicResourcesArgs()) -> None:  # noqa: B008  # frozen
        pass

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Refuse a Pod with claims; skip other Pods."""
        claims = pod.pod.spec.resource_claims
        if not claims:
            return SKIPPED
        names = ", ".join(claim.name for claim in claims)
        return PreFiltered(
            unresolvable_status(
                f"pod claims devices (spec.resourceClaims: {names}), which this scheduler does not allocate; "
                "set schedulerName to a scheduler that supports dynamic resource allocation, such as kube-scheduler"
            )
        )

    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: Cycle) -> PostFiltered:  # noqa: ARG002
        """Return no nomination, because there is no allocation to release. The messages are upstream's.

        As upstream, the result is unresolvable if PreFilter ended before this plugin ran. This stops the later
        PostFilter plugins, so that no preemption follows.
        """
        refusal = diagnosis.status
        order = [plugin.name for plugin in cycle.profile.pre_filter]
        if (
            refusal is not None
            and refusal.code is Code.UNRESOLVABLE
            and refusal.plugin in order
            and order.index(refusal.plugin) < order.index(self.name)
        ):
            return PostFiltered(unresolvable_status("not found"))
        return PostFiltered(unschedulable_status("no new claims to deallocate"))

    def events(self) -> tuple[EventHint, ...]:
        """Return no events, because the claims of a Pod do not change."""
        return ()
