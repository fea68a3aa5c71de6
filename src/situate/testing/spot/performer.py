"""Perform the steps of a history. Steps of users are here, those of clouds and faults in modules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from situate.spot.model.pods_nodes_workloads import ALLOW_RESTART, LEADER, MIX, ON_DEMAND
from situate.testing.histories.steps import RestoreNodes
from situate.testing.spot import steps
from situate.testing.spot.invariants.object_rows import OwnerRow
from situate.testing.spot.invariants.rules import SpotWatchdog
from situate.testing.spot.steps import AnyStep
from situate.testing.spot.world.clouds import AT_RISK, FULL, Clouds
from situate.testing.spot.world.disturbances import SpotDisturbances
from situate.testing.spot.world.initial_objects import SPOT_NODES, WORKLOADS, WorkloadPlan
from situate.testing.spot.world.workloads import collection, workload
from situate.testing.spot.world.world import SHOP, SpotWorld

_PODS: Final = f"/api/v1/namespaces/{SHOP}/pods"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{SHOP}/leases"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets"


class SpotPerformer:
    """Performs steps. A step that is impossible now does nothing."""

    def __init__(self, world: SpotWorld, watchdog: SpotWatchdog) -> None:
        self.clouds = Clouds(world, watchdog)
        self._disturbances = SpotDisturbances(world, watchdog)
        self._world = world
        self._watchdog = watchdog
        self._recorder = watchdog.recorder
        self._happened = world.happened
        self._versions: dict[str, int] = {}
        self._plans: Sequence[WorkloadPlan] = WORKLOADS

    def begin(self, plans: Sequence[WorkloadPlan]) -> None:
        """Create the workloads. Steps name them by their number in this list."""
        self._plans = plans
        for plan in plans:
            self._happened[plan.kind] += 1
            self.create(plan)

    def create(self, plan: WorkloadPlan) -> None:
        self._world.create_object(collection(plan), workload(plan))

    def gate_by_policy(self) -> None:
        """Set our gate even if no process of ours answers."""
        self._disturbances.gate_by_policy()

    def perform(self, step: AnyStep) -> None:
        world = self._world
        self._happened[type(step).__name__] += 1
        match step:
            case steps.Scale(workload=number, replicas=replicas):
                self._patch_workload(number, {"spec": {"replicas": min(replicas, _max_replicas(self._plans[number]))}})
            case steps.SetPolicy(workload=number, policy=policy) | steps.SpoilPolicy(workload=number, policy=policy):
                value = policy if policy or isinstance(step, steps.SpoilPolicy) else None
                self._patch_workload(number, {"metadata": {"annotations": {ON_DEMAND: value}}})
            case steps.RollOut(workload=number, version=version):
                self._roll_out(number, version)
            case steps.Pause(workload=number, on=on):
                if self._plans[number].kind == "Deployment":
                    self._patch_workload(number, {"spec": {"paused": on}})
            case steps.OptOut(workload=number, on=on):
                self._patch_workload(number, {"metadata": {"annotations": {MIX: "disabled" if on else None}}})
            case steps.Recreate(workload=number):
                self._recreate(self._plans[number])
            case steps.DeletePod(pod=number):
                self._act_on_pod(number, lambda name: world.call("DELETE", f"{_PODS}/{name}"))
            case steps.UnreadyPod(pod=number, on=on):
                self._act_on_pod(number, partial(self._annotate, key="unready", on=on))
            case steps.StickPod(pod=number):
                self._act_on_pod(number, self._delete_held_pod)
            case steps.Evict(pod=number):
                self._act_on_pod(number, self._evict)
            case steps.Elect(workload=number, pod=pod):
                self._elect([plan for plan in self._plans if plan.leader], number, pod)
            case steps.Guard(workload=number, on=on):
                self._set_budget(self._plans[number].name, on)
            case steps.Notice():
                self.clouds.give_notice(step)
            case steps.EndNode(node=number, silent=silent):
                self.clouds.act_on_spot_node(number, partial(self.clouds.end_node, silent=silent))
            case steps.Wave(notice=notice, silent=silent):
                self.clouds.end_spot_nodes(notice, silent)
            case steps.AtRisk(node=number):
                self.clouds.act_on_spot_node(number, lambda name: self.clouds.taint(name, AT_RISK))
            case steps.AddSpot(count=count):
                self.clouds.add_nodes("spot", min(count, max(0, SPOT_NODES - len(self.clouds.spot_nodes()))))
            case steps.Cordon(node=number):
                self.clouds.act_on_node(number, partial(self.clouds.set_node, spec={"unschedulable": True}))
            case steps.LoseLabel(node=number, swapped=swapped):
                self.clouds.act_on_node(number, partial(self.clouds.lose_label, swapped=swapped))
            case steps.Fill(capacity=capacity):
                self._happened[f"Fill {capacity}"] += 1
                for name, node in self.clouds.running_nodes().items():
                    if capacity in ("both", node):
                        self.clouds.taint(name, FULL)
            case RestoreNodes():
                self.clouds.restore()
            case _:
                self._disturbances.perform(step)

    def heal(self) -> None:
        """Undo every act of users, clouds and other tools that keeps workloads from their goals."""
        self._disturbances.heal()
        self.clouds.heal()
        self._watchdog.clear_leaders()
        for number, plan in enumerate(self._plans):
            self._set_budget(plan.name, False)
            owner = self._owner_row(plan)
            annotations: dict[str, Any] = {MIX: None, ALLOW_RESTART: "true", LEADER: None}
            if owner is not None and not owner.can_be_read:
                annotations[ON_DEMAND] = plan.policy or None
            spec = {"paused": False} if plan.kind == "Deployment" else {}
            self._patch_workload(number, {"metadata": {"annotations": annotations}, "spec": spec})
        for pod in list(self._recorder.pods.values()):
            if pod.held:
                self._annotate(pod.name, "unready", on=False)
                self._annotate(pod.name, "hold", on=False)
            if pod.rivalled:  # its affinity stays until the pod is recreated
                self._world.call("DELETE", f"{_PODS}/{pod.name}")

    def _owner_row(self, plan: WorkloadPlan) -> OwnerRow | None:
        return next((each for each in self._recorder.owners.values() if each.name == plan.name), None)

    def _patch_workload(self, number: int, change: dict[str, Any]) -> None:
        plan = self._plans[number]
        owner = self._owner_row(plan)
        if owner is not None:
            self._watchdog.record_disturbance(owner.uid)
        self._world.call("PATCH", f"{collection(plan)}/{plan.name}", change, patch=True)

    def _roll_out(self, number: int, version: int) -> None:
        name = self._plans[number].name
        before = self._versions.get(name, 0)
        self._versions[name] = max(before, version)
        self._happened["rollback"] += version < before
        annotations = {"version": str(version)}
        self._patch_workload(number, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def _recreate(self, plan: WorkloadPlan) -> None:
        self._world.call("DELETE", f"{collection(plan)}/{plan.name}")
        answer = self._world.call("POST", collection(plan), workload(plan))
        if answer["kind"] == "Status":  # still terminating
            self._happened["Recreate too soon"] += 1

    def _act_on_pod(self, number: int, do: Callable[[str], object]) -> None:
        pods = sorted(pod.name for pod in self._recorder.pods.values())
        if not pods:
            return
        name = pods[number % len(pods)]
        row = self._recorder.pod_named(name)
        if row is not None:
            self._watchdog.record_disturbance(self._recorder.owner_of(row))
            do(name)

    def _evict(self, name: str) -> None:
        eviction = {"metadata": {"name": name, "namespace": SHOP}}
        answer = self._world.call("POST", f"{_PODS}/{name}/eviction", eviction)
        self._happened["evicted by others"] += answer["status"] == "Success"

    def _elect(self, plans: Sequence[WorkloadPlan], number: int, pod_number: int) -> None:
        if not plans:
            return
        plan = plans[number % len(plans)]
        owner = self._owner_row(plan)
        pods = sorted(self._recorder.pods_of(owner.uid), key=lambda pod: pod.name) if owner is not None else []
        if owner is None or not pods:
            return
        chosen = pods[pod_number % len(pods)]
        self._watchdog.record_leader(owner.uid, chosen.uid)
        if plan.leader.startswith("lease/"):
            self._happened["led by a Lease"] += 1
            name = plan.leader.removeprefix("lease/")
            lease = {"metadata": {"name": name}, "spec": {"holderIdentity": f"{chosen.name}_1"}}
            self._world.call("DELETE", f"{_LEASES}/{name}")
            self._world.create_object(_LEASES, lease)
            return
        self._happened["led by a label"] += 1
        key, _, value = plan.leader.partition("=")
        for pod in pods:
            labels = {key: value if pod is chosen else None}
            self._world.call("PATCH", f"{_PODS}/{pod.name}", {"metadata": {"labels": labels}}, patch=True)

    def _annotate(self, name: str, key: str, *, on: bool) -> None:
        change = {"metadata": {"annotations": {key: "true" if on else None}}}
        self._world.call("PATCH", f"{_PODS}/{name}", change, patch=True)

    def _delete_held_pod(self, name: str) -> None:
        self._annotate(name, "hold", on=True)
        self._world.call("DELETE", f"{_PODS}/{name}")

    def _set_budget(self, name: str, on: bool) -> None:
        if not on:
            self._world.call("DELETE", f"{_BUDGETS}/{name}")
            return
        budget = {"metadata": {"name": name}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}}
        self._world.call("POST", _BUDGETS, budget)


def _max_replicas(plan: WorkloadPlan) -> int:
    """Return the maximum replicas that leave capacity for all workloads."""
    return {"solo": 2, "zonal": 6, "canary": 4, "clones": 5}.get(plan.name, 10)
