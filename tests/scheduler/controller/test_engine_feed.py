"""What the stores show reaches the engine; one object that cannot be acted on is named, and stops nobody."""

from __future__ import annotations

import pytest

from situate.framework.engine.decisions import Placed
from situate.framework.engine.engine import Engine
from situate.kube.watch.store import Store
from situate.objects.kinds.meta import KubernetesObject, ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
)
from situate.objects.kinds.selectors import LabelSelector, LabelSelectorRequirement
from situate.objects.kinds.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from situate.objects.resources import PODDISRUPTIONBUDGETS, ResourceType
from situate.objects.selection.label_selectors import parse_selector
from situate.objects.values.quantity import parse_quantity
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.informers import Stores
from situate.testing.scheduler.world import default_setup

NONSENSE = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Nearly", ("web",)),))
TERM = PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=NONSENSE)
BAD = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))


class Complaints:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.bad: dict[str, str] = {}

    def bad_object(self, each: Pod | Node, problem: str) -> None:
        self.bad[each.metadata.name] = problem

    def bad_selector(self, resource: ResourceType[KubernetesObject], each: KubernetesObject, problem: str) -> None:
        self.bad[each.metadata.name] = problem

    def good_object(self, resource: str, uid: str) -> None:
        self.bad.pop(uid, None)


class Told:
    """An engine that is told by stores, which the test fills."""

    def __init__(self) -> None:
        self.stores = Stores.create_empty()
        self.complaints = Complaints()
        self.intake = EngineFeed(self.stores, self.complaints, lambda: 0.0)
        self.engine = Engine(default_setup().profiles)
        self.stirred = 0

    def begin(self) -> None:
        self.intake.begin(self.engine, self._stir)

    def placed(self) -> dict[str, str]:
        self.intake.hand_over_catalog()
        found = {}
        while (decision := self.engine.schedule(0.0)) is not None:
            if isinstance(decision, Placed):
                found[decision.pod.info.name] = decision.node
        return found

    def _stir(self) -> None:
        self.stirred += 1


@pytest.fixture
def told() -> Told:
    made = Told()
    room = {"cpu": parse_quantity("4"), "memory": parse_quantity("8Gi"), "pods": parse_quantity("10")}
    made.stores.nodes.put(Node(ObjectMeta(name="n1", uid="n1"), status=NodeStatus(allocatable=room)))
    return made


def pod(name: str, cpu: str = "1", *, on: str = "", affinity: Affinity = Affinity(), uid: str = "") -> Pod:  # noqa: B008  # frozen
    requests = ResourceRequirements(requests={"cpu": parse_quantity(cpu)})
    spec = PodSpec(
        scheduler_name="situate", node_name=on, containers=(Container(resources=requests),), affinity=affinity
    )
    return Pod(ObjectMeta(name=name, namespace="work", uid=uid or name), spec)


def put(store: Store[Pod], *pods: Pod) -> None:
    for each in pods:
        store.put(each)


def test_what_is_there_at_the_beginning_and_what_comes_later(told: Told) -> None:
    put(told.stores.pods, pod("there", "3", on="n1"), pod("waits"))
    told.begin()
    assert told.placed() == {"waits": "n1"}
    put(told.stores.pods, pod("late"))
    assert told.stirred
    assert told.placed() == {}, "four cores are taken"
    told.stores.pods.remove("there", "work")
    assert told.placed() == {"late": "n1"}


def test_a_pod_of_the_same_name_is_another_one(told: Told) -> None:
    put(told.stores.pods, pod("web", "3", on="n1", uid="first"))
    told.begin()
    put(told.stores.pods, pod("web", "3", uid="second"))
    assert told.placed() == {"web": "n1"}


def test_a_pod_that_cannot_be_read_is_named_and_the_others_go_on(told: Told) -> None:
    told.begin()
    put(told.stores.pods, pod("bad", affinity=BAD), pod("web"))
    assert told.placed() == {"web": "n1"}
    assert "work/bad" in told.complaints.bad["bad"]
    assert "Nearly" in told.complaints.bad["bad"]
    put(told.stores.pods, pod("bad"))
    assert told.complaints.bad == {}
    assert told.placed() == {"bad": "n1"}


def test_a_placed_pod_that_cannot_be_read_still_takes_its_room(told: Told) -> None:
    put(told.stores.pods, pod("bad", "4", on="n1", affinity=BAD))
    told.begin()
    put(told.stores.pods, pod("web"))
    assert told.placed() == {}
    assert "bad" in told.complaints.bad


def test_a_budget_that_cannot_be_read_is_left_out(told: Told) -> None:
    told.begin()
    budgets = told.stores.others[PODDISRUPTIONBUDGETS]
    good = LabelSelector({"app": "web"})
    budgets.put(PodDisruptionBudget(ObjectMeta(name="good", namespace="work"), PodDisruptionBudgetSpec(selector=good)))
    bad = PodDisruptionBudget(ObjectMeta(name="bad", namespace="work"), PodDisruptionBudgetSpec(selector=NONSENSE))
    budgets.put(bad)
    told.intake.hand_over_catalog()
    (known,) = told.engine.cache.catalog.budgets["work"]
    assert (known.name, known.selector) == ("good", parse_selector("app in (web)"))
    assert "Nearly" in told.complaints.bad["bad"]


def test_an_amount_beyond_all_measure_is_one_that_no_node_has(told: Told) -> None:
    told.begin()
    put(told.stores.pods, pod("greedy", "1e30"), pod("web"))
    assert told.placed() == {"web": "n1"}


def test_after_the_end_nothing_is_told(told: Told) -> None:
    told.begin()
    told.intake.end()
    before = told.stirred
    put(told.stores.pods, pod("web"))
    assert told.placed() == {}
    assert told.stirred == before
