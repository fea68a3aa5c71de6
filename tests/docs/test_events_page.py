"""The page on Events and conditions names every reason and every condition type that the code writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from situate.scheduler.controller.pod_conditions import (
    DISRUPTION_TARGET,
    POD_SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
)
from situate.sharding.model.names import ARCHIVE_FAILED, ASSIGNED, Failure, Reason
from situate.spot.controller.act.conditions import CONDITION
from situate.spot.controller.act.notify import _EVENT_VERBS
from situate.spot.model.misplaced_pods import BlockReason
from situate.vm.api.resize_annotation import INFEASIBLE
from situate.vm.api.well_known import NEEDS_NODE, NOT_RESIZED, RESIZE_REFUSED
from situate.vm.emulator.controller.apply import FAILED_CREATE
from situate.vm.ledger.grants.pod_resize import _REFUSAL_BY_OUTCOME
from situate.vm.ledger.migrations.eviction import EvictionRefusalReason
from situate.vpod.config.settings import SourceSettings
from situate.vpod.state.fairness_limits import Rule

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "situate"
PAGE = (ROOT / "docs" / "reference" / "events-and-conditions.md").read_text(encoding="utf-8")

EVENTS = {
    "scheduler": {"record": 2, "_record": 2, "_record_event": 2},
    "vpod": {"record": 2, "_record": 2, "record_apart": 2, "Notice": 0},
    "spot": {"record": 2, "_record": 2, "_record_event": 2, "_add_notice": 1, "_note": 1},
    "sharding": {"record": 2, "_record": 2, "record_event": 2, "event": 2},
    "vm": {
        "record": 2,
        "_record": 2,
        "notify": 1,
        "add_notifications": 1,
        "Notify": 1,
        "Note": 1,
        "_fail": 2,
        "_record_deletion": 3,
        "_ended_patch": 3,
        "failure_patch": 2,
    },
}
"""By product the functions that write an Event, or pass one on, and the place of the reason among their arguments."""

PASSED_ON = {
    # the reason comes from another of these functions
    "reason",
    "action.reason",
    "notice.reason",
    "note.reason",
    "told.reason",
    # another function of the same name
    "_bytes(most)",
    "at",
    "draft",
    "leadership",
    "now",
    "obj",
    "peer",
    "pod",
    "problem",
    "result",
    "self._now()",
    "name",
    "action.name",
    "after",
}
RESOLVED = {
    "_NOT_UNDERSTOOD": {"NotUnderstood"},
    "decision.shortage.reason": {"NotEnoughReplicas", Rule.WEIGHT.value, Rule.QUOTA.value},
    "str(BlockReason.NO_ON_DEMAND_ROOM)": {str(BlockReason.NO_ON_DEMAND_ROOM)},
    "f'Pod{done}'": {f"Pod{done}" for done in _EVENT_VERBS.values()},
    "f'PodNot{done}'": {f"PodNot{done}" for done in _EVENT_VERBS.values()},
    "found.reason.value": {each.value for each in EvictionRefusalReason},
    "NEEDS_NODE": {NEEDS_NODE},
    "RESIZE_REFUSED": {RESIZE_REFUSED},
    "FAILED_CREATE": {FAILED_CREATE},
}
"""What stands there in place of a text, and its values."""

ONLY_LOGGED = {"DrainCancelled", "DrainTimedOut"}
"""Notices of vpod's autoscaler."""


def calls(product: str, names: dict[str, int], files: str = "**/*.py") -> Iterator[tuple[Path, ast.expr]]:
    """Of each such call the one argument."""
    for path in sorted((SOURCE / product).glob(files)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in names and len(node.args) > names[name]:
                    yield path, node.args[names[name]]


def texts(argument: ast.expr) -> Iterator[str]:
    """The texts that an argument may be: itself, or the branches of a conditional expression."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.IfExp):
        yield from texts(argument.body)
        yield from texts(argument.orelse)


def assigned(path: Path, name: str) -> set[str]:
    """The texts that are given to a name in a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == name for each in node.targets
        ):
            found |= set(texts(node.value))
    return found


def reasons(product: str) -> set[str]:
    found: set[str] = set()
    for path, argument in calls(product, EVENTS[product]):
        said = ast.unparse(argument)
        if known := set(texts(argument)):
            found |= known
        elif said in RESOLVED:
            found |= RESOLVED[said]
        else:
            assert said in PASSED_ON, f"{path.relative_to(ROOT)}: which reasons may {said} be?"
            found |= assigned(path, said)
    return {each for each in found if re.fullmatch(r"[A-Z][A-Za-z]+", each)} - ONLY_LOGGED


def section(product: str) -> str:
    return PAGE[PAGE.index(f"\n## {product}\n") :].split("\n## ", 2)[1]


def rows(product: str, header: str) -> list[str]:
    """Of the tables in a section that begin with this header."""
    tables = re.findall(r"(?:^\|.*\n)+", section(product), re.MULTILINE)
    return [row for table in tables if table.startswith(header) for row in table.splitlines()[2:]]


def named(product: str, header: str) -> set[str]:
    """What the first cells of these tables name."""
    return set(re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in rows(product, header))))


OF_EVENTS = "| reason | type |"
OF_CONDITIONS = "| condition type |"
OF_REFUSALS = "| reason | meaning |"


@pytest.mark.parametrize("product", EVENTS)
def test_the_reasons_of_events_are_those_that_are_recorded(product: str) -> None:
    failures = {each.value for each in Failure} if product == "sharding" else set()  # reasons of `Complete`
    assert named(product, OF_EVENTS) == reasons(product) | failures


def refusals() -> set[str]:
    """The reasons of `ResizeRefused`."""
    found = {INFEASIBLE, *(reason for reason, _ in _REFUSAL_BY_OUTCOME.values())}
    for path, argument in calls("vm", {"Refusal": 0}):
        known = set(texts(argument))
        assert known or ast.unparse(argument) in ("INFEASIBLE", "reason"), path
        found |= known
    return found


def test_every_reason_against_a_resize_is_on_the_page() -> None:
    assert named("vm", OF_REFUSALS) == refusals()


CONDITIONS = (
    ("scheduler", "controller/*.py", "ConditionChange", 0),
    ("vpod", "controller/*.py", "ScheduledCondition", 0),
    ("sharding", "assignment/conditions.py", "_condition_write", 1),
    ("vm", "ledger/**/*.py", "Condition", 1),
    ("vm", "emulator/*.py", "with_condition", 1),
)
"""Product, files, the function that makes a condition, and the place of the type among its arguments."""

TYPES = {
    "POD_SCHEDULED": {POD_SCHEDULED},
    "DISRUPTION_TARGET": {DISRUPTION_TARGET},
    "NEEDS_NODE": {NEEDS_NODE},
    "RESIZE_REFUSED": {RESIZE_REFUSED},
    "NOT_RESIZED": {NOT_RESIZED},
    "ASSIGNED": {ASSIGNED},
    "ARCHIVE_FAILED": {ARCHIVE_FAILED},
    "kind": {"Available", "Scaling"},  # emulator/machine.py
    "settings.condition": {SourceSettings(kind=kind).condition for kind in ("ConsumerGroup", "Report")},
    "condition": {SourceSettings(kind=kind).condition for kind in ("ConsumerGroup", "Report")},
}


@pytest.mark.parametrize(("product", "files", "function", "place"), CONDITIONS)
def test_every_type_of_a_condition_is_on_the_page(product: str, files: str, function: str, place: int) -> None:
    found: set[str] = set()
    for path, argument in calls(product, {function: place}, files):
        said = ast.unparse(argument)
        types = TYPES.get(said, set(texts(argument)))
        assert types, f"{path.relative_to(ROOT)}: which types may {said} be?"
        found |= types
    assert found
    assert not found - named(product, OF_CONDITIONS)


def test_the_condition_of_spot_is_on_the_page() -> None:
    assert named("spot", OF_CONDITIONS) == {CONDITION}


def test_the_reasons_of_conditions_are_on_the_page() -> None:
    told = {
        "scheduler": {UNSCHEDULABLE, SCHEDULER_ERROR},
        "vpod": {each.value for each in Rule},
        "sharding": {each.value for each in Reason},
    }
    for product, names in told.items():
        table = " ".join(rows(product, OF_CONDITIONS)) if product != "vpod" else section(product)
        assert not [name for name in sorted(names) if f"`{name}`" not in table]
