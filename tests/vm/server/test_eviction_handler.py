from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from situate.kube.client import Client
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.resources import PODDISRUPTIONBUDGETS
from situate.testing.builders.objects import node
from situate.testing.vm.world.processes import MIGRATIONS, NAMESPACE
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, EVACUATE
from situate.vm.controller.budgets import Budgets
from situate.vm.model.actions import Notify
from situate.vm.model.policy import Rules
from situate.vm.protocol.eviction_webhook_objects import webhook_configuration
from situate.vm.server.eviction_handler import EvictionHandler
from situate.vm.server.request_context import RequestContext
from tests.vm.server.scene import Stage, stage

MACHINES = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"


def review(pod: str, **request: Any) -> bytes:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    asked = {
        "uid": "u",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "eviction",
        "namespace": NAMESPACE,
        "name": pod,
        "operation": "CREATE",
        "object": eviction,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}
    ).encode()


TRIED: list[dict[str, Any]] = [
    {"dryRun": True},
    {"object": {"apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}},
    {"object": "nonsense"},
]


class Asked:
    """Evictions that the first process of a stage is asked about."""

    def __init__(self, ours: Stage, number: int = 0) -> None:
        self.ours = ours
        self.told: list[Notify] = []
        self.member = ours.world.members[number]
        self.evictions: EvictionHandler = self.do(self._made)

    async def _made(self) -> EvictionHandler:
        return EvictionHandler(RequestContext(self.member.controller, Client(self.member.wire), 1.0), self.told.append)

    def do(self, call: Callable[[], Any]) -> Any:
        """In the process; what comes of it."""
        coming = asyncio.run_coroutine_threadsafe(call(), self.member.process.loop)
        self.ours.wait(coming.done, within_s=10.0)
        return coming.result()

    def about(self, pod: str, **request: Any) -> tuple[int, Any]:
        """Status, and the response's own status or whether it is allowed."""
        answer = self.do(lambda: self.evictions.answer(review(pod, **request)))
        if answer.status != 200:
            return answer.status, answer.body
        response = json.loads(answer.body)["response"]
        assert response["uid"] == "u"
        assert response["allowed"] is not ("status" in response)
        return 200, response.get("status", True)


@pytest.fixture
def ours() -> Iterator[Stage]:
    with stage(n1="8") as made:
        yield made


@pytest.mark.rule("vm:B48")
def test_an_eviction_is_refused_as_by_a_budget_and_a_move_begins(ours: Stage) -> None:
    pod, asked = ours.run("a", cpus=2, slots=8), Asked(ours)
    assert ours.world.list_items(MIGRATIONS) == []
    status, said = asked.about(pod)
    assert (status, said["code"], said["reason"]) == (200, 429, "TooManyRequests")
    assert said["message"] == (
        f"VirtualMachine {NAMESPACE}/a cannot be migrated now: it stays because no schedulable node has "
        "capacity for it below the watermark"
    )
    assert [(each.reason, each.warning, each.about.name) for each in asked.told] == [("EvictionWaits", True, "a")]
    ours.wait(lambda: ours.world.annotation("a", EVACUATE) is not None)
    assert ours.world.annotation("a", EVACUATE)["node"] == "n1"
    asked.about(pod)
    assert len(asked.told) == 1, "told once as long as it stays the same"

    ours.world.call("POST", "/api/v1/nodes", node("n2", cpu="8", memory="32Gi", pods=110))
    ours.wait(lambda: bool(ours.world.list_items(MIGRATIONS)))
    _, said = asked.about(pod)
    assert said["message"] == (
        f"VirtualMachine {NAMESPACE}/a is being migrated to node n2; its pod ends after the migration"
    )
    assert [each.reason for each in asked.told] == ["EvictionWaits", "EvictionMoves"]
    ours.wait(lambda: ours.world.node_of("a") == "n2", within_s=120.0)
    ours.wait(lambda: ours.world.annotation("a", EVACUATE) is None)


@pytest.mark.rule("vm:B48", "vm:B43")
def test_the_next_leader_goes_on_with_the_wish(ours: Stage) -> None:
    pod, asked = ours.run("a", cpus=2, slots=8), Asked(ours)
    asked.about(pod)
    ours.wait(lambda: ours.world.annotation("a", EVACUATE) is not None)
    ours.world.members[0].process.kill()
    ours.world.start_member()
    ours.world.call("POST", "/api/v1/nodes", node("n2", cpu="8", memory="32Gi", pods=110))
    ours.wait(lambda: ours.world.node_of("a") == "n2", within_s=180.0)


@pytest.mark.rule("vm:B48")
@pytest.mark.parametrize(
    "request_", TRIED, ids=["the request", "the eviction's options", "an eviction that cannot be read"]
)
def test_what_is_only_tried_is_answered_and_changes_nothing(ours: Stage, request_: dict[str, Any]) -> None:
    pod, asked = ours.run("a", cpus=2, slots=8), Asked(ours)
    ours.writes.clear()
    assert asked.about(pod, **request_)[1]["code"] == 429
    ours.world.let_pass(3.0)
    assert ours.world.annotation("a", EVACUATE) is None
    assert (ours.writes, asked.told) == ([], [])


@pytest.mark.rule("vm:B48")
def test_other_pods_are_evicted_as_if_nobody_had_been_asked(ours: Stage) -> None:
    stays, asked = ours.run("fixed", cpus=1, slots=4, migratable=False), Asked(ours)
    moves = ours.run("a", cpus=1, slots=4)
    assert asked.about(stays) == asked.about("nobody") == (200, True)
    assert asked.about(moves, subResource="binding") == asked.about(moves, operation="CONNECT") == (200, True)
    replicas = {"group": "apps", "version": "v1", "resource": "replicasets"}
    assert asked.about(moves, resource=replicas) == asked.about(moves, name=7) == (200, True)
    assert asked.do(lambda: asked.evictions.answer(b"{}")).status == 400
    ours.world.call("PATCH", f"{MACHINES}/a", {"metadata": {"labels": {AUTO_MIGRATION_LABEL: "false"}}}, patch=True)
    ours.wait(lambda: asked.about(moves) == (200, True))
    assert ours.world.annotation("a", EVACUATE) is None


@pytest.mark.rule("vm:B48")
def test_of_a_pod_that_is_on_its_way_out_nothing_is_kept(ours: Stage) -> None:
    pod, asked = ours.run("a", cpus=1, slots=4), Asked(ours)
    assert asked.about(pod, dryRun=True)[1]["code"] == 429
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}"
    ours.world.call("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, patch=True)
    ours.world.call("DELETE", path)
    ours.wait(lambda: asked.about(pod) == (200, True))


class Defect:
    """A planner of ours with a defect in it."""

    def drain(self, *_: Any) -> Any:
        raise ZeroDivisionError("a defect")


@pytest.mark.rule("vm:B48")
def test_a_defect_of_ours_holds_up_nobody(ours: Stage) -> None:
    pod, asked = ours.run("a", cpus=1, slots=4), Asked(ours)
    ledger = asked.member.controller.ledger
    kept, ledger.planner = ledger.planner, Defect()  # type: ignore[assignment]  # it plans nothing
    try:
        assert asked.about(pod) == (200, True)
    finally:
        ledger.planner = kept
    assert asked.about(pod, dryRun=True)[1]["code"] == 429


@pytest.mark.rule("vm:B48", "vm:B44", "vm:D22")
def test_only_the_one_that_leads_answers() -> None:
    with stage(n1="8", processes=2) as ours:
        pod = ours.run("a", cpus=1, slots=4)
        (number,) = (number for number, each in enumerate(ours.world.members) if each.controller.actuator is None)
        follower = Asked(ours, number)
        assert follower.about(pod)[0] == 503
        assert follower.told == []


@pytest.mark.rule("vm:B48")
def test_each_machine_that_may_be_moved_has_a_budget_and_nobody_else(ours: Stage) -> None:
    ours.run("a", cpus=1, slots=4)
    ours.run("fixed", cpus=1, slots=4, migratable=False)
    member = ours.world.members[0]
    kept: list[Budgets] = []

    async def begin() -> asyncio.Task[None]:
        watched = member.controller.informers
        kept.append(Budgets(watched.machines, watched.all.others[PODDISRUPTIONBUDGETS], Rules()))
        return asyncio.create_task(kept[0].run(Client(member.wire), installed))

    async def without() -> asyncio.Task[None]:
        return asyncio.create_task(kept[0].run(Client(member.wire), None))

    def found() -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in ours.world.list_items(BUDGETS)}

    webhook = ours.world.call("POST", CONFIGURATIONS, webhook_configuration(NAMESPACE))["metadata"]
    installed = ObjectMeta(name=webhook["name"], uid=webhook["uid"])
    asked = Asked(ours)
    running = asked.do(begin)
    ours.wait(lambda: list(found()) == ["situate-a"])
    made = found()["situate-a"]
    assert made["spec"] == {"minAvailable": 2, "selector": {"matchLabels": {"vm.neon.tech/name": "a"}}}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("ValidatingWebhookConfiguration", installed.uid)

    for wrong in ({"spec": {"minAvailable": 0}}, {"metadata": {"ownerReferences": None}}):
        before = found()["situate-a"]["metadata"]["uid"]
        ours.world.call("PATCH", f"{BUDGETS}/situate-a", wrong, patch=True)
        ours.wait(lambda uid=before: "situate-a" in found() and found()["situate-a"]["metadata"]["uid"] != uid)  # type: ignore[misc]  # bound early
        anew = found()["situate-a"]
        assert (anew["spec"], anew["metadata"]["ownerReferences"]) == (made["spec"], [owner])
    for value, names in (("false", []), ("true", ["situate-a"])):
        label = {"metadata": {"labels": {AUTO_MIGRATION_LABEL: value}}}
        ours.world.call("PATCH", f"{MACHINES}/a", label, patch=True)
        ours.wait(lambda names=names: list(found()) == names)  # type: ignore[misc]  # a default binds the loop's variable
    ours.world.call("DELETE", f"{MACHINES}/a")
    ours.wait(lambda: not found(), within_s=60.0)
    ours.run("a", cpus=1, slots=4)
    ours.wait(lambda: list(found()) == ["situate-a"])
    running.cancel()
    strange = {"metadata": {"name": "situate-fixed"}, "spec": {"minAvailable": 1}}
    ours.world.call("POST", BUDGETS, strange)
    store = member.controller.informers.all.others[PODDISRUPTIONBUDGETS].store
    ours.wait(lambda: store.get("situate-fixed", NAMESPACE) is not None)
    asked.do(without)
    ours.wait(lambda: "situate-a" not in found())
    ours.world.let_pass(3.0)
    assert list(found()) == ["situate-fixed"], "somebody else's stays"
