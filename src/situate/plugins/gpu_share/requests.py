"""What pods say about GPUs, in annotations: before they have a node, what they want; afterwards, what they got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from situate.framework.pod.pods import PodInfo

MILLI: Final = "alibabacloud.com/gpu-milli"
"""Of a pod: thousandths of each GPU that it wants; all of it where it only says how many."""
COUNT: Final = "alibabacloud.com/gpu-count"
"""Of a pod: so many GPUs, one where it only says how much of it. Of a node: the resource that counts its GPUs."""
MODEL: Final = "alibabacloud.com/gpu-card-model"
"""Of a pod: the models that will do, `A|B`; without it every one does. Of a node: the label with its model."""
INDEX: Final = "alibabacloud.com/gpu-index"
"""Of a pod with a node: the devices that it got there, `0-1`, counted from 0."""

WHOLE: Final = 1000
"""Thousandths of a GPU."""
MOST_DEVICES: Final = 64
"""A node has no more than these, whatever it says, so that a wrong number costs no memory."""

ASKS: Final = (MILLI, COUNT, MODEL)


class BadRequest(ValueError):
    """An annotation says nothing that can be acted on."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a pod wants: `milli` on each of `count` devices of one node."""

    count: int
    milli: int
    """1 to `WHOLE`."""
    models: tuple[str, ...] = ()
    """One of these; empty is any."""

    @property
    def total(self) -> int:
        """Thousandths of GPUs."""
        return self.count * self.milli


def gpu_request(annotations: Mapping[str, str]) -> GpuRequest | None:
    """None for a pod that wants no GPU; `BadRequest` names the annotation."""
    if MILLI not in annotations and COUNT not in annotations:
        return None
    milli = _number(annotations, MILLI, WHOLE)
    count = _number(annotations, COUNT, MOST_DEVICES)
    if milli == 0 or count == 0:
        return None
    models = tuple(filter(None, annotations.get(MODEL, "").split("|")))
    return GpuRequest(1 if count is None else count, WHOLE if milli is None else milli, models)


def index_text(devices: Iterable[int]) -> str:
    """As `INDEX` has it."""
    return "-".join(map(str, devices))


def held_devices(info: PodInfo) -> list[tuple[int, int]]:
    """Device and thousandths that a pod in place holds: nothing where it does not say which devices it got."""
    text = info.pod.metadata.annotations.get(INDEX, "")
    if not text:
        return []
    try:
        request = gpu_request(info.template.annotations)
    except BadRequest:
        return []
    numbers = text.split("-")
    if request is None or not all(number.isascii() and number.isdigit() and len(number) < 4 for number in numbers):
        return []
    return [(device, request.milli) for device in sorted(set(map(int, numbers))) if device < MOST_DEVICES]


def _number(annotations: Mapping[str, str], key: str, most: int) -> int | None:
    """None where the annotation is missing."""
    text = annotations.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise BadRequest(f"annotation {key} is {text[:40]!r}; allowed: whole numbers from 0 to {most}")
    return int(text)
