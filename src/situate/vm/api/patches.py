"""Bodies of all writes: JSON patches with tests, so that a patch changes only the state that was decided on.

Every write tests the UID of its object, and every further value that it depends on (B44). So each write can be
repeated, and none undoes a later write of another client. Writes that grant capacity also test the resourceVersion. A
text that was changed and changed back does not show the grants made in between. The shell sends the writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from situate.kube.patches import JsonPatch, Patch
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Container, Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.objects.values.quantity import Quantity
from situate.vm.api.parse_errors import Place
from situate.vm.api.quantities import amounts_text, format_amount, read_amounts
from situate.vm.api.well_known import APPROVED, CLAIM_CLOSED, REQUESTED, RESIZE_REQUESTED, SCALING_UNIT
from situate.vm.model.actions import Approve, ResizePod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import CPU, RESOURCES, Amounts


@dataclass(frozen=True, slots=True)
class CreateObject:
    """A new object. AlreadyExists counts as success."""

    resource: ResourceType[Any]
    namespace: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Deletion of the object with this UID. NotFound counts as success.

    With an empty UID, it deletes the current object of that name.
    """

    resource: ResourceType[Any]
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchObject:
    """A patch of an object or its subresource."""

    resource: ResourceType[Any]
    namespace: str
    name: str
    patch: Patch
    subresource: str | None = None


OK: Final = "ok"
REFUSED: Final = "refused"
"""A retry would give the same result."""
CONFLICT: Final = "conflict"
"""The object has changed: the decision must be made again."""
UNKNOWN: Final = "unknown"
"""The write may be stored, or may still be stored later."""
DENIED: Final = "denied"
"""A quota or a LimitRange forbids the write for now."""
LATER: Final = "later"
"""The same request may be accepted later."""

_NO_SUPPORT: Final = "Pod running on node without support for resize"
"""Error of the API server also for a Pod whose kubelet has not reported the resources of its containers yet."""


def invalid_outcome(causes: Sequence[str]) -> str:
    """Return the outcome of a 422 from the messages of its causes. A failed test of the patch has no cause (B36)."""
    if not causes:
        return CONFLICT
    return LATER if any(_NO_SUPPORT in each for each in causes) else REFUSED


@dataclass(frozen=True, slots=True)
class NothingToWrite:
    """There is nothing to send."""

    why: str
    outcome: str = REFUSED
    """One of the outcomes of `situate.vm.model.events.Written`."""


Write: TypeAlias = CreateObject | DeleteObject | PatchObject | NothingToWrite


def annotate(
    meta: ObjectMeta, notes: Mapping[str, str], tests: Mapping[str, str] | None = None, without: str = ""
) -> JsonPatch:
    """Set annotations of the object with this UID. `tests`: annotations that must still have these texts.

    `without`: an annotation to remove, if present and unchanged. If the object has no annotations, the patch writes the
    whole map and tests the resourceVersion instead (D20).
    """
    patch = _annotation_patch(meta, notes, tests or {}, set_with="add")
    if without not in meta.annotations:
        return patch
    gone = [
        {"op": "test", "path": _path(without), "value": meta.annotations[without]},
        {"op": "remove", "path": _path(without)},
    ]
    return JsonPatch([*patch.body, *gone])


def _annotation_patch(meta: ObjectMeta, notes: Mapping[str, str], tests: Mapping[str, str], set_with: str) -> JsonPatch:
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if not meta.annotations:
        operations.append(_version_test(meta))
        operations.append({"op": "add", "path": "/metadata/annotations", "value": dict(notes)})
        return JsonPatch(operations)
    operations += [{"op": "test", "path": _path(key), "value": text} for key, text in tests.items()]
    for key, text in notes.items():
        how = set_with if key in meta.annotations else "add"
        operations.append({"op": how, "path": _path(key), "value": text})
    return JsonPatch(operations)


def approval_patch(
    action: Approve, machine: Unstructured, resource: ResourceType[Any], rules: Rules
) -> PatchObject | NothingToWrite:
    """Write the approved amount if unit and request are still those that were decided on (C26).

    The patch tests their texts as the VM has them, in any notation, and the resourceVersion. Without the latter, a late
    approval could match again. An agent may have asked for less and then for the same amount, and the capacity may be
    granted to another VM meanwhile. The patch also tests the name of the VM's Pod. A grant for one Pod of the VM must
    not count for the next one, which may be on another node.
    """
    meta = machine.metadata
    runs_in = "" if rules.compat else _pod_name_in_status(machine)
    if runs_in and runs_in != action.pod.name:
        return NothingToWrite(f"the VM now runs in {runs_in}", CONFLICT)
    tests: dict[str, str] = {}
    by_version = not rules.compat
    for key, amount in ((SCALING_UNIT, action.unit), (REQUESTED, action.requested)):
        text = meta.annotations.get(key)
        if text is None:
            by_version = True  # no text can be tested
            continue
        said = read_amounts(text, Place.annotation(f"VirtualMachine {action.machine}", key))
        if said != amount.compute_resources:
            return NothingToWrite(f"{key} is now {text}", CONFLICT)
        tests[key] = text
    notes = {APPROVED: amounts_text(action.amount)}
    if action.closed_claim:
        notes[CLAIM_CLOSED] = action.closed_claim
    patch = _annotation_patch(meta, notes, tests, set_with="replace" if rules.compat else "add")
    if by_version and meta.annotations:
        patch = JsonPatch([_version_test(meta), *patch.body])
    if runs_in:
        patch = JsonPatch([{"op": "test", "path": "/status/podName", "value": runs_in}, *patch.body])
    return PatchObject(resource, meta.namespace, meta.name, patch)


def _version_test(meta: ObjectMeta) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}


def _pod_name_in_status(machine: Unstructured) -> str:
    """Return the name of its Pod in its status; empty if there is none."""
    status = machine.content.get("status")
    name = status.get("podName") if isinstance(status, dict) else None
    return name if isinstance(name, str) else ""


def resize_patch(
    action: ResizePod, pod: Pod, resource: ResourceType[Any], rules: Rules
) -> PatchObject | NothingToWrite:
    """Patch the requests of one container so that the Pod requests the amount, and limits likewise (B34, B47).

    Limits change by the same difference. Only requests and limits that the container has are changed, so the QoS class
    of the Pod stays. The patch tests the amounts that it is computed from.

    For a resize request of the owner, it also tests the request and the resourceVersion, because a request may be
    withdrawn and made again. So a late patch changes no amount that others rely on by then. The requests of a runner
    Pod grant nothing. There, the next patch corrects a late one, and the grant does not wait.
    """
    if action.request_text and pod.metadata.annotations.get(RESIZE_REQUESTED) != action.request_text:
        return NothingToWrite(f"the request on pod {action.pod} has changed", CONFLICT)
    container = _container(action, pod)
    if container is None:
        return NothingToWrite(f"pod {action.pod} has no container {action.container!r} with a cpu or memory request")
    names = rules.resources[: len(RESOURCES)]
    own = _container_amounts(action, container, pod, names)
    kind = "containers" if container in pod.spec.containers else "initContainers"
    place = f"/spec/{kind}/{getattr(pod.spec, _FIELDS[kind]).index(container)}"
    tests: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": f"{place}/name", "value": container.name},
    ]
    if action.request_text:
        tests.append({"op": "test", "path": _path(RESIZE_REQUESTED), "value": action.request_text})
        tests.append(_version_test(pod.metadata))
    changes: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        if name not in container.resources.requests:
            continue
        difference = own[number] - _amount(container.resources.requests[name], name)
        for part, amounts in (("requests", container.resources.requests), ("limits", container.resources.limits)):
            if difference and name in amounts:
                path = f"{place}/resources/{part}/{name}"
                tests.append({"op": "test", "path": path, "value": str(amounts[name])})
                changes.append(
                    {"op": "replace", "path": path, "value": _increased_text(amounts[name], name, difference)}
                )
    if not changes:
        return NothingToWrite(f"pod {action.pod} already has these requests", OK)
    return PatchObject(resource, pod.metadata.namespace, pod.metadata.name, JsonPatch([*tests, *changes]), "resize")


_FIELDS: Final = {"containers": "containers", "initContainers": "init_containers"}


def _container(action: ResizePod, pod: Pod) -> Container | None:
    """Return the container to resize. Of the init containers, only a named one, which then is a sidecar."""
    sidecars = (each for each in pod.spec.init_containers if each.name == action.container)
    for container in (*pod.spec.containers, *sidecars):
        named = container.name == action.container if action.container else True
        if named and any(name in container.resources.requests for name in RESOURCES):
            return container
    return None


def _container_amounts(action: ResizePod, container: Container, pod: Pod, names: tuple[str, ...]) -> Amounts:
    """Return the amounts that the container must request."""
    if action.own is not None:
        return action.own
    others = [each.resources.requests for each in pod.spec.containers if each is not container]
    return Amounts(
        tuple(
            action.amount[place] - sum(_amount(requests[name], name) for requests in others if name in requests)
            for place, name in enumerate(names)
        )
    )


def _amount(quantity: Quantity, name: str) -> int:
    return quantity.milli_value if name == RESOURCES[CPU] else quantity.value


def _increased_text(quantity: Quantity, name: str, difference: int) -> str:
    return format_amount(name, _amount(quantity, name) + difference)


def _path(key: str) -> str:
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
