"""GpuShare: checks the free capacity of each device of a node, in addition to their sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.framework.plugin_api.actions import Action, Patch
from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import SKIPPED, PreFiltered, Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.resources import amounts
from situate.framework.results.status import SKIP, SUCCESS, Code, Status
from situate.framework.results.verdict import Verdict, refuse_in_turn
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node
from situate.plugins.gpu_share.devices import Devices, idle_amounts, tightest_devices
from situate.plugins.gpu_share.requests import (
    COUNT,
    INDEX,
    MODEL,
    REQUEST_KEYS,
    BadRequest,
    GpuRequest,
    gpu_request,
    held_devices,
    index_text,
)


class GpuShare:
    """A Filter plugin for devices, which also allocates the tightest devices of the chosen node.

    A Pod with a share of a GPU must fit on one device. A Pod with several GPUs needs that number of fitting devices. A
    placed Pod without a device annotation holds no device here.
    """

    name = "GpuShare"
    reads = Reads.LOAD
    annotations: Final = REQUEST_KEYS
    allotments: Final = (INDEX,)

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Read the request; skip for a Pod without GPUs; unresolvable for invalid annotations."""
        try:
            request = gpu_request(pod.template.annotations)
        except BadRequest as problem:
            return PreFiltered(Status(Code.UNRESOLVABLE, (str(problem),)))
        return SKIPPED if request is None else PreFiltered(state=request)

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Refuse nodes: unresolvable with too few devices or another model, else unschedulable."""
        request: GpuRequest = state
        devices = Devices.from_nodes(snapshot.nodes)
        few = snapshot.static((GpuShare.name, "few", request.count), lambda _: devices.count < request.count)
        others = snapshot.static(
            (GpuShare.name, "models", request.models), lambda _: ~devices.have_model(request.models)
        )
        fitting = (idle_amounts(snapshot) >= request.milli).sum(axis=0)
        return refuse_in_turn(
            (few, "node(s) didn't have enough GPUs", Code.UNRESOLVABLE),
            (others, "node(s) didn't have GPUs of the wanted model", Code.UNRESOLVABLE),
            (fitting < request.count, "node(s) didn't have enough idle GPUs", Code.UNSCHEDULABLE),
        )

    def reserves(self, pod: PodInfo) -> bool:
        """Return whether the Pod requests devices, which are allocated Pod by Pod."""
        return _request(pod) is not None

    def allot(self, pod: PodInfo, node: Snapshot) -> Mapping[str, str]:
        """Return the Pod's devices as an annotation. An existing one is from an earlier attempt and is ignored."""
        request = _request(pod)
        return {} if request is None else {INDEX: index_text(self.pick(pod, request, node))}

    def pick(self, pod: PodInfo, request: GpuRequest, node: Snapshot) -> list[int]:  # noqa: ARG002
        """Select devices of the snapshot's only node, ascending; empty if they are not sufficient."""
        return tightest_devices(idle_amounts(node)[:, 0], request)

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:  # noqa: ARG002
        return SUCCESS if INDEX in pod.pod.metadata.annotations and self.reserves(pod) else SKIP

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:  # noqa: ARG002
        """Write the devices to the Pod, where the node's device plugin reads them."""
        told = {INDEX: pod.pod.metadata.annotations[INDEX]}
        return (Patch("pods", pod.key, {"metadata": {"uid": pod.uid, "annotations": told}}),)

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for Pods that release devices, and for nodes that are new or get other devices or models."""
        return (
            EventHint(Subject.ASSIGNED_POD, Change.DELETE, _hint_after_pod),
            EventHint(Subject.NODE, Change.ADD | Change.ALLOCATABLE | Change.LABELS, _hint_after_node),
        )


def _request(pod: PodInfo) -> GpuRequest | None:
    try:
        return gpu_request(pod.template.annotations)
    except BadRequest:
        return None


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if held_devices(old) else Hint.SKIP


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    """Queue if the node has enough devices of an allowed model, and more than before."""
    request = _request(pod)
    if request is None:
        return Hint.SKIP
    before, after = _count_allowed_devices(request, old), _count_allowed_devices(request, new)
    return Hint.QUEUE if after >= request.count and after > before else Hint.SKIP


def _count_allowed_devices(request: GpuRequest, node: Node | None) -> int:
    """Return the number of devices of an allowed model."""
    if node is None or (request.models and node.metadata.labels.get(MODEL) not in request.models):
        return 0
    return amounts(node.status.allocatable).get(COUNT, 0)
