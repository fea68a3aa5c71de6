"""Any order of looks, late writes, faults and wishes: a machine never loses the pod that it runs in, and all ends well.

Late writes are what a leader that was paused, or a request that was slow, brings: decided on an old sight, made now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situate.vm.api.well_known import CLAIM, HANDOVER
from situate.vm.emulator import Delete, Kind, Write
from situate.vm.emulator import object_fields as field
from situate.vm.emulator.hypervisor import HYPERVISOR
from tests.vm.emulator.town import Refused, Town

MACHINE, MIGRATION, POD = Kind.MACHINE, Kind.MIGRATION, Kind.POD
_BEHAVIOURS = (
    "{}",
    '{"failAtPercent": 99}',
    '{"stallAtPercent": 50}',
    '{"refuseStart": "no"}',
    '{"bandwidth": "64Mi"}',
)
_MOST_MIGRATIONS = 4

what = st.sampled_from(
    [
        *["look"] * 12,
        *["settle"] * 6,
        *["hold"] * 3,
        *["release"] * 3,
        *["pod up"] * 5,
        "pod up at home",
        "pod ends",
        "pod gone",
        *["migrate"] * 3,
        "cancel",
        *["wait"] * 3,
        "wait long",
        "behave",
        "resize",
        "hand over",
    ]
)
steps = st.lists(st.tuples(what, st.integers(0, 7)), min_size=20, max_size=90)


class History:
    def __init__(self) -> None:
        self.town = Town()
        self.town.running()
        self.held: list[Write] = []
        self.migrations = 0

    def play(self, step: str, number: int) -> None:
        town = self.town
        keys = [key for key in town.objects if key[0] is not POD]
        kind, name = keys[number % len(keys)]
        pods = [key[1] for key in town.objects if key[0] is POD]
        moves = [key[1] for key in town.objects if key[0] is MIGRATION]
        match step:
            case "look" | "hold":
                write = town.look(kind, name).write
                if write is not None and step == "look":
                    self.perform(write)
                elif write is not None:
                    self.held.append(write)
            case "settle":
                self.settle(kind, name)
            case "release" if self.held:
                self.perform(self.held.pop(number % len(self.held)))
            case "pod up" | "pod up at home" | "pod ends" if pods:
                pod = pods[number % len(pods)]
                home = "node-1" if step == "pod up at home" else f"node-{2 + number % 3}"
                node = town.pod(pod)["spec"].get("nodeName") or home
                if not field.has_ended(town.pod(pod)):
                    town.comes_up(pod, node, "Failed" if step == "pod ends" else "Running")
            case "pod gone" if pods:
                town.delete(POD, pods[number % len(pods)])
            case "migrate" if self.migrations < _MOST_MIGRATIONS and (number == 0 or not self.at_work()):
                self.migrations += 1
                claim = {"annotations": {CLAIM: "{}"}} if number % 2 else {}
                town.migration(f"m{self.migrations}", metadata=claim)
            case "cancel" if moves:
                town.delete(MIGRATION, moves[number % len(moves)])
            case "wait" | "wait long":
                town.now += 500 if step == "wait long" else 0.7
            case "behave":
                behaviour = _BEHAVIOURS[number % len(_BEHAVIOURS)]
                town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: behaviour}}})
            case "resize":
                town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": 1 + number % 4}}}})
            case "hand over" if moves:
                change = {"metadata": {"annotations": {HANDOVER: "{}"}}}
                town.change(MIGRATION, moves[number % len(moves)], change)

    def at_work(self) -> bool:
        return any(field.phase(move) in field.ONGOING for move in self.town.all(MIGRATION))

    def perform(self, write: Write) -> None:
        vm = self.town.vm()
        at_home = field.phase(vm) in field.ALIVE and field.status(vm).get("podName")
        there = self.town.objects.get((POD, at_home or ""))
        try:
            self.town.perform(write)
        except Refused:
            return
        if isinstance(write, Delete) and write.kind is POD and there is not None:
            dead = field.has_ended(there)
            assert dead or (POD, at_home) in self.town.objects, f"deleted {at_home}, in which the machine runs"

    def settle(self, kind: Kind, name: str) -> None:
        for _ in range(60):
            write = self.town.look(kind, name).write if (kind, name) in self.town.objects else None
            if write is None:
                return
            self.perform(write)
        raise AssertionError(f"{name} is never quiet: {self.town.writes[-4:]}")

    def calm(self) -> None:
        """No more faults: pods come up where they may, hypervisors do what they should, and time goes on."""
        town = self.town
        for write in self.held:
            self.perform(write)
        town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: "{}"}}})
        for _ in range(12):
            for key in [*town.objects]:
                if key[0] is not POD:
                    self.settle(*key)
            for kind, name in [*town.objects]:
                if kind is POD and field.phase(town.pod(name)) == "Pending":
                    town.comes_up(name, town.pod(name)["spec"].get("nodeName") or f"node-{name}")
            town.now += 30


def story(town: Town) -> Mapping[str, Any]:
    return {f"{kind.value} {name}": field.status(obj) for (kind, name), obj in town.objects.items()}


@pytest.mark.rule("vm:I6", "vm:F1", "vm:F3", "vm:F4", "vm:F6", "vm:F7", "vm:F8", "vm:F12", "vm:C34")
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_whatever_happens_the_machine_runs_in_one_pod_in_the_end(played: list[tuple[str, int]]) -> None:
    history = History()
    for step, number in played:
        history.play(step, number)
    history.calm()
    town = history.town
    vm = town.vm()
    assert field.phase(vm) == "Running", story(town)
    assert [pod["metadata"]["name"] for pod in town.all(POD)] == [vm["status"]["podName"]], story(town)
    (pod,) = town.all(POD)
    assert [(each["kind"], each["controller"]) for each in field.owners(pod)] == [("VirtualMachine", True)], story(town)
    assert all(field.phase(move) in ("Succeeded", "Failed") for move in town.all(MIGRATION)), story(town)
    assert vm["status"]["cpus"] == vm["spec"]["guest"]["cpus"]["use"]
