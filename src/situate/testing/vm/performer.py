"""Perform the steps of a history. A step that is impossible now does nothing."""

from __future__ import annotations

import json
from asyncio import Task
from collections import Counter
from functools import partial
from typing import Any, Final, assert_never

from situate.runtime.serving.webhook_server import Reply
from situate.testing.builders.objects import pod as pod_object
from situate.testing.histories.steps import Pass
from situate.testing.virtual_time.network import CALM
from situate.testing.vm import steps
from situate.testing.vm.history import MachinePlan, Settings
from situate.testing.vm.invariants.objects import Obj, divided, name_of, owner_of, phase
from situate.testing.vm.invariants.watchdog import Watchdog
from situate.testing.vm.steps import AnyStep, WorldStep
from situate.testing.vm.world.disturbances import Disturbing
from situate.testing.vm.world.history_world import SPARE, Place
from situate.testing.vm.world.nodes_and_pods import Ground
from situate.testing.vm.world.processes import MACHINES, MIGRATION_TABLE, MIGRATIONS, NAMESPACE, PODS
from situate.vm.api.quantities import GIB
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, CLAIM, DRAIN
from situate.vm.emulator.hypervisor import HYPERVISOR
from situate.vm.model.resource_amounts import Amounts

HEAL_TICK_S: Final = 10.0
_BEHAVIOURS: Final = {
    "refuse": {"refuseStart": "no route to host"},
    "stall": {"usedMemory": "1Gi", "bandwidth": "256Mi", "stallAtPercent": 40},
    "slow": {"usedMemory": "2Gi", "bandwidth": "128Mi", "dirtyRate": "80Mi"},
    "fail": {"usedMemory": "1Gi", "bandwidth": "192Mi", "failAtPercent": 99},
    "well": {"usedMemory": "1Gi", "bandwidth": "192Mi"},
}


class Performer:
    """Performs the steps of one history."""

    def __init__(self, place: Place, watchdog: Watchdog, settings: Settings, happened: Counter[str]) -> None:
        self._place = place
        self._watchdog = watchdog
        self._agents = watchdog.agents
        self._happened = happened
        self._ground = Ground(place, watchdog, settings, happened)
        self._plans = dict(enumerate(settings.machines))
        self._priorities: set[int] = set()
        self._behaviour = "well"
        self._agents.deaf = 0.05
        self._disturbing = Disturbing(place, happened)

    def begin(self) -> None:
        for plan in self._plans.values():
            self._create(plan)

    def add_pods(self, settings: Settings) -> None:
        for cpus in settings.pods:
            self._ground.add_pod(cpus)
        for number in settings.spare:
            self._ground.made += 1
            body = pod_object(f"spare{self._ground.made}", cpu="2", memory="8Gi", node=self._ground.node(number))
            answer = self._place.call("POST", f"/api/v1/namespaces/{SPARE}/pods", body)
            assert answer["kind"] == "Pod", answer

    def heal(self) -> None:
        """End every fault: processes run, messages arrive, nodes are whole, and hypervisors behave well."""
        place = self._place
        place.network.weather, place.refusing.how = CALM, ""
        place.network.leaving.clear()
        place.clock_off_s = 0.0
        self._agents.deaf, self._agents.tick_s = 0.0, HEAL_TICK_S
        for member in place.members:
            self._disturbing.wake(member)
        self._behave("well")
        for name in self._ground.nodes:
            self._ground.shrink(name, 0)
            self._ground.set_node(name, {"spec": {"unschedulable": None}, "metadata": {"annotations": {DRAIN: None}}})

    def perform(self, step: AnyStep) -> None:
        match step:
            case Pass():
                pass
            case steps.AwaitMove(most=most, claimed=claimed):
                self._await_move(most, claimed)
            case _ if isinstance(step, WorldStep):
                self._world(step)
            case _:
                self._disturbing.perform(step)

    def _world(self, step: WorldStep) -> None:
        match step:
            case steps.Wish(machine=number, cpu=cpu, memory=memory):
                if (name := self._machine(number)) is not None:
                    self._agents.wish(name, Amounts.of(250 * cpu, memory * GIB))
            case steps.Misask(machine=number, how=how):
                self._misask(number, how)
            case steps.Burst(requests=requests):
                self._happened["500 at once"] += requests >= 500
                self._agents.burst(requests)
            case steps.Create(cpus=cpus, migratable=migratable):
                if len(self._machines()) < len(self._plans) + 2:
                    self._create(MachinePlan(cpus, migratable, lowers=True, priority=0, overcommit=1000))
            case steps.Recreate(machine=number, whom=whom):
                self._recreate(number, whom)
            case steps.EvictMachine(machine=number):
                self._evict(number)
            case steps.Relabel(machine=number, what=what):
                self._relabel(number, what)
            case steps.Hypervise(how=how):
                self._happened[f"Hypervise {how}"] += 1
                self._behave(how)
            case steps.SpoilTarget(how=how):
                self._spoil_target(how)
            case steps.LoseNode(which=which, node=number, seconds=seconds):
                self._ground.lose_node(which, number, seconds)
            case steps.ShrinkNode(node=number, cpus=cpus):
                self._ground.shrink(self._ground.node(number), cpus)
            case steps.Cordon(node=number, on=on):
                self._ground.set_node(self._ground.node(number), {"spec": {"unschedulable": on or None}})
            case steps.Drain(node=number, on=on):
                self._ground.set_node(
                    self._ground.node(number), {"metadata": {"annotations": {DRAIN: "true" if on else None}}}
                )
            case steps.Intrude(node=number, cpus=cpus):
                self._ground.intrude(number, cpus)
            case steps.AddPod(cpus=cpus):
                if len(self._ground.plain()) < 6:
                    self._ground.add_pod(cpus)
            case steps.Leave(pod=number):
                if plain := self._ground.plain():
                    self._ground.delete_pod(name_of(plain[number % len(plain)]))
            case steps.Defer(pod=number, admitted=admitted):
                self._ground.defer(number, admitted)
            case steps.MoveByHand(machine=number):
                self._move_by_hand(number)
            case steps.DropMigration(migration=number, forced=forced):
                if moves := list(self._watchdog.counting.table(MIGRATION_TABLE)):
                    dropped = moves[number % len(moves)]
                    self._watchdog.dropped(dropped)
                    self._drop(name_of(dropped), forced)
            case _:
                assert_never(step)

    def _await_move(self, most: float, claimed: bool) -> None:
        until = self._place.now + most
        while self._place.now < until and not any(
            phase(each) == "Running" and (not claimed or self._beneficiary(each))
            for each, _ in self._watchdog.counting.moving()
        ):
            self._place.let_pass(0.5)

    def _machines(self) -> list[str]:
        return sorted(self._watchdog.counting.machines())

    def _machine(self, number: int) -> str | None:
        names = self._machines()
        return names[number % len(names)] if names else None

    def _create(self, plan: MachinePlan, name: str = "") -> None:
        if not name:
            name = f"v{self._ground.made}"
            self._ground.made += 1
        if plan.priority and plan.priority not in self._priorities:
            self._priorities.add(plan.priority)
            level = {"metadata": {"name": f"level-{plan.priority}"}, "value": plan.priority}
            self._place.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", level)
        more: dict[str, Any] = {"priorityClassName": f"level-{plan.priority}"} if plan.priority else {}
        if plan.overcommit != 1000:
            more["overcommit"] = {"cpu": f"{plan.overcommit}m", "memory": f"{plan.overcommit}m"}
        self._place.create_machine(
            name, cpus=plan.cpus, slots=4 * plan.cpus, migratable=plan.migratable, most_cpus=16, **more
        )
        self._place.annotate(f"{MACHINES}/{name}", {HYPERVISOR: json.dumps(_BEHAVIOURS[self._behaviour])})
        self._agents.watch_over(name, lowers=plan.lowers)

    def _recreate(self, number: int, whom: str) -> None:
        name, found = self._machine(number), "any"
        for migration, machine in self._watchdog.counting.moving():
            if whom == "moving":
                name, found = name_of(machine), whom
            elif whom == "beneficiary" and (beneficiary := self._beneficiary(migration)):
                name, found = beneficiary, whom
        if name is None:
            return
        self._happened[f"recreated {found}"] += 1
        for migration in self._watchdog.counting.table(MIGRATION_TABLE):
            if migration["spec"]["vmName"] == name:
                self._watchdog.dropped(migration)  # deleted together with their VM
        self._agents.by_name.pop(name, None)
        self._place.call("DELETE", f"{MACHINES}/{name}")
        again = MachinePlan(1, migratable=True, lowers=True, priority=0, overcommit=1000)
        self._place.timeline.after(3.0, partial(self._create_again, name, again))

    def _create_again(self, name: str, plan: MachinePlan) -> None:
        if name not in self._watchdog.counting.machines():
            self._create(plan, name)

    def _beneficiary(self, migration: Obj) -> str:
        """Return the VM for which a migration frees capacity. Empty: none."""
        text = (migration["metadata"].get("annotations") or {}).get(CLAIM)
        uid = json.loads(text)["beneficiary"]["uid"] if text else ""
        return next(
            (owner_of(pod) for pod in self._watchdog.counting.table("pods") if pod["metadata"]["uid"] == uid), ""
        )

    def _evict(self, number: int) -> None:
        """Request an eviction of a VM's pod through the leader.

        Without a leader, or on an error, the budget refuses it.
        """
        name, member = self._machine(number), self._place.leader()
        pod = self._place.machine(name).get("status", {}).get("podName") if name is not None else None
        if member is None or not pod:
            return
        self._happened["eviction asked for"] += 1

        def answered(task: Task[Reply]) -> None:
            if task.cancelled():
                return
            if (problem := task.exception()) is not None:
                self._watchdog.breach(f"B48: a review of an eviction is answered with an exception: {problem!r}")
            elif task.result().status == 200 and json.loads(task.result().body)["response"]["allowed"]:
                self._ground.delete_pod(pod)

        self._place.ask_to_evict(member, _review_of_eviction(pod)).add_done_callback(answered)

    def _relabel(self, number: int, what: str) -> None:
        name = next((name_of(machine) for _, machine in self._watchdog.counting.moving()), "")
        self._happened["relabelled mid-move"] += bool(name)
        name = name or self._machine(number) or ""
        machine = self._watchdog.counting.machines().get(name)
        if machine is None:
            return
        if what in ("immovable", "movable"):
            change: Any = {"metadata": {"labels": {AUTO_MIGRATION_LABEL: str(what == "movable").lower()}}}
        else:
            factor = "1500m" if what == "overcommit" else "1"
            change = {"spec": {"overcommit": {"cpu": factor, "memory": factor}}}
        before = divided(self._watchdog.counting.permitted(machine), machine)
        after = self._place.call("PATCH", f"{MACHINES}/{name}", change, patch=True)
        assert after["kind"] == "VirtualMachine", after
        more = (divided(self._watchdog.counting.permitted(after), after) - before).positive()
        if more:
            for pod in self._watchdog.counting.table("pods"):
                if owner_of(pod) == name:
                    self._watchdog.nodes.fact(pod["spec"].get("nodeName", ""), more)
            for each in self._watchdog.counting.table(MIGRATION_TABLE):
                if each["spec"]["vmName"] == name:
                    for node in self._ground.nodes:
                        self._watchdog.nodes.fact(node, more)

    def _behave(self, how: str) -> None:
        self._behaviour = how
        for name in self._machines():
            self._place.annotate(f"{MACHINES}/{name}", {HYPERVISOR: json.dumps(_BEHAVIOURS[how])})

    def _misask(self, number: int, how: str) -> None:
        name = self._machine(number)
        agent = self._agents.by_name.get(name or "")
        if agent is None or not agent.pod:
            return
        self._happened[f"Misask {how}"] += 1
        if how == "repeat":
            self._agents.repeat(agent)
        elif how == "reorder":
            self._agents.reorder(agent)
        elif how == "huge last permit":
            self._agents.ask(agent, lastPermit={"vCPUs": 100, "mem": "400Gi"})
        else:
            plain = self._ground.plain()
            self._agents.mistake(agent, how, name_of(plain[0]) if plain else "nobody")

    def _spoil_target(self, how: str) -> None:
        for migration, _ in self._watchdog.counting.moving():
            pod = (migration.get("status") or {}).get("targetPodName", "")
            there = self._ground.pod(pod)
            if there is None:
                continue
            self._happened[f"target {how}"] += 1
            if how == "crash":
                status = {"status": {"phase": "Failed"}}
                self._place.call("PATCH", f"{PODS}/{pod}/status", status, patch=True)
            elif how == "delete":
                self._ground.delete_pod(pod)
            else:
                notes = migration["metadata"].get("annotations") or {}
                node = there["spec"].get("nodeName") or notes.get("vm.situate.dev/target-node", "")
                self._ground.set_node(node, {"spec": {"unschedulable": True}})
            return

    def _move_by_hand(self, number: int) -> None:
        name = self._machine(number)
        if name is None:
            return
        self._ground.made += 1
        self._happened["made by hand"] += 1
        migration = {
            "apiVersion": "vm.neon.tech/v1",
            "kind": "VirtualMachineMigration",
            "metadata": {"name": f"by-hand-{self._ground.made}", "namespace": NAMESPACE},
            "spec": {"vmName": name},
        }
        self._place.call("POST", MIGRATIONS, migration)

    def _drop(self, name: str, forced: bool) -> None:
        self._happened["migration dropped by force" if forced else "migration dropped"] += 1
        self._place.call("DELETE", f"{MIGRATIONS}/{name}")
        if forced:
            self._place.call("PATCH", f"{MIGRATIONS}/{name}", {"metadata": {"finalizers": None}}, patch=True)


def _review_of_eviction(pod: str) -> bytes:
    request = {"uid": "1", "subResource": "eviction", "namespace": NAMESPACE, "name": pod, "operation": "CREATE"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request | {"object": eviction}}).encode()
