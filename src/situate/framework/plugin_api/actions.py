"""Actions that a scheduling decision requests. The shell performs these values in order and reports the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodKey


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the Pod to the node (POST pods/binding). The uid prevents binding another Pod of the same name."""

    pod: PodKey
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindByExtender:
    """Have an extender bind the Pod. If the extender does not answer, only the Pod shows whether it was bound."""

    pod: PodKey
    uid: str
    node: str
    extender: Extender
    otherwise: tuple[Action, ...] = ()
    """Actions that bind the Pod if the extender fails and is ignorable. Without them, binding has then failed."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a Pod to free capacity: set the condition `DisruptionTarget`, then delete the Pod."""

    pod: PodKey
    uid: str
    reason: str
    message: str
    """The message of the condition."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write `status.nominatedNodeName`; an empty node clears it."""

    pod: PodKey
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge a patch into an object, or into its subresource."""

    resource: str
    name: PodKey
    body: dict[str, Any]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class AwaitVolumes:
    """Wait until storage is ready for the Pod: claims bound, volumes created. The earlier actions are done by then.

    `situate.plugins.volume_binding_progress` checks the progress after each change. If it takes longer than
    `timeout_s`, binding has failed.
    """

    pod: PodKey
    uid: str
    node: str
    given: tuple[AwaitedVolume, ...]
    wanted: tuple[AwaitedClaim, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AwaitedVolume:
    """A volume that is being bound to a claim."""

    volume: str
    claim: PodKey
    claim_uid: str
    before: str
    """The volume's resourceVersion before it was written; empty if nothing was written."""


@dataclass(frozen=True, slots=True)
class AwaitedClaim:
    """A claim whose volume is being created."""

    claim: PodKey
    before: str
    """The claim's resourceVersion before it was written; empty if nothing was written."""


Action: TypeAlias = Bind | BindByExtender | Evict | Nominate | Patch | AwaitVolumes
