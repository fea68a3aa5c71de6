"""`POST /resize` from a Pod's owner, without I/O: read the request, refuse it, and create the annotation (B34).

    {"pod": {"namespace": "default", "name": "web"}, "container": "app", "cpu": "2", "memory": "4Gi"}

The request becomes the Pod's annotation. So it equals a request by annotation, and it survives a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from situate.objects.kinds import pods as objects
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place
from situate.vm.api.pods import has_ended, machine_ref
from situate.vm.api.quantities import (
    ContainerResizeRequest,
    cpu_value,
    format_amount,
    json_text,
    memory_value,
    parse_resize,
)
from situate.vm.api.resize_annotation import init_container_refusal, named_container, other_resources_refusal
from situate.vm.model.pods_and_nodes import Node, Ref
from situate.vm.model.resource_amounts import RESOURCES
from situate.vm.protocol.permit_request import MAX_BODY, HttpAnswer, NoJson, decode_first_value


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    pod: Ref
    container_request: ContainerResizeRequest


def read_request(body: bytes) -> ResizeRequest | HttpAnswer:
    """Parse the request, or return the error. Only the first KiB of the body is read."""
    try:
        part = Part(Place("request", ""), decode_first_value(body[:MAX_BODY]))
        part.mapping()
        pod = part["pod"]
        return ResizeRequest(Ref(pod["namespace"].text(), pod["name"].text()), parse_resize(part))
    except NoJson as problem:
        return HttpAnswer(400, text=f"the body is not JSON of at most {MAX_BODY} bytes: {problem}")
    except ParseFailure as problem:
        return HttpAnswer(400, text=str(problem.error))


def resize_refusal(request: ResizeRequest, pod: objects.Pod | None, node: Node | None) -> HttpAnswer | None:
    """Return the refusal; None: the request is valid. `node` is the Pod's node, if known."""
    if pod is None:
        return HttpAnswer(404, text=f"pod {request.pod} is not known or was deleted")
    if not pod.spec.node_name or node is None:
        return HttpAnswer(404, text=f"pod {request.pod} is not bound to a known node yet; ask again after it is bound")
    if machine_ref(pod) is not None:
        return HttpAnswer(400, text=f"pod {request.pod} runs a VirtualMachine; its agent asks for permits instead")
    known = node.pods.get(pod.metadata.uid)
    if known is not None and known.machine is not None:
        return HttpAnswer(400, text=f"pod {request.pod} runs a VM; the VM system decides its size")
    if pod.metadata.deletion_timestamp is not None or has_ended(pod):
        return HttpAnswer(400, text=f"pod {request.pod} is terminating or has ended, so it is not resized")
    container = named_container(pod, request.container_request.container)
    if isinstance(container, ParseError):
        return HttpAnswer(
            400, text=f"container: found {request.container_request.container!r}, allowed: {container.allowed}"
        )
    refusal = init_container_refusal(pod, container) or other_resources_refusal(request.container_request)
    if refusal is not None:
        return HttpAnswer(400, text=f"{refusal.reason}: {refusal.message}")
    for place, wanted in enumerate((request.container_request.cpu, request.container_request.memory)):
        if wanted is not None and wanted > node.total[place]:
            name = RESOURCES[place]
            has = format_amount(name, node.total[place])
            return HttpAnswer(
                400, text=f"{name}: found {format_amount(name, wanted)}, allowed: at most {has}, the total of its node"
            )
    return None


def annotation_text(wish: ContainerResizeRequest) -> str:
    """Return the text of the annotation."""
    said: dict[str, Any] = {"container": wish.container} if wish.container else {}
    said |= _amount_fields(wish.cpu, wish.memory)
    step = _amount_fields(wish.cpu_step or None, wish.memory_step or None)
    return json_text(said | ({"step": step} if step else {}))


def _amount_fields(cpu: int | None, memory: int | None) -> dict[str, Any]:
    said = {} if cpu is None else {"cpu": cpu_value(cpu)}
    return said if memory is None else {**said, "memory": memory_value(memory)}
