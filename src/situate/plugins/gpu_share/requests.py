"""GPU requests and allocations in annotations of Pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from situate.framework.pod.pods import PodInfo

MILLI: Final = "alibabacloud.com/gpu-milli"
"""Of a Pod: requested thousandths of each GPU; whole GPUs if only the count is set."""
COUNT: Final = "alibabacloud.com/gpu-count"
"""Of a Pod: the number of GPUs; one if only `MILLI` is set. Of a node: the resource that counts its GPUs."""
MODEL: Final = "alibabacloud.com/gpu-card-model"
"""Of a Pod: the allowed models, `A|B`; any model without it. Of a node: the label with its model."""
INDEX: Final = "alibabacloud.com/gpu-index"
"""Of a Pod with a node: its devices there, such as `0-1`, numbered from 0."""

WHOLE: Final = 1000
"""The thousandths of a whole GPU."""
MOST_DEVICES: Final = 64
"""Upper limit of a node's devices, so that a wrong number costs no memory."""

REQUEST_KEYS: Final = (MILLI, COUNT, MODEL)


class BadRequest(ValueError):
    """An annotation is invalid."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A Pod's request: `milli` on each of `count` devices of one node."""

    count: int
    milli: int
    """1 to `WHOLE`."""
    models: tuple[str, ...] = ()
    """One of these models; empty means any."""

    @property
    def total(self) -> int:
        """Thousandths of GPUs."""
        return self.count * self.milli


def gpu_request(annotations: Mapping[str, str]) -> GpuRequest | None:
    """Read the request; None for a Pod without GPUs. `BadRequest` names the annotation."""
    if MILLI not in annotations and COUNT not in annotations:
        return None
    milli = _number(annotations, MILLI, WHOLE)
    count = _number(annotations, COUNT, MOST_DEVICES)
    if milli == 0 or count == 0:
        return None
    models = tuple(filter(None, annotations.get(MODEL, "").split("|")))
    return GpuRequest(1 if count is None else count, WHOLE if milli is None else milli, models)


def index_text(devices: Iterable[int]) -> str:
    """Return the value of `INDEX` for these devices."""
    return "-".join(map(str, devices))


def held_devices(info: PodInfo) -> list[tuple[int, int]]:
    """Return devices and thousandths that a placed Pod holds; empty without a valid device annotation."""
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
    """Return the number; None if the annotation is missing."""
    text = annotations.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise BadRequest(f"annotation {key} is {text[:40]!r}; allowed: whole numbers from 0 to {most}")
    return int(text)
