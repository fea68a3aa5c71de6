"""The shipped controller on a cluster in virtual time: what is moved, how often, and how many serve meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity
from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.controller.act.conditions import CONDITION
from situate.spot.model.actions import Evict, Reason
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import ON_DEMAND, PodKey
from situate.testing.spot.world.world import SHOP, SpotWorld, machinery_settings, parse_settings
from situate.testing.virtual_time.isolation import suppress_logs

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SHOP}/deployments"
SETS = f"/apis/apps/v1/namespaces/{SHOP}/statefulsets"
NOTICE = [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]


class Scene(SpotWorld):
    """Three nodes of each kind, and a leader."""

    def __init__(self, *, on_demand: int, spot: int, pods: int, **settings: Any) -> None:
        super().__init__(1, parse_settings(**settings), machinery_settings())
        self.moves: Counter[str] = Counter()
        """Answers to writes of moves: `evict 201`, `delete 200`, `patch 200`."""
        self.written: set[str] = set()
        """Resources."""
        for number in range(on_demand):
            self.add_node(f"od-{number}", "on-demand", zone=f"z{number}", pods=pods)
        for number in range(spot):
            self.add_node(f"spot-{number}", "spot", zone=f"z{number}", pods=pods)
        assert self.wait_until_led()
        self.request_listeners.append(self._written)

    def _written(self, request: Request, answer: Response | Watch, _: Identity) -> None:
        parts = request.path.split("/")
        assert isinstance(answer, Response)
        self.written.add(next(each for each in ("pods", *parts[::-1]) if each in parts))
        if SHOP in parts and "pods" in parts:
            what = "evict" if parts[-1] == "eviction" else request.method.lower()
            self.moves[f"{what} {answer.status}"] += 1

    def deploy(self, name: str, replicas: int, on_demand: str, collection: str = DEPLOYMENTS, **spec: Any) -> None:
        labels = {"app": name}
        containers = [{"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": "100m"}}}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        content = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
        metadata = {"name": name, "annotations": {ON_DEMAND: on_demand}}
        self.create_object(collection, {"metadata": metadata, "spec": content})

    def want(self, name: str, on_demand: str) -> None:
        self.change(f"{DEPLOYMENTS}/{name}", {"metadata": {"annotations": {ON_DEMAND: on_demand}}})

    def change(self, path: str, content: dict[str, Any]) -> None:
        assert self.call("PATCH", path, content, patch=True)["kind"] != "Status"

    def notice(self) -> None:
        for name in ("spot-0", "spot-1", "spot-2"):
            self.change(f"/api/v1/nodes/{name}", {"spec": {"taints": NOTICE}})

    def live(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self.pods(name) if "deletionTimestamp" not in each["metadata"]]

    def placed(self, name: str) -> Counter[str]:
        """By kind of node."""
        return Counter(each["spec"].get("nodeName", "").partition("-")[0] for each in self.live(name))

    def serving(self, name: str) -> int:
        return sum(said(each, "Ready") == "True" for each in self.live(name))

    def least(self, name: str, seconds: float, stop: Callable[[], bool] = lambda: False) -> int:
        """The fewest that served within that time, looked at twice a second."""
        fewest, until = self.serving(name), self.now + seconds
        while self.now < until and not stop():
            self.let_pass(0.5)
            fewest = min(fewest, self.serving(name))
        return fewest


def said(pod: dict[str, Any], condition: str) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == condition), "")


@contextmanager
def scene(*, on_demand: int = 3, spot: int = 3, pods: int = 110, **settings: Any) -> Iterator[Scene]:
    with suppress_logs():
        made = Scene(on_demand=on_demand, spot=spot, pods=pods, **settings)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.rule("spot:B11", "spot:P28", "spot:I4", "spot:I5", "spot:I6", "spot:S22", "spot:B10")
def test_a_changed_target_costs_exactly_as_many_restarts_one_at_a_time() -> None:
    with scene() as shop:
        shop.deploy("web", 10, "0")
        shop.let_pass(30)
        shop.want("web", "4")
        assert shop.least("web", 600, stop=lambda: shop.placed("web")["od"] == 4 and shop.serving("web") == 10) == 9
        assert shop.placed("web") == {"od": 4, "spot": 6}
        assert shop.moves["evict 201"] == 4
        shop.want("web", "2")
        assert shop.least("web", 600, stop=lambda: shop.placed("web")["od"] == 2 and shop.serving("web") == 10) == 9
        shop.let_pass(300)
        assert shop.moves["evict 201"] == 6, "and then no more"
        assert "deployments" not in shop.written
        assert "replicasets" not in shop.written
        assert "nodes" not in shop.written


@pytest.mark.rule("spot:B11", "spot:S26")
def test_a_changed_target_is_acted_on_at_once() -> None:
    with scene() as shop:
        shop.deploy("web", 4, "0")
        shop.let_pass(120)
        shop.want("web", "1")
        assert shop.let_pass(2.5, stop=lambda: shop.moves["evict 201"] == 1)


@pytest.mark.rule("spot:B20", "spot:S8", "spot:I2", "spot:B23")
def test_two_minutes_of_notice_for_all_spot_nodes_leave_nothing_short() -> None:
    with scene() as shop:
        shop.deploy("web", 10, "2")
        shop.let_pass(60)
        assert shop.placed("web") == {"od": 2, "spot": 8}
        shop.notice()
        assert shop.least("web", 140) == 10
        assert shop.placed("web") == {"od": 10}
        assert shop.moves["evict 201"] == 0
        assert shop.moves["delete 200"] == 8


@pytest.mark.rule("spot:B21", "spot:I3", "spot:S29")
def test_a_statefulset_keeps_its_majority_in_a_wave() -> None:
    with scene() as shop:
        shop.deploy("db", 5, "default", SETS)
        shop.let_pass(60)
        assert shop.placed("db") == {"od": 3, "spot": 2}
        shop.notice()
        assert shop.least("db", 140) == 3
        assert shop.placed("db") == {"od": 5}


@pytest.mark.rule("spot:F7", "spot:S6", "spot:P30")
def test_a_budget_that_allows_nothing_is_respected_until_the_node_ends() -> None:
    with scene() as shop:
        shop.deploy("web", 4, "0")
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
        shop.create_object(
            f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets", {"metadata": {"name": "web"}, "spec": budget}
        )
        shop.let_pass(30)
        shop.want("web", "2")
        assert shop.least("web", 300) == 4
        assert not shop.moves, "policy does not even ask"
        began = shop.now
        shop.notice()
        shop.let_pass(120 - 30 - 6)
        assert shop.moves["delete 200"] == 0
        assert shop.moves["evict 429"] <= 4 * 10
        shop.let_pass(6)
        assert shop.moves["delete 200"] == 4, "at the deadline without the pods' own grace"
        assert shop.now - began < 120


@pytest.mark.rule("spot:F7", "spot:S6")
def test_pods_that_two_budgets_select_are_never_asked_for() -> None:
    """The server grants no eviction of them; in a wave they go when time is up."""
    with scene() as shop:
        shop.deploy("web", 3, "0")
        for name in ("one", "two"):
            budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
            shop.create_object(
                f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets", {"metadata": {"name": name}, "spec": budget}
            )
        shop.let_pass(30)
        shop.want("web", "2")
        shop.let_pass(200)
        assert not shop.moves


@pytest.mark.rule("spot:F7", "spot:B13")
@pytest.mark.parametrize("outcome", list(AttemptOutcome))
def test_only_moves_that_were_made_are_counted_among_those_of_the_hour(outcome: AttemptOutcome) -> None:
    with scene() as shop:
        shop.deploy("web", 3, "0")
        shop.let_pass(70)
        shop.want("web", "1")
        leader = shop.leader()
        assert leader is not None
        moving, memories = leader.controller.decision_loop, leader.controller.cache.memories
        assert shop.let_pass(30, stop=lambda: any(each.moved for each in memories.values()))
        ((uid, memory),) = [(uid, each) for uid, each in memories.items() if each.moved]
        before = moving.recent_policy_moves
        moving.record_attempt(Attempt(Evict(PodKey(SHOP, "web"), memory.moved, uid, Reason.TO_ON_DEMAND), outcome))
        assert (before, moving.recent_policy_moves) == (1, 1 if outcome is AttemptOutcome.DONE else 0)


@pytest.mark.rule("spot:B14")
def test_in_read_only_mode_nothing_is_touched_and_what_would_be_done_is_told() -> None:
    with scene(readOnly=True) as shop:
        shop.deploy("web", 4, "0")
        shop.let_pass(30)
        shop.want("web", "2")
        shop.let_pass(150)
        shop.notice()
        shop.let_pass(130)
        assert not shop.moves
        assert shop.events["ReadOnly"] == 1 + 4, "one for the target, and each pod in the wave"


@pytest.mark.rule("spot:B18", "spot:P35")
def test_a_pod_that_waits_for_room_says_so_and_stops_saying_it() -> None:
    with scene(on_demand=1, pods=3) as shop:
        shop.deploy("web", 4, "4")
        shop.let_pass(90)
        (waits,) = [each for each in shop.live("web") if not each["spec"].get("nodeName")]
        assert said(waits, CONDITION) == "False"
        assert shop.events["NoOnDemandRoom"] == 1
        shop.let_pass(300)
        assert shop.events["NoOnDemandRoom"] == 1, "told once"
        writes = shop.moves["patch 200"]
        shop.add_node("od-9", "on-demand")
        shop.let_pass(60)
        assert shop.serving("web") == 4
        assert [said(each, CONDITION) for each in shop.live("web")].count("True") == 1
        assert shop.moves["patch 200"] == writes + 1


@pytest.mark.rule("spot:B18")
def test_where_the_configuration_says_so_a_debt_is_made_and_repaid() -> None:
    with scene(on_demand=1, spot=2, pods=3, onDemandFull="degrade") as shop:
        shop.deploy("web", 4, "4")
        shop.let_pass(200)
        assert (shop.placed("web"), shop.serving("web")) == ({"od": 3, "spot": 1}, 4)
        shop.add_node("od-9", "on-demand")
        shop.let_pass(200)
        assert (shop.placed("web"), shop.serving("web")) == ({"od": 4}, 4)


@pytest.mark.rule("spot:B15", "spot:B17", "spot:D13", "spot:F11")
def test_a_rollout_on_full_on_demand_nodes_ends_with_the_floor() -> None:
    with scene(on_demand=1, spot=2, pods=4) as shop:
        update = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        shop.deploy("web", 6, "4", strategy=update)
        shop.let_pass(30)
        template = {"metadata": {"labels": {"app": "web", "version": "2"}}}
        shop.change(f"{DEPLOYMENTS}/web", {"spec": {"template": template}})
        assert shop.least("web", 900) >= 5, "but for one repair nothing is short"
        assert shop.placed("web") == {"od": 4, "spot": 2}
        assert {each["metadata"]["labels"].get("version") for each in shop.live("web")} == {"2"}
        assert shop.moves["evict 201"] <= 1, "at most one repair"


@pytest.mark.rule("spot:B19", "spot:I9")
def test_a_pod_that_overflowed_makes_room_within_two_minutes() -> None:
    with scene(on_demand=1, spot=1, pods=4) as shop:
        shop.change("/api/v1/nodes/spot-0", {"spec": {"unschedulable": True}})
        shop.deploy("low", 4, "0")
        shop.let_pass(20)
        assert shop.placed("low") == {"od": 4}
        shop.change("/api/v1/nodes/spot-0", {"spec": {"unschedulable": None}})
        shop.deploy("web", 1, "1")
        shop.let_pass(120)
        assert (shop.serving("web"), shop.placed("web")) == (1, {"od": 1})
        assert shop.moves["evict 201"] == 1


@pytest.mark.rule("spot:F3", "spot:B4", "spot:I11")
def test_another_leader_goes_on_where_the_first_one_was_killed() -> None:
    with scene() as shop:
        shop.deploy("web", 6, "0")
        shop.let_pass(70)
        shop.want("web", "3")
        shop.let_pass(5)
        first = shop.leader()
        assert first is not None
        shop.end(first)
        assert shop.least("web", 600) >= 5
        assert shop.placed("web") == {"od": 3, "spot": 3}
        assert shop.moves["evict 201"] == 3


@pytest.mark.rule("spot:B4", "spot:P2", "spot:F4")
def test_pods_that_came_while_nobody_answered_are_put_right_within_a_minute() -> None:
    with scene() as shop:
        shop.deploy("web", 2, "9")
        shop.let_pass(100)
        for member in tuple(shop.members):
            shop.end(member)
        shop.change(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 10}})
        shop.let_pass(5)
        assert len(shop.live("web")) == 10, "both are away, and pods start"
        assert shop.let_pass(60, stop=lambda: shop.leader() is not None)
        assert shop.placed("web")["od"] < 9
        assert shop.least("web", 60) >= 9
        assert shop.placed("web")["od"] == 9


@pytest.mark.rule("spot:P2", "spot:B6")
def test_a_defect_in_deciding_leaves_admission_alone_and_moves_go_on_after_it() -> None:
    def broken(nodes: Nodes) -> SchedulerCapacity:
        raise ZeroDivisionError("on purpose")

    with scene() as shop:
        shop.deploy("web", 4, "0")
        shop.let_pass(70)
        leader = shop.leader()
        assert leader is not None
        rooms = leader.controller.capacity
        whole, rooms._scheduler_capacity = rooms._scheduler_capacity, broken  # type: ignore[method-assign]  # the defect
        shop.want("web", "2")
        shop.let_pass(30)
        shop.deploy("more", 3, "1")
        shop.let_pass(30)
        assert shop.placed("more") == {"od": 1, "spot": 2}
        assert shop.placed("web") == {"spot": 4}
        assert shop.leader() is leader
        rooms._scheduler_capacity = whole  # type: ignore[method-assign]
        assert shop.least("web", 200) == 3
        assert shop.placed("web") == {"od": 2, "spot": 2}
