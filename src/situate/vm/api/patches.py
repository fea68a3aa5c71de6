"""The bodies of what we write: JSON patches whose tests keep them from reaching anything but what was decided on.

Every write names the uid of its object, and one that depends on more tests that too (B44), so that each may be repeated
and none undoes what somebody else has written meanwhile. What grants room tests the resourceVersion as well: a text
that was changed and changed back says nothing of what was granted in between, and to whom. Sending is the shell's.
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
from situate.vm.api.quantities import amounts_text, read_amounts, shown_amount
from situate.vm.api.well_known import APPROVED, CLAIM_CLOSED, REQUESTED, RESIZE_REQUESTED, SCALING_UNIT
from situate.vm.model.actions import Approve, ResizePod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import CPU, RESOURCES, Amounts


@dataclass(frozen=True, slots=True)
class Create:
    """A new object; that it exists already is success."""

    resource: ResourceType[Any]
    namespace: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """Deletes the object with this uid; that it is gone is success. An empty uid is whichever has the name now."""

    resource: ResourceType[Any]
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Change:
    """A patch of an object, or of its subresource."""

    resource: ResourceType[Any]
    namespace: str
    name: str
    patch: Patch
    subresource: str | None = None


OK: Final = "ok"
REFUSED: Final = "refused"
"""Trying again would say the same."""
CONFLICT: Final = "conflict"
"""The object has changed: it has to be decided anew."""
UNKNOWN: Final = "unknown"
"""It may have been carried out, or may still be."""
DENIED: Final = "denied"
"""A quota or a LimitRange forbids it, as long as it says so."""
LATER: Final = "later"
"""The same request may be accepted in a while."""

_NO_SUPPORT: Final = "Pod running on node without support for resize"
"""What the API server says as well of a pod whose kubelet has not reported yet what its containers run with."""


def invalid(causes: Sequence[str]) -> str:
    """What a 422 means, by the messages of its causes: a test of the patch that failed names no cause (B36)."""
    if not causes:
        return CONFLICT
    return LATER if any(_NO_SUPPORT in each for each in causes) else REFUSED


@dataclass(frozen=True, slots=True)
class Moot:
    """There is nothing to send."""

    why: str
    outcome: str = REFUSED
    """As `situate.vm.model.events.Written` has it."""


Write: TypeAlias = Create | Remove | Change | Moot


def annotate(
    meta: ObjectMeta, notes: Mapping[str, str], tests: Mapping[str, str] | None = None, without: str = ""
) -> JsonPatch:
    """Sets annotations of the object with this uid. `tests`: annotations that must still have these texts.

    `without`: one that is taken away if it is there, and still as it was seen. Of an object without any annotation the
    whole map is written, and its resourceVersion tested instead (D20).
    """
    patch = _annotate(meta, notes, tests or {}, set_with="add")
    if without not in meta.annotations:
        return patch
    gone = [
        {"op": "test", "path": _path(without), "value": meta.annotations[without]},
        {"op": "remove", "path": _path(without)},
    ]
    return JsonPatch([*patch.body, *gone])


def _annotate(meta: ObjectMeta, notes: Mapping[str, str], tests: Mapping[str, str], set_with: str) -> JsonPatch:
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if not meta.annotations:
        operations.append(_version(meta))
        operations.append({"op": "add", "path": "/metadata/annotations", "value": dict(notes)})
        return JsonPatch(operations)
    operations += [{"op": "test", "path": _path(key), "value": text} for key, text in tests.items()]
    for key, text in notes.items():
        how = set_with if key in meta.annotations else "add"
        operations.append({"op": how, "path": _path(key), "value": text})
    return JsonPatch(operations)


def approval(action: Approve, machine: Unstructured, resource: ResourceType[Any], rules: Rules) -> Change | Moot:
    """C26: what is approved, as long as unit and request are those that were decided on.

    They are tested as the texts that the machine has, whoever wrote them in whichever words, and so is the
    resourceVersion: an approval that arrives late finds the request of its time again if an agent has asked for less
    and then for as much, and the room may be another's by then. What is granted to one pod of the machine is not to
    count for the next one, which may stand elsewhere: the name of its pod is tested as well.
    """
    meta = machine.metadata
    runs_in = "" if rules.compat else _runs_in(machine)
    if runs_in and runs_in != action.pod.name:
        return Moot(f"it runs in {runs_in} by now", CONFLICT)
    tests: dict[str, str] = {}
    by_version = not rules.compat
    for key, amount in ((SCALING_UNIT, action.unit), (REQUESTED, action.requested)):
        text = meta.annotations.get(key)
        if text is None:
            by_version = True  # no text can be tested
            continue
        said = read_amounts(text, Place.annotation(f"VirtualMachine {action.machine}", key))
        if said != amount.compute:
            return Moot(f"{key} is {text} by now", CONFLICT)
        tests[key] = text
    notes = {APPROVED: amounts_text(action.amount)}
    if action.closed_claim:
        notes[CLAIM_CLOSED] = action.closed_claim
    patch = _annotate(meta, notes, tests, set_with="replace" if rules.compat else "add")
    if by_version and meta.annotations:
        patch = JsonPatch([_version(meta), *patch.body])
    if runs_in:
        patch = JsonPatch([{"op": "test", "path": "/status/podName", "value": runs_in}, *patch.body])
    return Change(resource, meta.namespace, meta.name, patch)


def _version(meta: ObjectMeta) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": meta.resource_version}


def _runs_in(machine: Unstructured) -> str:
    """The name of its pod, as far as its status says one."""
    status = machine.content.get("status")
    name = status.get("podName") if isinstance(status, dict) else None
    return name if isinstance(name, str) else ""


def resized(action: ResizePod, pod: Pod, resource: ResourceType[Any], rules: Rules) -> Change | Moot:
    """B34, B47: requests of one container so that the pod asks for the amount, and limits by the same difference.

    Only where the container has that request, and a limit only where it has one: nothing is added that would change
    the pod's QoS class. It tests that the container still has the amounts that it is computed from, and of a wish that
    it stands, and that nothing of the pod has changed since, as a wish may be taken back and made again: one that comes
    late changes nothing that somebody else counts on by then. A runner pod's requests grant nothing: what comes late
    there is put right by the next one, and its grant is not to wait for it.
    """
    if action.wish and pod.metadata.annotations.get(RESIZE_REQUESTED) != action.wish:
        return Moot(f"pod {action.pod} wishes something else by now", CONFLICT)
    container = _container(action, pod)
    if container is None:
        return Moot(f"pod {action.pod} has no container {action.container!r} that requests cpu or memory")
    names = rules.resources[: len(RESOURCES)]
    own = _own(action, container, pod, names)
    kind = "containers" if container in pod.spec.containers else "initContainers"
    place = f"/spec/{kind}/{getattr(pod.spec, _FIELDS[kind]).index(container)}"
    tests: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": f"{place}/name", "value": container.name},
    ]
    if action.wish:
        tests.append({"op": "test", "path": _path(RESIZE_REQUESTED), "value": action.wish})
        tests.append(_version(pod.metadata))
    changes: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        if name not in container.resources.requests:
            continue
        difference = own[number] - _amount(container.resources.requests[name], name)
        for part, amounts in (("requests", container.resources.requests), ("limits", container.resources.limits)):
            if difference and name in amounts:
                path = f"{place}/resources/{part}/{name}"
                tests.append({"op": "test", "path": path, "value": str(amounts[name])})
                changes.append({"op": "replace", "path": path, "value": _plus(amounts[name], name, difference)})
    if not changes:
        return Moot(f"pod {action.pod} asks for that already", OK)
    return Change(resource, pod.metadata.namespace, pod.metadata.name, JsonPatch([*tests, *changes]), "resize")


_FIELDS: Final = {"containers": "containers", "initContainers": "init_containers"}


def _container(action: ResizePod, pod: Pod) -> Container | None:
    """Of init containers only one that is named, which is a sidecar then."""
    sidecars = (each for each in pod.spec.init_containers if each.name == action.container)
    for container in (*pod.spec.containers, *sidecars):
        named = container.name == action.container if action.container else True
        if named and any(name in container.resources.requests for name in RESOURCES):
            return container
    return None


def _own(action: ResizePod, container: Container, pod: Pod, names: tuple[str, ...]) -> Amounts:
    """What the container is to request."""
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


def _plus(quantity: Quantity, name: str, difference: int) -> str:
    return shown_amount(name, _amount(quantity, name) + difference)


def _path(key: str) -> str:
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
