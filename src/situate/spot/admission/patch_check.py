"""Trial of a patch before it is sent.

If a patch does not apply, the API server answers the pod's creator with 500 (P2). Only `add` is supported, because no
other operation is sent. Additions that the API server would refuse are refused here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from situate.objects.selection.label_selectors import valid_label_key, valid_label_value
from situate.spot.admission.patch import Operation
from situate.spot.workloads.constraints import (
    PREFERRED,
    Json,
    as_list,
    as_mapping,
    has_requirements,
    label_requirements,
    required_terms,
)

MOST_ANNOTATION_BYTES: Final = 256 * 1024
"""Limit for all annotations together (apimachinery validation TotalAnnotationSizeLimitB)."""


class DoesNotApply(ValueError):
    """The patch does not apply to this object; the message names the path."""


def apply_operations(document: Json, operations: Iterable[Operation]) -> dict[str, Any]:
    """Return a copy of the document with the operations applied (RFC 6902, `add` alone)."""
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    for operation in operations:
        _add(changed, operation)
    return changed


def patch_faults(before: Json, after: Json) -> Iterator[str]:
    """Yield the defects of a patched pod: values that the server would refuse, or terms that could fit no node."""
    metadata = as_mapping(after.get("metadata"))
    for key, value in as_mapping(metadata.get("labels")).items():
        if as_mapping(as_mapping(before.get("metadata")).get("labels")).get(key) != value and not (
            valid_label_key(str(key)) and valid_label_value(str(value))
        ):
            yield f"metadata.labels[{key}]: found {value!r}, allowed: a valid label key and value"
    annotations = as_mapping(metadata.get("annotations"))
    size = sum(len(str(key).encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > MOST_ANNOTATION_BYTES:
        yield f"metadata.annotations: found {size} bytes, allowed: at most {MOST_ANNOTATION_BYTES}"
    before_spec, after_spec = as_mapping(before.get("spec")), as_mapping(after.get("spec"))
    yield from _forbidden_changes(before_spec, after_spec)
    for number, term in enumerate(required_terms(after_spec) or ()):
        if has_requirements(term) and len(list(label_requirements(term))) != len(
            as_list(as_mapping(term).get("matchExpressions"))
        ):
            yield f"spec.affinity.nodeAffinity: required term {number} cannot be read"
    preferred = as_mapping(as_mapping(after_spec.get("affinity")).get("nodeAffinity")).get(PREFERRED)
    for number, wish in enumerate(as_list(preferred)):
        weight = as_mapping(wish).get("weight")
        if not isinstance(weight, int) or not 1 <= weight <= 100:
            yield f"spec.affinity.nodeAffinity.{PREFERRED}[{number}].weight: found {weight!r}, allowed: 1 to 100"


def _forbidden_changes(before: Json, after: Json) -> Iterator[str]:
    for key in before.keys() | after.keys():
        if key not in ("affinity", "tolerations") and before.get(key) != after.get(key):
            yield f"spec.{key}: changed, allowed: affinity and tolerations"


def _add(document: Any, operation: Operation) -> None:
    path = str(operation["path"])
    value = copy.deepcopy(operation["value"])
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    holder = document
    for step in steps:
        holder = _child_of(holder, step, path)
    if isinstance(holder, list):
        if last == "-":
            holder.append(value)
            return
        index = _list_index(last, len(holder) + 1, path)
        holder.insert(index, value)
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        raise DoesNotApply(f"{path}: the parent is neither an object nor a list")


def _child_of(holder: Any, step: str, path: str) -> Any:
    if isinstance(holder, list):
        return holder[_list_index(step, len(holder), path)]
    if isinstance(holder, Mapping) and step in holder:
        return holder[step]
    raise DoesNotApply(f"{path}: {step!r} not found")


def _list_index(step: str, size: int, path: str) -> int:
    if not (step.isascii() and step.isdecimal()) or int(step) >= size:
        raise DoesNotApply(f"{path}: entry {step!r} not found")
    return int(step)
