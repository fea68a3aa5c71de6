"""Whoever moves by a plan is taken where the plan sends it, by the whole Filter: that of the ledger's own plugin too.

Plans ask the scheduler's filters without that plugin and count amounts themselves
(`situate.vm.placement.target_filter`), so the two must not disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from situate.objects.kinds import nodes, pods
from situate.vm.api.well_known import APPROVED, AUTO_MIGRATION_LABEL, ENABLED_LABEL, REQUESTED, SCALING_UNIT
from situate.vm.backends.systems import NEONVM
from situate.vm.config.settings import Scoring
from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.placement.target_filter import TargetFilter, planner_with_filter
from situate.vm.planning.plan import Plan, Way
from tests.vm.ledgers import Bench
from tests.vm.objects import GUEST, VM_OWNER, container, migration_owner, node, pod, runner

IGNORED = "overprovisioning"
RULES = Rules(scoring=Scoring(randomize=False), ignored_namespaces=(IGNORED,))
TAINT = {"key": "gpu", "effect": "NoSchedule"}
TOLERATION = {"key": "gpu", "operator": "Exists"}
LARGE = GUEST.replace('"1500m"', "16").replace('"max":3', '"max":64')
LABELS = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: "true"}
TRIED = range(120)
AT_ONCE = (Way.NEIGHBOURS, Way.ITSELF, Way.PART)
"""Ways whose moves wait for no other move."""


def amounts(cpus: int, gib: int) -> str:
    return f'{{"vCPUs":{cpus},"mem":"{gib}Gi"}}'


class Drawn:
    """A cluster in which `a` is short on n1; machines differ in where they may run."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.bench = Bench(RULES)
        self.machines: dict[str, dict[str, Any]] = {}
        self.bench.add(self._host("n1", 10))
        names = [f"n{number}" for number in range(2, self.rng.randint(4, 6))]
        for name in names:
            self.bench.add(self._host(name, self.rng.randint(3, 10)))
        self.bench.add(self._machine("a", "n1", 3, 3 + self.rng.randint(1, 5)))
        for number in range(self.rng.randint(2, 4)):
            self.bench.add(self._machine(f"b{number}", "n1", self.rng.randint(1, 3)))
        for number in range(self.rng.randint(0, 6)):
            self.bench.add(self._other(f"p{number}", self.rng.choice(names)))
        self.bench.listed()

    def _host(self, name: str, cpus: int) -> nodes.Node:
        spec = {"taints": [TAINT]} if self.rng.random() < 0.3 and name != "n1" else {}
        metadata = {"labels": {"disk": self.rng.choice(("fast", "slow"))}}
        return node(name, str(cpus), f"{4 * cpus}Gi", further={"pods": "110"}, spec=spec, metadata=metadata)

    def _machine(self, name: str, home: str, cpus: int, wants: int = 0) -> pods.Pod:
        notes = {
            "vm.neon.tech/resources": LARGE,
            SCALING_UNIT: amounts(1, 4),
            APPROVED: amounts(cpus, 4 * cpus),
            REQUESTED: amounts(wants or cpus, 4 * (wants or cpus)),
            "vm.neon.tech/overcommit": f'{{"cpu":{self.rng.choice((1, 1, 2))}}}',
        }
        spec: dict[str, Any] = {"containers": [container(cpu=f"{self.rng.randint(1, 10) * 100}m")]}
        if self.rng.random() < 0.4:
            spec["tolerations"] = [TOLERATION]
        if self.rng.random() < 0.3:
            spec["nodeSelector"] = {"disk": "fast"}
        self.machines[name] = {"annotations": notes, "labels": LABELS, **spec}
        return runner(name, **self.machines[name], owners=(self._owner(name),), nodeName=home)

    def _owner(self, name: str, *, controller: bool = True) -> dict[str, Any]:
        return {**VM_OWNER, "name": name, "uid": f"uid-vm-{name}", "controller": controller}

    def _other(self, name: str, home: str) -> pods.Pod:
        namespace = IGNORED if self.rng.random() < 0.5 else "default"
        held = self.rng.randint(1, 3)
        asked = container(cpu=str(held), memory=f"{4 * held}Gi")
        return pod(name, asked, metadata={"namespace": namespace}, nodeName=home)

    def plan(self) -> Plan:
        fits = TargetFilter(self.bench.engine, self.bench.ledger, NEONVM)
        return planner_with_filter(fits).plan(self.bench.ledger.state, "uid-a", self.bench.now, RULES)

    def begin(self, plan: Plan) -> None:
        """The moves are under way, and their targets wait for a node."""
        self.bench.hold(plan.claims, [replace(move, requested_at=self.bench.now) for move in plan.moves])
        for move in plan.moves:
            self.bench.add(self._target(move))

    def _target(self, move: Move) -> pods.Pod:
        name = move.machine.name
        owners = (
            self._owner(name, controller=False),
            {**migration_owner(controller=True), "name": move.name},
        )
        return runner(f"{name}-target", **self.machines[name], owners=owners)


def planned() -> Iterator[tuple[Drawn, Plan]]:
    for seed in TRIED:
        drawn = Drawn(seed)
        plan = drawn.plan()
        if plan.way in AT_ONCE:
            yield drawn, plan


@pytest.mark.rule("vm:B12", "vm:B13", "vm:B14")
def test_each_target_of_a_plan_passes_the_whole_filter_together_with_the_others() -> None:
    found = list(planned())
    for drawn, plan in found:
        drawn.begin(plan)
        sent = {f"{move.machine.name}-target": move.target_node for move in plan.moves}
        assert drawn.bench.place() == sent, plan
    assert len(found) >= len(TRIED) // 3, "of so many there is a plan"
    assert {plan.way for _, plan in found} == set(AT_ONCE)
