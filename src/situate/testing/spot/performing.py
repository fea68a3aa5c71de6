"""Makes the steps of a history happen: those of users are here; clouds and troubles have modules of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from situate.spot.model import ALLOW_RESTART, MIX, ON_DEMAND
from situate.testing.spot import history as steps
from situate.testing.spot.clouds import AT_RISK, FULL, Clouds
from situate.testing.spot.history import SPOT_NODES, WORKLOADS, AnyStep, WorkloadPlan
from situate.testing.spot.invariants import Watchdog
from situate.testing.spot.recorder import OwnerRow
from situate.testing.spot.troubles import Troubles
from situate.testing.spot.workloads import collection, workload
from situate.testing.spot.world import SHOP, SpotWorld

_PODS: Final = f"/api/v1/namespaces/{SHOP}/pods"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets"


class Performer:
    """`perform` does what a step says; what is impossible at the moment is left out."""

    def __init__(self, world: SpotWorld, watchdog: Watchdog, happened: Counter[str]) -> None:
        self.clouds = Clouds(world, watchdog, happened)
        self._troubles = Troubles(world, watchdog, happened)
        self._world = world
        self._watchdog = watchdog
        self._recorder = watchdog.recorder
        self._happened = happened
        self._versions: dict[str, int] = {}

    def create(self, plan: WorkloadPlan) -> None:
        self._world.make(collection(plan), workload(plan))

    def perform(self, step: AnyStep) -> None:
        world = self._world
        match step:
            case steps.Scale(workload=number, replicas=replicas):
                self._user_writes(number, {"spec": {"replicas": min(replicas, _most(number))}})
            case steps.SetPolicy(workload=number, policy=policy) | steps.SpoilPolicy(workload=number, policy=policy):
                value = policy if policy or isinstance(step, steps.SpoilPolicy) else None
                self._user_writes(number, {"metadata": {"annotations": {ON_DEMAND: value}}})
            case steps.RollOut(workload=number, version=version):
                self._roll_out(number, version)
            case steps.Pause(workload=number, on=on):
                if WORKLOADS[number].kind == "Deployment":
                    self._user_writes(number, {"spec": {"paused": on}})
            case steps.OptOut(workload=number, on=on):
                self._user_writes(number, {"metadata": {"annotations": {MIX: "disabled" if on else None}}})
            case steps.Recreate(workload=number):
                self._recreate(WORKLOADS[number])
            case steps.DeletePod(pod=number):
                self._with_pod(number, lambda name: world.call("DELETE", f"{_PODS}/{name}"))
            case steps.UnreadyPod(pod=number, on=on):
                self._with_pod(number, partial(self._annotate, key="unready", on=on))
            case steps.StickPod(pod=number):
                self._with_pod(number, self._stick)
            case steps.Guard(workload=number, on=on):
                self._guard(WORKLOADS[number].name, on)
            case steps.Notice():
                self.clouds.notice(step)
            case steps.EndNode(node=number, silent=silent):
                self.clouds.with_spot(number, partial(self.clouds.end_node, silent=silent))
            case steps.Wave(notice=notice, silent=silent):
                self.clouds.wave(notice, silent)
            case steps.AtRisk(node=number):
                self.clouds.with_spot(number, lambda name: self.clouds.taint(name, AT_RISK))
            case steps.AddSpot(count=count):
                self.clouds.add_nodes("spot", min(count, max(0, SPOT_NODES - len(self.clouds.spot()))))
            case steps.Cordon(node=number):
                self.clouds.with_node(number, partial(self.clouds.set_node, spec={"unschedulable": True}))
            case steps.LoseLabel(node=number, swapped=swapped):
                self.clouds.with_node(number, partial(self.clouds.lose_label, swapped=swapped))
            case steps.Fill(capacity=capacity):
                self._happened[f"Fill {capacity}"] += 1
                for name, node in self.clouds.nodes().items():
                    if capacity in ("both", node):
                        self.clouds.taint(name, FULL)
            case steps.RestoreNodes():
                self.clouds.restore()
            case _:
                self._troubles.perform(step)

    def heal(self) -> None:
        """Everything that users, clouds and others did to keep workloads from their ends is undone."""
        self._troubles.heal()
        self.clouds.heal()
        for number, plan in enumerate(WORKLOADS):
            self._guard(plan.name, False)
            owner = self._owner(plan)
            annotations: dict[str, Any] = {MIX: None, ALLOW_RESTART: "true"}
            if owner is not None and not owner.can_be_read:
                annotations[ON_DEMAND] = plan.policy or None
            spec = {"paused": False} if plan.kind == "Deployment" else {}
            self._user_writes(number, {"metadata": {"annotations": annotations}, "spec": spec})
        for pod in list(self._recorder.pods.values()):
            if pod.held:
                self._annotate(pod.name, "unready", on=False)
                self._annotate(pod.name, "hold", on=False)

    def _owner(self, plan: WorkloadPlan) -> OwnerRow | None:
        return next((each for each in self._recorder.owners.values() if each.name == plan.name), None)

    def _user_writes(self, number: int, change: dict[str, Any]) -> None:
        plan = WORKLOADS[number]
        owner = self._owner(plan)
        if owner is not None:
            self._watchdog.disturbed(owner.uid)
        self._world.call("PATCH", f"{collection(plan)}/{plan.name}", change, patch=True)

    def _roll_out(self, number: int, version: int) -> None:
        name = WORKLOADS[number].name
        before = self._versions.get(name, 0)
        self._versions[name] = max(before, version)
        self._happened["rollback"] += version < before
        annotations = {"version": str(version)}
        self._user_writes(number, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def _recreate(self, plan: WorkloadPlan) -> None:
        self._world.call("DELETE", f"{collection(plan)}/{plan.name}")
        answer = self._world.call("POST", collection(plan), workload(plan))
        if answer["kind"] == "Status":  # still on its way out
            self._happened["Recreate too soon"] += 1

    def _with_pod(self, number: int, do: Callable[[str], object]) -> None:
        pods = sorted(pod.name for pod in self._recorder.pods.values())
        if not pods:
            return
        name = pods[number % len(pods)]
        row = self._recorder.named(name)
        if row is not None:
            self._watchdog.disturbed(self._recorder.owner_of(row))
            do(name)

    def _annotate(self, name: str, key: str, *, on: bool) -> None:
        change = {"metadata": {"annotations": {key: "true" if on else None}}}
        self._world.call("PATCH", f"{_PODS}/{name}", change, patch=True)

    def _stick(self, name: str) -> None:
        self._annotate(name, "hold", on=True)
        self._world.call("DELETE", f"{_PODS}/{name}")

    def _guard(self, name: str, on: bool) -> None:
        if not on:
            self._world.call("DELETE", f"{_BUDGETS}/{name}")
            return
        budget = {"metadata": {"name": name}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}}
        self._world.call("POST", _BUDGETS, budget)


def _most(number: int) -> int:
    """Replicas that leave room for all."""
    return 2 if WORKLOADS[number].name == "solo" else 10
