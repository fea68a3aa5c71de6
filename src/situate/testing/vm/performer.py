"""Perform the steps of a history. A step that is impossible now does nothing."""

from __future__ import annotations

import json
from asyncio import Task
from functools import partial
from typing import Any, Final, assert_never

from situate.runtime.serving.webhook_server import Reply
from situate.testing.builders.objects import pod as pod_object
from situate.testing.vm import steps
from situate.testing.vm.history import MachinePlan, VmHistorySettings
from situate.testing.vm.invariants.objects import Obj, divide_by_overcommit, name_of, owner_of, phase_of
from situate.testing.vm.invariants.watchdog import VmWatchdog
from situate.testing.vm.steps import AnyStep, WorldStep
from situate.testing.vm.world.disturbances import VmDisturbances
from situate.testing.vm.world.history_world import IGNORED_NAMESPACE, VmHistoryWorld
from situate.testing.vm.world.nodes_and_pods import NodesAndPods
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


class VmPerformer:
    """Performs the steps of one history."""

    def __init__(self, place: VmHistoryWorld, watchdog: VmWatchdog, settings: VmHistorySettings) -> None:
        self._history_world = place
        self._watchdog = watchdog
        self._agents = watchdog.agents
        self._happened = place.happened
        self._cluster_objects = NodesAndPods(place, watchdog, settings)
        self._plans = dict(enumerate(settings.machines))
        self._priorities: set[int] = set()
        self._behaviour = "well"
        self._agents.lost_answer_share = 0.05
        self._disturbances = VmDisturbances(place)

    def begin(self) -> None:
        for plan in self._plans.values():
            self._create_machine(plan)

    def add_pods(self, settings: VmHistorySettings) -> None:
        for cpus in settings.pods:
            self._cluster_objects.add_pod(cpus)
        for number in settings.spare:
            self._cluster_objects.created_count += 1
            body = pod_object(
                f"spare{self._cluster_objects.created_count}",
                cpu="2",
                memory="8Gi",
                node=self._cluster_objects.node_name(number),
            )
            answer = self._history_world.call("POST", f"/api/v1/namespaces/{IGNORED_NAMESPACE}/pods", body)
            assert answer["kind"] == "Pod", answer

    def heal(self) -> None:
        """End every fault: processes run, messages arrive, nodes are whole, and hypervisors behave well."""
        self._disturbances.heal()
        self._agents.lost_answer_share, self._agents.tick_s = 0.0, HEAL_TICK_S
        self._set_behaviour("well")
        for name in self._cluster_objects.nodes:
            self._cluster_objects.shrink_node(name, 0)
            self._cluster_objects.set_node(
                name, {"spec": {"unschedulable": None}, "metadata": {"annotations": {DRAIN: None}}}
            )

    def perform(self, step: AnyStep) -> None:
        self._happened[type(step).__name__] += 1
        match step:
            case steps.AwaitMove(most=most, claimed=claimed):
                self._await_migration(most, claimed)
            case _ if isinstance(step, WorldStep):
                self._perform_world_step(step)
            case _:
                self._disturbances.perform(step)

    def _perform_world_step(self, step: WorldStep) -> None:
        match step:
            case steps.Wish(machine=number, cpu=cpu, memory=memory):
                if (name := self._select_machine(number)) is not None:
                    self._agents.set_wanted(name, Amounts.from_values(250 * cpu, memory * GIB))
            case steps.Misask(machine=number, how=how):
                self._send_bad_request(number, how)
            case steps.Burst(requests=requests):
                self._happened["500 at once"] += requests >= 500
                self._agents.send_burst(requests)
            case steps.Create(cpus=cpus, migratable=migratable):
                if len(self._machine_names()) < len(self._plans) + 2:
                    self._create_machine(MachinePlan(cpus, migratable, lowers=True, priority=0, overcommit=1000))
            case steps.Recreate(machine=number, whom=whom):
                self._recreate(number, whom)
            case steps.EvictMachine(machine=number):
                self._evict(number)
            case steps.Relabel(machine=number, what=what):
                self._relabel(number, what)
            case steps.Hypervise(how=how):
                self._happened[f"Hypervise {how}"] += 1
                self._set_behaviour(how)
            case steps.SpoilTarget(how=how):
                self._spoil_target(how)
            case steps.LoseNode(which=which, node=number, seconds=seconds):
                self._cluster_objects.lose_node(which, number, seconds)
            case steps.ShrinkNode(node=number, cpus=cpus):
                self._cluster_objects.shrink_node(self._cluster_objects.node_name(number), cpus)
            case steps.Cordon(node=number, on=on):
                self._cluster_objects.set_node(
                    self._cluster_objects.node_name(number), {"spec": {"unschedulable": on or None}}
                )
            case steps.Drain(node=number, on=on):
                self._cluster_objects.set_node(
                    self._cluster_objects.node_name(number),
                    {"metadata": {"annotations": {DRAIN: "true" if on else None}}},
                )
            case steps.Intrude(node=number, cpus=cpus):
                self._cluster_objects.bind_intruder(number, cpus)
            case steps.AddPod(cpus=cpus):
                if len(self._cluster_objects.plain_pods()) < 6:
                    self._cluster_objects.add_pod(cpus)
            case steps.Leave(pod=number):
                if plain := self._cluster_objects.plain_pods():
                    self._cluster_objects.delete_pod(name_of(plain[number % len(plain)]))
            case steps.Defer(pod=number, admitted=admitted):
                self._cluster_objects.defer_resize(number, admitted)
            case steps.MoveByHand(machine=number):
                self._create_manual_migration(number)
            case steps.DropMigration(migration=number, forced=forced):
                if moves := list(self._watchdog.usage.table(MIGRATION_TABLE)):
                    dropped = moves[number % len(moves)]
                    self._watchdog.record_dropped_claim(dropped)
                    self._delete_migration(name_of(dropped), forced)
            case _:
                assert_never(step)

    def _await_migration(self, most: float, claimed: bool) -> None:
        until = self._history_world.now + most
        while self._history_world.now < until and not any(
            phase_of(each) == "Running" and (not claimed or self._beneficiary_of(each))
            for each, _ in self._watchdog.usage.active_migrations()
        ):
            self._history_world.let_pass(0.5)

    def _machine_names(self) -> list[str]:
        return sorted(self._watchdog.usage.machines())

    def _select_machine(self, number: int) -> str | None:
        names = self._machine_names()
        return names[number % len(names)] if names else None

    def _create_machine(self, plan: MachinePlan, name: str = "") -> None:
        if not name:
            name = f"v{self._cluster_objects.created_count}"
            self._cluster_objects.created_count += 1
        if plan.priority and plan.priority not in self._priorities:
            self._priorities.add(plan.priority)
            level = {"metadata": {"name": f"level-{plan.priority}"}, "value": plan.priority}
            self._history_world.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", level)
        more: dict[str, Any] = {"priorityClassName": f"level-{plan.priority}"} if plan.priority else {}
        if plan.overcommit != 1000:
            more["overcommit"] = {"cpu": f"{plan.overcommit}m", "memory": f"{plan.overcommit}m"}
        self._history_world.create_machine(
            name, cpus=plan.cpus, slots=4 * plan.cpus, migratable=plan.migratable, most_cpus=16, **more
        )
        self._history_world.annotate(f"{MACHINES}/{name}", {HYPERVISOR: json.dumps(_BEHAVIOURS[self._behaviour])})
        self._agents.add_agent(name, lowers=plan.lowers)

    def _recreate(self, number: int, whom: str) -> None:
        name, found = self._select_machine(number), "any"
        for migration, machine in self._watchdog.usage.active_migrations():
            if whom == "moving":
                name, found = name_of(machine), whom
            elif whom == "beneficiary" and (beneficiary := self._beneficiary_of(migration)):
                name, found = beneficiary, whom
        if name is None:
            return
        self._happened[f"recreated {found}"] += 1
        for migration in self._watchdog.usage.table(MIGRATION_TABLE):
            if migration["spec"]["vmName"] == name:
                self._watchdog.record_dropped_claim(migration)  # deleted together with their VM
        self._agents.by_name.pop(name, None)
        self._history_world.call("DELETE", f"{MACHINES}/{name}")
        again = MachinePlan(1, migratable=True, lowers=True, priority=0, overcommit=1000)
        self._history_world.timeline.call_after(3.0, partial(self._create_if_absent, name, again))

    def _create_if_absent(self, name: str, plan: MachinePlan) -> None:
        if name not in self._watchdog.usage.machines():
            self._create_machine(plan, name)

    def _beneficiary_of(self, migration: Obj) -> str:
        """Return the VM for which a migration frees capacity. Empty: none."""
        text = (migration["metadata"].get("annotations") or {}).get(CLAIM)
        uid = json.loads(text)["beneficiary"]["uid"] if text else ""
        return next((owner_of(pod) for pod in self._watchdog.usage.table("pods") if pod["metadata"]["uid"] == uid), "")

    def _evict(self, number: int) -> None:
        """Request an eviction of a VM's pod through the leader.

        Without a leader, or on an error, the budget refuses it.
        """
        name, member = self._select_machine(number), self._history_world.leader()
        pod = self._history_world.machine(name).get("status", {}).get("podName") if name is not None else None
        if member is None or not pod:
            return
        self._happened["eviction asked for"] += 1

        def answered(task: Task[Reply]) -> None:
            if task.cancelled():
                return
            if (problem := task.exception()) is not None:
                self._watchdog.record_breach(f"B48: a review of an eviction is answered with an exception: {problem!r}")
            elif task.result().status == 200 and json.loads(task.result().body)["response"]["allowed"]:
                self._cluster_objects.delete_pod(pod)

        self._history_world.send_eviction_review(member, _eviction_review(pod)).add_done_callback(answered)

    def _relabel(self, number: int, what: str) -> None:
        name = next((name_of(machine) for _, machine in self._watchdog.usage.active_migrations()), "")
        self._happened["relabelled mid-move"] += bool(name)
        name = name or self._select_machine(number) or ""
        machine = self._watchdog.usage.machines().get(name)
        if machine is None:
            return
        if what in ("immovable", "movable"):
            change: Any = {"metadata": {"labels": {AUTO_MIGRATION_LABEL: str(what == "movable").lower()}}}
        else:
            factor = "1500m" if what == "overcommit" else "1"
            change = {"spec": {"overcommit": {"cpu": factor, "memory": factor}}}
        before = divide_by_overcommit(self._watchdog.usage.permitted_amount(machine), machine)
        after = self._history_world.call("PATCH", f"{MACHINES}/{name}", change, patch=True)
        assert after["kind"] == "VirtualMachine", after
        more = (divide_by_overcommit(self._watchdog.usage.permitted_amount(after), after) - before).positive_part()
        if more:
            for pod in self._watchdog.usage.table("pods"):
                if owner_of(pod) == name:
                    self._watchdog.nodes.record_fact(pod["spec"].get("nodeName", ""), more)
            for each in self._watchdog.usage.table(MIGRATION_TABLE):
                if each["spec"]["vmName"] == name:
                    for node in self._cluster_objects.nodes:
                        self._watchdog.nodes.record_fact(node, more)

    def _set_behaviour(self, how: str) -> None:
        self._behaviour = how
        for name in self._machine_names():
            self._history_world.annotate(f"{MACHINES}/{name}", {HYPERVISOR: json.dumps(_BEHAVIOURS[how])})

    def _send_bad_request(self, number: int, how: str) -> None:
        name = self._select_machine(number)
        agent = self._agents.by_name.get(name or "")
        if agent is None or not agent.pod:
            return
        self._happened[f"Misask {how}"] += 1
        if how == "repeat":
            self._agents.repeat_request(agent)
        elif how == "reorder":
            self._agents.reorder_requests(agent)
        elif how == "huge last permit":
            self._agents.send_request(agent, lastPermit={"vCPUs": 100, "mem": "400Gi"})
        else:
            plain = self._cluster_objects.plain_pods()
            self._agents.send_bad_request(agent, how, name_of(plain[0]) if plain else "nobody")

    def _spoil_target(self, how: str) -> None:
        for migration, _ in self._watchdog.usage.active_migrations():
            pod = (migration.get("status") or {}).get("targetPodName", "")
            there = self._cluster_objects.pod(pod)
            if there is None:
                continue
            self._happened[f"target {how}"] += 1
            if how == "crash":
                status = {"status": {"phase": "Failed"}}
                self._history_world.call("PATCH", f"{PODS}/{pod}/status", status, patch=True)
            elif how == "delete":
                self._cluster_objects.delete_pod(pod)
            else:
                notes = migration["metadata"].get("annotations") or {}
                node = there["spec"].get("nodeName") or notes.get("vm.situate.dev/target-node", "")
                self._cluster_objects.set_node(node, {"spec": {"unschedulable": True}})
            return

    def _create_manual_migration(self, number: int) -> None:
        name = self._select_machine(number)
        if name is None:
            return
        self._cluster_objects.created_count += 1
        self._happened["made by hand"] += 1
        migration = {
            "apiVersion": "vm.neon.tech/v1",
            "kind": "VirtualMachineMigration",
            "metadata": {"name": f"by-hand-{self._cluster_objects.created_count}", "namespace": NAMESPACE},
            "spec": {"vmName": name},
        }
        self._history_world.call("POST", MIGRATIONS, migration)

    def _delete_migration(self, name: str, forced: bool) -> None:
        self._happened["migration dropped by force" if forced else "migration dropped"] += 1
        self._history_world.call("DELETE", f"{MIGRATIONS}/{name}")
        if forced:
            self._history_world.call("PATCH", f"{MIGRATIONS}/{name}", {"metadata": {"finalizers": None}}, patch=True)


def _eviction_review(pod: str) -> bytes:
    request = {"uid": "1", "subResource": "eviction", "namespace": NAMESPACE, "name": pod, "operation": "CREATE"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "request": request | {"object": eviction}}).encode()
