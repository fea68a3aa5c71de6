"""Neon's vectors of the migration controller, played through the migrator with its compatible settings.

A `reconcile` of upstream's does several things in one call; here it is as many looks as come before the migration waits
or changes its phase, but one alone while the migration is being prepared. What a note calls a defect is expected as it
should be (D9, D10): the README of the vectors says what that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from situate.vm.api.well_known import MACHINE_KIND, MIGRATION_KIND
from situate.vm.emulator import Kind, Settings
from situate.vm.emulator import object_fields as field
from situate.vm.emulator.hypervisor import HYPERVISOR
from situate.vm.emulator.runner_pods import RECEIVE
from tests.conformance.outcome import PASSED, Case, Outcome, UnknownOperationError, UnknownPhraseError, failed
from tests.conformance.remarks import is_for_people
from tests.vm.emulator.town import Refused, Town

Json = Any
_VM: Final = "test-vm"
"""As the reference's own tests call it, of which some look for that in names that are made of it."""
_MOST_LOOKS: Final = 20
_KINDS: Final = {MACHINE_KIND: Kind.MACHINE, MIGRATION_KIND: Kind.MIGRATION, "Pod": Kind.POD}
_OTHER_PHASES: Final = ("", "Pending", "Scaling", "Migrating", "Succeeded", "Failed")
"""Of a machine that is not Running and not frozen by the migration itself."""
_DEFECTS: Final = {
    ("Pending", "start refused by the hypervisor"),
    ("Pending", "target pod succeeded or failed"),
}
"""What the reference does not store, or does not undo: the failure is stored, and the machine is given back (D10)."""
_ROW: Final = frozenset(
    {"name", "id", "from", "when", "to", "vm_phase", "action", "condition", "conditions", "requeue_s", "result"}
)
_ONE_REASON: Final = "Reconciling"
_OTHERWISE: Final = ("anything else", "otherwise")
"""None of the other conditions that are listed for the phase holds."""


class _Town(Town):
    """A machine with its pod, in the compatible mode."""

    def __init__(self, vm_phase: str = "Running", vm_pod_ip: str = "1.2.3.4") -> None:
        super().__init__(Settings(compat=True))
        self.running(_VM, vm_phase, status={"podIP": vm_pod_ip})

    def reconcile(self, name: str) -> str:
        """The result of one call, as the vectors word it."""
        for _ in range(_MOST_LOOKS):
            before = self.objects.get((Kind.MIGRATION, name))
            if before is None:
                return "done"
            preparing, phase = not _prepared(before) and not field.is_deleting(before), field.phase(before)
            try:
                looked = self.step(Kind.MIGRATION, name)
            except Refused:
                return "error"
            after = self.objects.get((Kind.MIGRATION, name))
            moved_on = after is not None and field.phase(after) != phase and field.phase(after) != "Failed"
            if looked.write is None or preparing or moved_on:
                return _result(looked.requeue_at, self.now)
        raise AssertionError(f"{name} is never quiet: {self.writes[-3:]}")

    def phase(self, name: str) -> str:
        return field.phase(self.objects[Kind.MIGRATION, name])

    @property
    def vm_phase(self) -> str:
        return field.phase(self.vm(_VM))

    def behave(self, text: str) -> None:
        self.change(Kind.MACHINE, _VM, {"metadata": {"annotations": {HYPERVISOR: text}}})

    def to_phase(self, name: str, wanted: str) -> None:
        """Plays on, pods coming up as they are made, until the migration is in that phase."""
        for _ in range(_MOST_LOOKS):
            if self.phase(name) == wanted:
                return
            if self.target is not None:
                _pod(self, "Running")
            self.reconcile(name)
            self.now += 10
        raise AssertionError(f"{name} does not become {wanted!r} but is {self.phase(name)!r}")


def migration_case(case: Case) -> Outcome:
    return _transition(case) if "from" in case else _played(case)


def cases(document: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """Of every list of the file; a transition is named for where it begins and when."""
    found: list[Mapping[str, Json]] = []
    for entries in (value for value in document.values() if isinstance(value, list)):
        for case in entries:
            named = "name" in case or "from" not in case
            found.append(case if named else {"name": f"{case['from'] or 'new'}: {case['when']}", **case})
    return found


RUNNERS: Final[Mapping[str, Callable[[Case], Outcome]]] = {"migration_controller.json": migration_case}
CASES: Final[Mapping[str, Callable[[Any], Any]]] = {"migration_controller.json": cases}


def _played(case: Case) -> Outcome:
    state = case.get("state") or {}
    town = _Town(state.get("vm_phase", "Running"), state.get("vm_pod_ip", ""))
    last = ""
    for number, step in enumerate(case["steps"], 1):
        last, result = _step(town, step, last)
        wrong = list(_differences(town, last, result, step.get("expect") or {}))
        if wrong:
            return failed(f"step {number}: {'; '.join(wrong)}")
    return _wanted(town, last, case)


def _step(town: _Town, step: Mapping[str, Json], last: str) -> tuple[str, str]:
    """The migration that it was about, and the result if it was a reconcile."""
    match {key: value for key, value in step.items() if key != "expect" and not is_for_people(key)}:
        case {"create_migration": name}:
            town.migration(name, _VM)
            return name, ""
        case {"delete_migration": name}:
            town.delete(Kind.MIGRATION, name)
            return name, ""
        case {"reconcile": str(name)}:
            return name, town.reconcile(name)
        case {"reconcile": int()}:
            return last, town.reconcile(last)
        case {"reconcile_to_pending": asked}:
            name = asked if isinstance(asked, str) else last
            _until(town, name, lambda: town.phase(name) == "Pending")
            return name, ""
        case {"reconcile_to_pre_pending": asked}:
            name = asked if isinstance(asked, str) else last
            _until(town, name, lambda: _prepared(town.objects[Kind.MIGRATION, name]))
            return name, ""
        case {"fail_updates_of": kind}:
            town.refused_kind = _KINDS[kind]
            return last, ""
        case {"restore_updates": _}:
            town.refused_kind = None
            return last, ""
        case other:
            raise UnknownOperationError(f"step {sorted(other)}")


def _until(town: _Town, name: str, holds: Callable[[], bool]) -> None:
    for _ in range(_MOST_LOOKS):
        if holds():
            return
        town.reconcile(name)
    raise AssertionError(f"{name} does not get there; its phase is {town.phase(name)!r}")


def _differences(town: _Town, name: str, result: str, expected: Mapping[str, Json]) -> Iterator[str]:
    migration = town.objects.get((Kind.MIGRATION, name))
    for key, wanted in expected.items():
        actual = _actual(town, migration, result, key, wanted)
        if actual != wanted:
            yield f"{key}: expected {wanted!r}, got {actual!r}"


def _actual(town: _Town, migration: Mapping[str, Json] | None, result: str, key: str, wanted: Json) -> Json:
    match key:
        case "result":
            return result
        case "vm_phase":
            return town.vm_phase
        case "migration_exists":
            return migration is not None
    if migration is None:
        return None if wanted is None else "no such migration"
    match key:
        case "phase":
            return field.phase(migration)
        case "finalizers":
            found = migration["metadata"].get("finalizers") or []
            return len(found) if isinstance(wanted, int) else found
        case "conditions":
            return _conditions(migration, wanted)
        case "controlled_by_vm":
            return field.is_owned_by(migration, town.objects[Kind.MACHINE, _VM], controller=True)
        case "target_pod_name":
            return field.status(migration).get("targetPodName", wanted and "")
        case "target_pod_name_contains":
            return wanted if wanted in field.status(migration).get("targetPodName", "") else ""
        case _:
            raise UnknownOperationError(f"expect {key}")


def _conditions(migration: Mapping[str, Json], wanted: Json) -> Json:
    """In the form of what is wanted: `Type=Status`, a mapping, or conditions with the fields that matter."""
    there = field.status(migration).get("conditions") or []
    if isinstance(wanted, Mapping):
        return {each["type"]: each["status"] for each in there}
    if wanted and isinstance(wanted[0], str):
        return [f"{each['type']}={each['status']}" for each in there]
    shown = [{key: _said(each, key, asked) for key in asked} for each, asked in zip(there, wanted, strict=False)]
    return [*shown, *there[len(wanted) :]]


def _said(condition: Mapping[str, Json], key: str, asked: Mapping[str, Json]) -> Json:
    """A condition's field. Upstream has one reason for all of them, and each of ours, which say more, stands for it."""
    if key == "reason" and asked[key] == _ONE_REASON and condition.get(key):
        return _ONE_REASON
    return condition.get(key)


def _wanted(town: _Town, name: str, case: Case) -> Outcome:
    """What has to become of it where upstream's outcome is a defect (D9)."""
    match case.get("wanted_outcome"):
        case None:
            return PASSED
        case text if "Pending" in text:
            town.reconcile(name)
            reached = (town.phase(name), town.vm_phase)
            return PASSED if reached == ("Pending", "PreMigrating") else failed(f"migration and machine are {reached}")
        case text if "Failed" in text or "back to Running" in text:
            town.reconcile(name)
            reached = (town.phase(name), town.vm_phase)
            return PASSED if reached == ("Failed", "Running") else failed(f"migration and machine are {reached}")
        case text:
            raise UnknownPhraseError(text)


def _transition(case: Case) -> Outcome:
    if unknown := {name for name in case.keys() - _ROW if not is_for_people(name)}:
        raise UnknownOperationError(f"row with {', '.join(sorted(unknown))}; known: {', '.join(sorted(_ROW))}")
    wrong: list[str] = []
    for phase in _phases(case["from"]):
        for town in _arranged(phase, _plain(case["when"])):
            result = town.reconcile("m")
            wrong += (f"from {phase!r}: {each}" for each in _transition_differences(town, result, case))
    return failed("; ".join(wrong)) if wrong else PASSED


def _phases(told: str) -> list[str]:
    """The phases of `Pending|Running`; those of a migration under way where any is meant."""
    if re.fullmatch(r"any( non-deleted| phase)?( that is not deleted)?", told):
        return ["", "Pending", "Running"]
    return re.split(r"\s*(?:\||,| or )\s*", told)


def _plain(when: str) -> str:
    """The condition in the words that are looked for."""
    return re.sub(r"\bVM( object)?\b", "vm", when.strip())


def _arranged(phase: str, when: str) -> Iterator[_Town]:
    """Every situation that a row speaks of."""
    if phase == "" and (when in _OTHERWISE or "anything else" in when or "not Running" in when):
        for other in _OTHER_PHASES:
            yield _prepared_town(other)
        return
    if phase == "" and (found := re.fullmatch("vm phase (?:is )?(Pending|Scaling|Migrating|Succeeded|Failed)", when)):
        yield _prepared_town(found[1])
        return
    town = _prepared_town("Running")
    match phase, when:
        case "", "vm phase is Running":
            pass
        case "", text if _without_machine(text):
            del town.objects[Kind.MACHINE, _VM]
        case "Pending" | "Running", text if _without_machine(text):
            town.behave('{"stallAtPercent": 50}')
            town.to_phase("m", phase)
            del town.objects[Kind.MACHINE, _VM]
        case "Pending", text if re.search(r"target pod.*\b(missing|gone|absent|not found|does not exist)\b", text):
            town.to_phase("m", "Pending")
        case "Pending", text if "source pod lacks" in text:
            town.to_phase("m", "Pending")
            town.reconcile("m")
            source = town.objects[Kind.POD, f"{_VM}-source"]
            owners = [each for each in field.owners(source) if each["kind"] == MACHINE_KIND]
            town.change(Kind.POD, f"{_VM}-source", {"metadata": {"ownerReferences": owners}})
        case "Pending", text if re.search(r"start (is )?refused|refuses (to|the) start", text):
            town.to_phase("m", "Pending")
            town.reconcile("m")
            _pod(town, "Running")
            town.behave('{"refuseStart": "no"}')
        case "Pending", text if ends := re.fullmatch(
            r"target pod (?:has |is )?(succeeded or failed|succeeded|failed)", text
        ):
            for ended in ("Succeeded", "Failed") if " or " in ends[1] else (ends[1].capitalize(),):
                one = _prepared_town("Running")
                one.to_phase("m", "Pending")
                one.reconcile("m")
                _pod(one, ended)
                yield one
            return
        case "Pending", text if not text.startswith("migration deleted") and (
            text in _OTHERWISE or "target pod pending" in text.lower() or "not" in text.split()
        ):
            town.to_phase("m", "Pending")
            town.reconcile("m")
        case "Pending", text if re.search("target pod.*(running|ready)|start accepted", text.lower()):
            town.to_phase("m", "Pending")
            town.reconcile("m")
            _pod(town, "Running")
        case "Succeeded", "sourcePodName set":
            town.to_phase("m", "Succeeded")
        case "Failed" | "Succeeded", text if found := re.fullmatch("vm phase (PreMigrating|Migrating|Running)", text):
            town.to_phase("m", "Running" if phase == "Failed" else phase)
            town.change(Kind.MIGRATION, "m", {"status": {"phase": phase}})
            town.change(Kind.MACHINE, _VM, {"status": {"phase": found[1]}})
        case "Succeeded", text if text in _OTHERWISE or text in ("sourcePodName empty", "sourcePodName not set"):
            town.to_phase("m", "Succeeded")
            town.settle(Kind.MIGRATION, "m")
        case "Failed", text if text in _OTHERWISE:
            town.to_phase("m", "Running")
            town.change(Kind.MIGRATION, "m", {"status": {"phase": "Failed"}})
            town.settle(Kind.MIGRATION, "m")
        case _, text if text.startswith("migration deleted"):
            if phase != "Succeeded":
                town.behave('{"stallAtPercent": 50}')
            town.to_phase("m", "Running" if phase == "Failed" else phase)
            if phase == "Failed":
                town.change(Kind.MIGRATION, "m", {"status": {"phase": "Failed"}})
            if phase == "Pending":
                town.reconcile("m")
            town.delete(Kind.MIGRATION, "m")
            if re.search(r"\bvm (is )?(absent|not found|gone)", text):
                del town.objects[Kind.MACHINE, _VM]
        case "Running", text if "completed" in text:
            town.to_phase("m", "Running")
            town.now += 60
        case "Running", text if "target pod" in text and any(each in text for each in ("missing", "gone", "not found")):
            town.to_phase("m", "Running")
            del town.objects[Kind.POD, town.objects[Kind.MIGRATION, "m"]["status"]["targetPodName"]]
        case "Running", text if "failed" in text and "pod" not in text:
            town.behave('{"failAtPercent": 99}')
            town.to_phase("m", "Running")
            town.now += 60
        case "Running", text if text in _OTHERWISE or "active" in text or "copying" in text:
            town.behave('{"stallAtPercent": 50}')
            town.to_phase("m", "Running")
        case _:
            raise UnknownPhraseError(when)
    yield town


def _without_machine(when: str) -> bool:
    return when.startswith("vm ") and any(
        each in when for each in ("absent", "not found", "deleted", "gone", "missing", "does not exist")
    )


def _prepared_town(vm_phase: str) -> _Town:
    town = _Town(vm_phase)
    town.migration("m", _VM)
    _until(town, "m", lambda: _prepared(town.objects[Kind.MIGRATION, "m"]))
    return town


def _pod(town: _Town, phase: str) -> None:
    target = town.target
    assert target is not None, "no target pod was made"
    town.comes_up(target["metadata"]["name"], "node-2", phase)


def _transition_differences(town: _Town, result: str, case: Case) -> Iterator[str]:
    expected = dict(case)
    migration = town.objects.get((Kind.MIGRATION, "m"))
    reached = "gone" if migration is None else field.phase(migration)
    if "note" in case and (case["from"], case["when"]) in _DEFECTS:
        expected.update({"to": "Failed", "vm_phase": "Running"})
        expected.pop("result", None)
    if reached != expected["to"]:
        yield f"to: expected {expected['to']!r}, got {reached!r}"
    if "vm_phase" in expected and (Kind.MACHINE, _VM) in town.objects and town.vm_phase != expected["vm_phase"]:
        yield f"vm_phase: expected {expected['vm_phase']!r}, got {town.vm_phase!r}"
    if "requeue_s" in expected and result != f"requeue_after_{expected['requeue_s']}s":
        yield f"requeue_s: expected {expected['requeue_s']}, got {result}"
    if expected.get("result") in ("done", "error") and result != expected["result"]:
        yield f"result: expected {expected['result']!r}, got {result!r}"
    if "condition" in expected:
        there = [] if migration is None else _conditions(migration, [""])
        if expected["condition"] not in there:
            yield f"condition: expected {expected['condition']}, got {there}"
    for wanted in expected.get("conditions") or ():
        found = [] if migration is None else field.status(migration).get("conditions") or []
        type_, _, status = wanted.partition("=") if isinstance(wanted, str) else ("", "", "")
        asked = {"type": type_, "status": status} if type_ else wanted
        if not any(all(_said(each, key, asked) == value for key, value in asked.items()) for each in found):
            yield f"conditions: expected {wanted}, got {found}"
    if "action" in expected:
        yield from _undone_of(town, migration, expected["action"])


def _undone_of(town: _Town, migration: Mapping[str, Json] | None, action: str) -> Iterator[str]:
    """What of an action did not happen; by other words than these the phases that the row names are judged alone."""
    target = town.target
    if action.startswith("create target pod"):
        if target is None:
            yield "no target pod was made"
            return
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        (term,) = target["spec"]["affinity"]["podAntiAffinity"][required]
        if (
            term["topologyKey"] != "kubernetes.io/hostname"
            or target["spec"]["containers"][0]["env"][0]["name"] != RECEIVE
        ):
            yield f"the target pod is another: {target['spec']}"
    elif action.startswith("delete the source pod"):
        if (Kind.POD, f"{_VM}-source") in town.objects:
            yield "the source pod is there"
        said = {} if migration is None else field.status(migration)
        if said.get("sourcePodName") or said.get("sourcePodIP"):
            yield "the source's name is there"
    elif re.match(r"(add|set)\b.*\bowner", action):
        source = town.objects[Kind.POD, f"{_VM}-source"]
        if migration is None or not field.is_owned_by(source, migration, controller=False):
            yield f"the migration does not own the source pod: {field.owners(source)}"
    elif action.startswith("cancel in hypervisor") and target is not None:
        yield "the target pod is there"


def _prepared(migration: Mapping[str, Json]) -> bool:
    return bool(field.status(migration).get("targetPodName"))


def _result(again_at: float | None, now: float) -> str:
    return "done" if again_at is None else f"requeue_after_{again_at - now:.0f}s"
