"""One entry changes with one object; what did not change stays the same object, for plugins remember by identity."""

from __future__ import annotations

from situate.framework.plugin_api.catalog_keeper import CatalogKeeper
from situate.framework.volumes.catalog import Budget
from situate.objects.kinds.config_maps import Namespace
from situate.objects.kinds.meta import KubernetesObject, ObjectMeta
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.kinds.services import Service, ServiceSpec
from situate.objects.kinds.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetSpec,
)
from situate.objects.resources import (
    NAMESPACES,
    PODDISRUPTIONBUDGETS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
)
from situate.objects.selection.label_selectors import parse_selector

WEB = LabelSelector({"app": "web"})


def meta(name: str, namespace: str = "default", **labels: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, labels=labels)


def service(name: str, namespace: str = "default", **selector: str) -> Service:
    return Service(meta(name, namespace), ServiceSpec(selector))


def keeper(*objects: tuple[object, KubernetesObject]) -> CatalogKeeper:
    made = CatalogKeeper()
    for resource, each in objects:
        made.change(resource, None, each)  # type: ignore[arg-type]  # resources of several models
    return made


def test_everything_is_found_under_its_name() -> None:
    catalog = keeper(
        (NAMESPACES, Namespace(meta("default", "", team="red"))),
        (SERVICES, service("web", app="web")),
        (SERVICES, service("without")),
        (REPLICATIONCONTROLLERS, ReplicationController(meta("old"), ReplicationControllerSpec(selector={"a": "b"}))),
        (REPLICASETS, ReplicaSet(meta("set"), ReplicaSetSpec(selector=WEB))),
        (STATEFULSETS, StatefulSet(meta("db"), StatefulSetSpec(selector=WEB))),
        (
            PODDISRUPTIONBUDGETS,
            PodDisruptionBudget(
                meta("most"), PodDisruptionBudgetSpec(selector=WEB), PodDisruptionBudgetStatus(disruptions_allowed=2)
            ),
        ),
    ).catalog()
    assert catalog.namespaces == {"default": {"team": "red"}}
    assert catalog.services == {"default": ({"app": "web"},)}
    web = parse_selector("app in (web)")
    assert catalog.owners == {
        ("ReplicationController", "default", "old"): parse_selector("a in (b)"),
        ("ReplicaSet", "default", "set"): web,
        ("StatefulSet", "default", "db"): web,
    }
    assert catalog.budgets == {"default": (Budget("most", web, 2),)}


def test_a_change_that_makes_no_difference_gives_the_same_catalog() -> None:
    known = ReplicaSet(meta("set"), ReplicaSetSpec(selector=WEB))
    scaled = ReplicaSet(meta("set"), ReplicaSetSpec(replicas=9, selector=WEB), ReplicaSetStatus(ready_replicas=3))
    kept = keeper((REPLICASETS, known))
    before = kept.catalog()
    kept.change(REPLICASETS, known, scaled)
    assert not kept.stale
    assert kept.catalog() is before


def test_other_namespaces_keep_their_entries() -> None:
    kept = keeper((SERVICES, service("a", "red", app="a")), (SERVICES, service("b", "blue", app="b")))
    before = kept.catalog()
    kept.change(SERVICES, None, service("c", "blue", app="c"))
    after = kept.catalog()
    assert after.services["red"] is before.services["red"]
    assert len(after.services["blue"]) == 2
    kept.change(SERVICES, service("a", "red", app="a"), None)
    assert "red" not in kept.catalog().services
    assert len(before.services["blue"]) == 1, "earlier catalogs do not change"
