"""Readers of a history's objects, independent of the shipped code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from situate.objects.values.quantity import Quantity, decode_quantity
from situate.testing.vm.world.agents import milli
from situate.vm.api.well_known import CLAIM, NAME_LABEL
from situate.vm.model.resource_amounts import Amounts

Obj = Mapping[str, Any]
FROZEN: Final = frozenset({"PreMigrating", "Migrating"})
ACTIVE_PHASES: Final = frozenset({"", "Pending", "Running"})


def annotation_of(obj: Obj, key: str) -> str:
    """Return an annotation. Empty if it is absent."""
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def beneficiary_kind(migration: Obj) -> str:
    text = annotation_of(migration, CLAIM)
    return str(json.loads(text)["beneficiary"]["kind"]) if text else ""


def phase_of(obj: Obj) -> str:
    return str((obj.get("status") or {}).get("phase") or "")


def name_of(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def owner_of(pod: Obj) -> str:
    """Return the VM of a runner pod, even if the VM is deleted. Empty for every other pod."""
    return str((pod["metadata"].get("labels") or {}).get(NAME_LABEL, ""))


def is_target(pod: Obj) -> bool:
    """Return whether a VM moves into this pod. A pod that its VM has left has no controller any more (C3)."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(each["kind"] == "VirtualMachineMigration" and each.get("controller") for each in owners)


def total_of(node: Obj) -> Amounts:
    allocatable = node["status"]["allocatable"]
    return Amounts.from_values(milli(allocatable["cpu"]), to_bytes(str(allocatable["memory"])))


def divide_by_overcommit(amount: Amounts, machine: Obj) -> Amounts:
    """Return the amount as it counts on a node (C7). Overcommits of a history are in thousandths, like `1500m`."""
    overcommit = machine["spec"].get("overcommit") or {}
    by = (milli(overcommit.get("cpu", 1)), milli(overcommit.get("memory", 1)))
    return Amounts(tuple(each * 1000 // factor for each, factor in zip(amount, by, strict=True)))


@lru_cache(maxsize=4096)
def parse_amounts(text: str) -> Amounts:
    said = json.loads(text)
    return Amounts.from_values(milli(said["vCPUs"]), to_bytes(str(said["mem"])))


@lru_cache(maxsize=4096)
def to_bytes(text: str) -> int:
    return decode_quantity(Quantity, text).value
