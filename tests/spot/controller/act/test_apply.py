"""How what was decided is carried out: looked at once more, written once, and its end known (3.7, P30, F6, F7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.spot.admission.patch_check import apply_operations
from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.controller.act.apply import Applier
from situate.spot.controller.act.attempt import ActionExecutor, Attempt, AttemptOutcome, DepartureCallbacks
from situate.spot.controller.act.live_recheck import LiveRecheck
from situate.spot.model.actions import Action, Delete, Evict, Reason, SetCost, ShortenTolerations
from situate.spot.model.maintenance_windows import Window, parse_cron, parse_time_zone
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, Capacity, NodeFacts, NodeState, Owner, PodFacts, PodKey
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.nodes.node_signals import node_facts
from situate.spot.rebalance.decide import ClusterView, State, decide
from situate.spot.rebalance.node_termination import build_release
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import Controller, ReplicaSetFacts
from tests.kube.hostile_server import Fault, HostileServer

NOW = 1_000_000.0
WEB = "/apis/apps/v1/namespaces/shop/deployments/web"
PODS = "/api/v1/namespaces/shop/pods"
LONG_READY = "1970-01-01T00:00:00Z"
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Server(HostileServer):
    """Knows evictions and deletions besides: pods that go get a deletion timestamp."""

    def _carried_out(self, request: Request) -> Response:
        path = request.path.removesuffix("/eviction")
        known = self.objects.get(path)
        body = json.loads(request.body) if request.body else {}
        if request.method == "PATCH" and isinstance(body, list) and known is not None:
            return Response(200, json.dumps(self.put(path, apply_operations(known, body))).encode())
        if known is None or not (request.method == "DELETE" or path != request.path):
            return super()._carried_out(request)
        wanted = (body.get("deleteOptions") or body).get("preconditions", {})
        if any(known["metadata"][key] != value for key, value in wanted.items()):
            return Response(409, json.dumps({"kind": "Status", "reason": "Conflict", "code": 409}).encode())
        known["metadata"]["deletionTimestamp"] = LONG_READY
        self.put(path, known)
        return Response(200, b'{"kind": "Status", "status": "Success"}')


class NotLeading(Retriable):
    pass


class Rig:
    """Three pods of a Deployment on spot, one of which is to be on demand."""

    def __init__(self) -> None:
        self.server = Server()
        self.leads = True
        self.now, self.limits = NOW, Limits()
        self.attempts: list[Attempt] = []
        self.departures: list[tuple[str, str]] = []
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}
        metadata = {"generation": 1, "annotations": {ON_DEMAND: "1"}}
        self.uid = str(self.server.put(WEB, {"spec": spec, "metadata": metadata})["metadata"]["uid"])
        self.change(WEB, {"status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3}})
        self.server.put("/api/v1/namespaces/shop", {"metadata": {}})
        for capacity in ("on-demand", "spot"):
            self.put_node(capacity)
        for name in "abc":
            self.put_pod(name)
        self.owner = Owner("Deployment", "shop", "web", self.uid, 3, annotations={ON_DEMAND: "1"}, releasable=True)
        between = ReplicaSetFacts("rs", Controller("apps/v1", "Deployment", "web", self.uid), "shop", "web-1", 3, "r1")
        self.nodes = {name: NodeFacts(name, Capacity(name)) for name in ("on-demand", "spot")}
        self.cluster = Cluster({self.uid: self.owner}, {"rs": between}, {}, self.nodes, {"shop": Namespace("shop")})
        self.client = Client(self.server).with_write_check(self.may_write)
        departures = DepartureCallbacks(
            lambda pod, _: self.departures.append(("leaving", pod.key.name)),
            lambda pod, _: self.departures.append(("staying", pod.key.name)),
        )
        attempting = ActionExecutor(
            self.client,
            Actuator(self.may_write),
            LiveRecheck(
                Client(self.server), self.cluster, lambda: SIGNALS, lambda node: node_facts(node, SIGNALS, NOW)
            ),
            departures,
            self.cluster,
            wall=lambda: self.now,
        )
        self.acting = Applier(attempting.attempt, self.attempts.append)

    def may_write(self) -> None:
        if not self.leads:
            raise NotLeading("another one leads")

    def put_node(self, name: str, capacity: str = "", **spec: Any) -> None:
        labels = {"node.kubernetes.io/capacity": capacity or name}
        self.server.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "spec": spec})

    def annotate(self, path: str, **annotations: str) -> None:
        known = self.server.objects[path]
        said = {f"spot.situate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.change(path, {"metadata": {**known["metadata"], "annotations": said, "generation": 1}})

    def put_pod(self, name: str, ready: str = "True", **content: Any) -> dict[str, Any]:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
        metadata = {"labels": {"app": "web", "pod-template-hash": "r1"}, "ownerReferences": [reference]}
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": LONG_READY}]
        status = {"phase": "Running", "conditions": conditions}
        return self.server.put(
            f"{PODS}/{name}", {"metadata": metadata, "spec": {"nodeName": "spot"}, "status": status, **content}
        )

    def change(self, path: str, content: dict[str, Any]) -> None:
        self.server.put(path, {**self.server.objects[path], **content})

    def uid_of(self, name: str) -> str:
        return str(self.server.objects[f"{PODS}/{name}"]["metadata"]["uid"])

    def evict(self, name: str = "a", reason: Reason = Reason.TO_ON_DEMAND) -> Evict:
        return Evict(PodKey("shop", name), self.uid_of(name), self.uid, reason)

    async def carry_out(self, *actions: Action, times: int = 1) -> list[Attempt]:
        situation = ClusterView(self.cluster, Nowhere(), limits=self.limits)
        decision = decide(State(), situation, NOW)
        async with asyncio.TaskGroup() as group:
            for _ in range(times):
                self.acting.apply(actions, decision, situation, group)
        return self.attempts

    def writes(self) -> list[Request]:
        return [each for each in self.server.requests if each.method != "GET"]


class Nowhere(FreeCapacity):
    def fits(self, pod: PodFacts, capacity: Capacity, *, without: object = None, pools: object = None) -> bool:
        return False


@pytest.mark.rule("spot:P30", "spot:P17")
@pytest.mark.looptime
async def test_an_eviction_names_the_pod_by_uid_and_it_stops_counting_before_the_request_leaves() -> None:
    rig = Rig()
    told: list[list[tuple[str, str]]] = []
    rig.server.judge = lambda request: told.append(list(rig.departures)) if request.method == "POST" else None
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is AttemptOutcome.DONE
    (request,) = rig.writes()
    assert request.path == f"{PODS}/a/eviction"
    assert json.loads(request.body)["deleteOptions"]["preconditions"] == {"uid": rig.uid_of("a")}
    assert told == [[("leaving", "a")]]
    assert rig.departures == [("leaving", "a")]


@pytest.mark.rule("spot:F6", "spot:F7", "spot:P30")
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("status", "reason", "outcome", "departures"),
    [
        pytest.param(429, "TooManyRequests", AttemptOutcome.REFUSED, ["leaving", "staying"], id="a budget forbids it"),
        pytest.param(409, "Conflict", AttemptOutcome.REFUSED, ["leaving", "staying"], id="another pod"),
        pytest.param(404, "NotFound", AttemptOutcome.VOID, ["leaving"], id="gone"),
        pytest.param(403, "Forbidden", AttemptOutcome.FAILED, ["leaving", "staying"], id="not allowed"),
        pytest.param(500, "InternalError", AttemptOutcome.UNKNOWN, ["leaving"], id="nobody knows"),
    ],
)
async def test_a_refusal_ends_the_attempt(
    status: int, reason: str, outcome: AttemptOutcome, departures: list[str]
) -> None:
    rig = Rig()
    rig.server.judge = lambda request: Fault(status=status, reason=reason) if request.method == "POST" else None
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is outcome, attempt.why
    assert [what for what, _ in rig.departures] == departures
    assert len(rig.writes()) == 1
    assert rig.acting.in_progress_count == 0


@pytest.mark.rule("spot:F7", "spot:P30")
@pytest.mark.looptime
async def test_a_budget_that_forbids_for_ever_is_not_asked_all_the_time_and_a_deletion_does_not_ask() -> None:
    rig = Rig()
    rig.server.judge = lambda request: Fault(status=429, reason="TooManyRequests") if request.method == "POST" else None
    rig.nodes["spot"] = NodeFacts("spot", Capacity.SPOT, NodeState.DOOMED, deadline=NOW + 60)
    evict = rig.evict(reason=Reason.EVACUATE)
    for _ in range(21):
        await rig.carry_out(evict)
        await asyncio.sleep(1.0)
    assert len(rig.writes()) == 3
    delete = Delete(evict.pod, evict.uid, evict.owner, Reason.EVACUATE)
    assert (await rig.carry_out(delete))[-1].outcome is AttemptOutcome.DONE


@pytest.mark.rule("spot:F2", "spot:F6")
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        pytest.param(Fault(lost_answer=True), AttemptOutcome.DONE, id="it was carried out"),
        pytest.param(Fault(lost_request=True), AttemptOutcome.UNKNOWN, id="it never arrived"),
    ],
)
async def test_without_an_answer_what_has_become_of_the_pod_is_looked_up(fault: Fault, outcome: AttemptOutcome) -> None:
    rig = Rig()
    rig.server.judge = lambda request: fault if request.method == "POST" else None
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is outcome
    assert rig.departures == [("leaving", "a")], "in doubt the next pod is on demand (P5)"


@pytest.mark.rule("spot:I11", "spot:F3")
@pytest.mark.looptime
async def test_nothing_is_written_by_who_does_not_lead() -> None:
    rig = Rig()
    rig.leads = False
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is AttemptOutcome.FAILED
    assert rig.writes() == []
    assert rig.departures == [("leaving", "a"), ("staying", "a")]


@pytest.mark.rule("spot:F6", "spot:F14")
@pytest.mark.looptime
async def test_another_pod_of_the_name_is_left_alone() -> None:
    rig = Rig()
    move = rig.evict()
    rig.server.remove(f"{PODS}/a")
    assert [each.outcome for each in await rig.carry_out(move)] == [AttemptOutcome.VOID]
    rig.put_pod("a")
    assert [each.outcome for each in await rig.carry_out(move)] == [AttemptOutcome.VOID] * 2
    assert rig.writes() == []


def unready(rig: Rig) -> None:
    rig.put_pod("b", ready="False")


def fewer(rig: Rig) -> None:
    rig.server.remove(f"{PODS}/b")


def ending(rig: Rig) -> None:
    known = rig.server.objects[f"{PODS}/b"]
    rig.change(f"{PODS}/b", {"metadata": {**known["metadata"], "deletionTimestamp": LONG_READY}})


def rolling(rig: Rig) -> None:
    rig.change(WEB, {"status": {"observedGeneration": 1, "replicas": 4, "updatedReplicas": 1}})


def not_seen(rig: Rig) -> None:
    rig.change(WEB, {"status": {"observedGeneration": 0, "replicas": 3, "updatedReplicas": 3}})


def satisfied(rig: Rig) -> None:
    rig.put_pod("b", spec={"nodeName": "on-demand"})


def deleted(rig: Rig) -> None:
    rig.server.remove(WEB)


def wanted_no_more(rig: Rig) -> None:
    rig.annotate(WEB, on_demand="0")


def left_out(rig: Rig) -> None:
    rig.annotate(WEB, on_demand="1", mix="disabled")


def left_out_with_its_namespace(rig: Rig) -> None:
    rig.server.put("/api/v1/namespaces/shop", {"metadata": {"labels": {"spot.situate.dev/mix": "disabled"}}})


def cordoned(rig: Rig) -> None:
    rig.put_node("spot", unschedulable=True)


def on_demand_after_all(rig: Rig) -> None:
    rig.put_node("spot", "on-demand")


def named_spot_nodes(rig: Rig) -> None:
    template = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "spot"}}}
    rig.change(WEB, {"spec": {**rig.server.objects[WEB]["spec"], "template": template}})


@pytest.mark.rule("spot:I4", "spot:I5", "spot:P25", "spot:P28")
@pytest.mark.looptime
@pytest.mark.parametrize("happens", [unready, fewer, ending, rolling, not_seen, satisfied, deleted,
                                     wanted_no_more, left_out, left_out_with_its_namespace, cordoned,
                                     on_demand_after_all, named_spot_nodes])  # fmt: skip
async def test_a_policy_move_is_barred_by_what_the_server_shows_by_now(happens: Callable[[Rig], None]) -> None:
    rig = Rig()
    happens(rig)
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is AttemptOutcome.BARRED, attempt.why
    assert rig.writes() == []
    assert rig.departures == []


@pytest.mark.rule("spot:B13")
@pytest.mark.looptime
@pytest.mark.parametrize(("answered", "outcome"), [(299.0, AttemptOutcome.DONE), (301.0, AttemptOutcome.BARRED)])
async def test_a_move_that_the_server_holds_up_beyond_its_window_is_not_made(
    answered: float, outcome: AttemptOutcome
) -> None:
    rig = Rig()
    rig.limits = Limits(windows=(Window(parse_cron("*/10 * * * *"), 300, parse_time_zone("UTC")),))
    opened = NOW - NOW % 600
    rig.now = opened + 299

    def answers_late(request: Request) -> None:
        rig.now = opened + (answered if request.path == WEB else 299)

    rig.server.judge = answers_late
    (attempt,) = await rig.carry_out(rig.evict())
    assert attempt.outcome is outcome, attempt.why


@pytest.mark.rule("spot:I4")
@pytest.mark.looptime
async def test_one_move_of_a_workload_and_one_attempt_of_a_pod_at_a_time() -> None:
    rig = Rig()
    attempts = await rig.carry_out(rig.evict("a"), rig.evict("b"), times=2)
    assert [each.action.pod.name for each in attempts] == ["a"]
    assert len(rig.writes()) == 1


@pytest.mark.rule("spot:B17", "spot:B18", "spot:P30")
@pytest.mark.looptime
async def test_a_pod_that_waits_is_deleted_as_it_was_seen_and_with_its_own_grace() -> None:
    rig = Rig()
    pod = rig.put_pod("new", ready="False", spec={}, status={"phase": "Pending"})
    order = Delete(PodKey("shop", "new"), rig.uid_of("new"), rig.uid, Reason.SURGE)

    def bound_meanwhile(request: Request) -> None:
        if request.method == "DELETE":
            rig.change(f"{PODS}/new", {"spec": {"nodeName": "on-demand"}})

    rig.server.judge = bound_meanwhile
    (attempt,) = await rig.carry_out(order)
    assert attempt.outcome is AttemptOutcome.VOID
    (request,) = rig.writes()
    options = json.loads(request.body)
    assert options["preconditions"] == {
        "uid": pod["metadata"]["uid"],
        "resourceVersion": pod["metadata"]["resourceVersion"],
    }
    assert "gracePeriodSeconds" not in options


@pytest.mark.rule("spot:B17", "spot:F6")
@pytest.mark.looptime
async def test_a_pod_that_waits_and_has_only_been_told_something_meanwhile_goes() -> None:
    rig = Rig()
    rig.put_pod("new", ready="False", spec={}, status={"phase": "Pending"})

    def told_meanwhile(request: Request) -> None:
        if request.method == "DELETE" and len(rig.writes()) == 1:
            rig.put_pod("new", ready="False", spec={}, status={"phase": "Pending", "message": "no room"})

    rig.server.judge = told_meanwhile
    order = Delete(PodKey("shop", "new"), rig.uid_of("new"), rig.uid, Reason.SURGE)
    assert [each.outcome for each in await rig.carry_out(order)] == [AttemptOutcome.DONE]
    assert len(rig.writes()) == 2


@pytest.mark.rule("spot:B20", "spot:I6")
@pytest.mark.looptime
async def test_a_release_is_a_patch_of_the_pod_alone_and_made_once() -> None:
    rig = Rig()
    facts = PodFacts(PodKey("shop", "a"), rig.uid_of("a"), "rs", "r1", token="t")
    order = build_release(rig.owner, facts, NOW + 100, NOW, Reason.AT_RISK)
    (first,) = await rig.carry_out(order)
    assert first.outcome is AttemptOutcome.DONE
    pod = rig.server.objects[f"{PODS}/a"]
    assert pod["metadata"]["labels"]["pod-template-hash"] == "released-r1"
    assert pod["spec"]["activeDeadlineSeconds"] > 100
    assert [each.outcome for each in await rig.carry_out(order)][-1] is AttemptOutcome.VOID
    assert [each.path for each in rig.writes()] == [f"{PODS}/a"]


@pytest.mark.rule("spot:P31", "spot:B25")
@pytest.mark.looptime
async def test_marks_are_written_once() -> None:
    rig = Rig()
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in KEYS]
    rig.put_pod("a", spec={"nodeName": "spot", "tolerations": tolerations})
    key, uid = PodKey("shop", "a"), rig.uid_of("a")
    marks = (SetCost(key, uid, rig.uid, 90), ShortenTolerations(key, uid, rig.uid, KEYS, 20))
    for mark in (*marks, *marks):
        await rig.carry_out(mark)
    assert [each.outcome for each in rig.attempts] == [
        AttemptOutcome.DONE,
        AttemptOutcome.DONE,
        AttemptOutcome.VOID,
        AttemptOutcome.VOID,
    ]
    pod = rig.server.objects[f"{PODS}/a"]
    assert [each["tolerationSeconds"] for each in pod["spec"]["tolerations"]] == [20, 20]
    assert pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] == "90"


@pytest.mark.rule("spot:P30", "spot:B20", "spot:B23")
@pytest.mark.looptime
async def test_what_ends_anyway_waits_for_no_gate_and_what_makes_room_does() -> None:
    rig = Rig()
    unready(rig)
    assert (await rig.carry_out(rig.evict(reason=Reason.MAKE_ROOM)))[-1].outcome is AttemptOutcome.BARRED
    evacuated = rig.evict("c", Reason.EVACUATE)
    assert (await rig.carry_out(evacuated))[-1].outcome is AttemptOutcome.VOID, "its node does not end"
    rig.nodes["spot"] = NodeFacts("spot", Capacity.SPOT, NodeState.DOOMED, deadline=NOW + 60)
    assert (await rig.carry_out(evacuated))[-1].outcome is AttemptOutcome.DONE
    replaced = Delete(PodKey("shop", "b"), rig.uid_of("b"), rig.uid, Reason.REPLACED)
    assert (await rig.carry_out(replaced))[-1].outcome is AttemptOutcome.VOID, "it is no released pod"


@pytest.mark.rule("spot:B20", "spot:F8")
@pytest.mark.looptime
async def test_many_moves_leave_side_by_side_before_marks_and_what_has_not_begun_is_decided_anew() -> None:
    rig = Rig()
    rig.nodes["spot"] = NodeFacts("spot", Capacity.SPOT, NodeState.DOOMED, deadline=NOW + 60)
    names = [f"pod-{number}" for number in range(100)]
    for name in names:
        rig.put_pod(name)
    moves = [rig.evict(name, Reason.EVACUATE) for name in names]
    marks = [SetCost(each.pod, each.uid, each.owner, 50) for each in moves]
    rig.server.judge = lambda _: Fault(delay_s=0.1)
    situation = ClusterView(rig.cluster, Nowhere())
    decision = decide(State(), situation, NOW)
    async with asyncio.TaskGroup() as group:
        rig.acting.apply((*moves, *marks), decision, situation, group)
        await asyncio.sleep(0.25)
        assert 20 < sum(each.outcome is AttemptOutcome.DONE for each in rig.attempts) < 60
        assert sum(isinstance(each.action, SetCost) for each in rig.attempts) <= 8
        rig.acting.apply(moves[:70], decision, situation, group)
    done = {each.action.pod.name for each in rig.attempts if each.outcome is AttemptOutcome.DONE}
    assert done.issuperset(names[:70])
    assert names[99] not in done
    assert asyncio.get_running_loop().time() < 2.0


@pytest.mark.rule("spot:P2")
@pytest.mark.looptime
async def test_a_defect_costs_one_move_and_not_the_others() -> None:
    rig = Rig()
    foreign = Evict(PodKey("shop", "b"), rig.uid_of("b"), "nobody's", Reason.TO_ON_DEMAND)
    attempts = await rig.carry_out(foreign, rig.evict("a"))
    assert sorted((each.action.pod.name, each.outcome) for each in attempts) == [
        ("a", AttemptOutcome.DONE),
        ("b", AttemptOutcome.FAILED),
    ]
