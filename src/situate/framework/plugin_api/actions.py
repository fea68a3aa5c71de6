"""What a scheduling decision asks to be done: values that the shell performs, one after the other, and reports on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from situate.framework.plugin_api.configuration import Extender
from situate.framework.pod.pods import PodKey


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod to the node (POST pods/binding). The uid keeps a pod of the same name from being bound instead."""

    pod: PodKey
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindByExtender:
    """Have an extender bind the pod. Whether it has when it does not answer, only the pod itself can tell."""

    pod: PodKey
    uid: str
    node: str
    extender: Extender
    otherwise: tuple[Action, ...] = ()
    """What binds the pod if the extender fails and may be ignored; without it binding has failed then."""


@dataclass(frozen=True, slots=True)
class Evict:
    """End a pod to make room: condition `DisruptionTarget`, then delete it."""

    pod: PodKey
    uid: str
    reason: str
    message: str
    """What its condition says."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write `status.nominatedNodeName`; empty clears it."""

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
    """Wait, once the actions before it are done, until storage is ready for the pod: claims bound, volumes made.

    `situate.plugins.volume_binding_progress` says how far that is, whenever something may have changed; if it takes
    longer than `timeout_s`, binding has failed.
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
    """A claim for which a volume is being made."""

    claim: PodKey
    before: str
    """The claim's resourceVersion before it was written; empty if nothing was written."""


Action: TypeAlias = Bind | BindByExtender | Evict | Nominate | Patch | AwaitVolumes
