"""DynamicResources: pods that claim devices are refused, and told so (upstream plugins/dynamicresources, KEP-4381).

Dynamic resource allocation is not supported: no devices are allocated here, and a pod placed without its devices could
not start. The plugin stands where upstream's does, so that configurations which name it load.
"""

from __future__ import annotations

import msgspec

from situate.framework.events import EventHint
from situate.framework.plugin import SKIPPED, PreFiltered
from situate.framework.pods import PodInfo
from situate.framework.snapshot import Snapshot
from situate.framework.status import unresolvable
from situate.objects.settings import Duration


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Upstream's DynamicResourcesArgs; accepted, and of no effect while no devices are allocated."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration = 600.0


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

    def events(self) -> tuple[EventHint, ...]:
        """None: what a pod claims does not change."""
        return ()
