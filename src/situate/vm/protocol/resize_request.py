"""`POST /resize` from a Pod's owner, without I/O: read the request, refuse it, and create the annotation (B34).

    {"pod": {"namespace": "default", "name": "web"}, "container": "app", "cpu": "2", "memory": "4Gi"}

The request becomes the Pod's annotation. So it equals a request by annotation, and it survives a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from situate.objects.kinds import pods as objects
from situate.vm.api.parse_errors import Misread, Part, Place, Unreadable
from situate.vm.api.pods import ended, machine_ref
from situate.vm.api.quantities import ResizeWish, cpu_value, json_text, memory_value, resize_of, shown_amount
from situate.vm.api.resize_annotation import named, of_other_resources, runs_once
from situate.vm.model.pods_and_nodes import Node, Ref
from situate.vm.model.resource_amounts import RESOURCES
from situate.vm.protocol.permit_request import MOST_BODY, Answer, NoJson, first_value


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    pod: Ref
    wish: ResizeWish


def read_request(body: bytes) -> ResizeRequest | Answer:
    """Parse the request, or return the error. Only the first KiB of the body is read."""
    try:
        part = Part(Place("request", ""), first_value(body[:MOST_BODY]))
        part.mapping()
        pod = part["pod"]
        return ResizeRequest(Ref(pod["namespace"].text(), pod["name"].text()), resize_of(part))
    except NoJson as problem:
        return Answer(400, text=f"the body is not JSON of at most {MOST_BODY} bytes: {problem}")
    except Misread as problem:
        return Answer(400, text=str(problem.unreadable))


def refused(request: ResizeRequest, pod: objects.Pod | None, node: Node | None) -> Answer | None:
    """Return the refusal; None: the request is valid. `node` is the Pod's node, if known."""
    if pod is None:
        return Answer(404, text=f"pod {request.pod} is not known or was deleted")
    if not pod.spec.node_name or node is None:
        return Answer(404, text=f"pod {request.pod} is not bound to a known node yet; ask again after it is bound")
    if machine_ref(pod) is not None:
        return Answer(400, text=f"pod {request.pod} runs a VirtualMachine; its agent asks for permits instead")
    known = node.pods.get(pod.metadata.uid)
    if known is not None and known.machine is not None:
        return Answer(400, text=f"pod {request.pod} runs a VM; the VM system decides its size")
    if pod.metadata.deletion_timestamp is not None or ended(pod):
        return Answer(400, text=f"pod {request.pod} is terminating or has ended, so it is not resized")
    container = named(pod, request.wish.container)
    if isinstance(container, Unreadable):
        return Answer(400, text=f"container: found {request.wish.container!r}, allowed: {container.allowed}")
    refusal = runs_once(pod, container) or of_other_resources(request.wish)
    if refusal is not None:
        return Answer(400, text=f"{refusal.reason}: {refusal.message}")
    for place, wanted in enumerate((request.wish.cpu, request.wish.memory)):
        if wanted is not None and wanted > node.total[place]:
            name = RESOURCES[place]
            has = shown_amount(name, node.total[place])
            return Answer(
                400, text=f"{name}: found {shown_amount(name, wanted)}, allowed: at most {has}, the total of its node"
            )
    return None


def note(wish: ResizeWish) -> str:
    """Return the text of the annotation."""
    said: dict[str, Any] = {"container": wish.container} if wish.container else {}
    said |= _amounts(wish.cpu, wish.memory)
    step = _amounts(wish.cpu_step or None, wish.memory_step or None)
    return json_text(said | ({"step": step} if step else {}))


def _amounts(cpu: int | None, memory: int | None) -> dict[str, Any]:
    said = {} if cpu is None else {"cpu": cpu_value(cpu)}
    return said if memory is None else {**said, "memory": memory_value(memory)}
