"""What else bears on moves: what may not be released, what budgets allow, who leads."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.objects.decoding.codec import decode
from situate.spot.controller.observe.constraints_watch import HOLDER_READ_S, ConstraintInformers
from situate.spot.model.pods_nodes_workloads import LEADER
from situate.spot.workloads.cluster_objects import Cluster
from tests.kube.hostile_server import Fault, HostileServer
from tests.spot.builders import UID, owner, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"


class Rig:
    """A Deployment whose leader a Lease names, and stores that a test writes."""

    def __init__(self) -> None:
        self.server = HostileServer()
        led = owner(2, annotations={LEADER: "lease/web"})
        self.cluster = Cluster({UID: led}, {}, {UID: (pod("web-a", "od"), pod("web-b", "spot"))})
        clock = asyncio.get_running_loop().time
        self.around = ConstraintInformers(Client(self.server), self.cluster, random.Random(1), clock)
        self.woken = 0
        self.around.on_change(self.wake)

    def wake(self) -> None:
        self.woken += 1

    def put(self, reflector: Reflector[Any], name: str, **content: Any) -> None:
        wire = {"metadata": {"name": name, "namespace": "shop", "uid": name}, **content}
        reflector.store.put(decode(reflector.scope.resource, msgspec.json.encode(wire)))

    def guards(self) -> list[tuple[str, str, int | None]]:
        return [(each.kind, each.name, each.disruptions_allowed) for each in self.around.current_constraints().guards]


@pytest.mark.rule("spot:B20", "spot:S6")
@pytest.mark.looptime
async def test_budgets_and_what_selects_a_revision_bear_on_moves() -> None:
    rig = Rig()
    around = rig.around
    app, revision = {"app": "web"}, {"app": "web", "pod-template-hash": "r1"}
    rig.put(around.budgets, "web", spec={"selector": {"matchLabels": app}}, status={"disruptionsAllowed": 1})
    rig.put(around.services, "web", spec={"selector": app})
    rig.put(around.services, "canary", spec={"selector": revision})
    rig.put(around.services, "external")
    rig.put(around.network_policies, "all", spec={"podSelector": {}})
    rig.put(around.network_policies, "one", spec={"podSelector": {"matchLabels": revision}})
    assert rig.guards() == [
        ("PodDisruptionBudget", "web", 1),
        ("Service", "canary", None),
        ("NetworkPolicy", "one", None),
    ]
    assert rig.woken == 6
    pods = rig.cluster.pods[UID]
    assert around.current_constraints().disruptions_allowed(pods) == 1
    rig.put(around.budgets, "web", spec={"selector": {"matchLabels": app}}, status={"disruptionsAllowed": 0})
    rig.put(around.services, "canary", spec={"selector": app})
    around.network_policies.store.remove("one", "shop")
    assert rig.guards() == [("PodDisruptionBudget", "web", 0)]
    rig.put(around.budgets, "web", spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})
    assert rig.guards() == [], "a selector that cannot be read selects nothing, as for the server"


@pytest.mark.rule("spot:B20", "spot:F5")
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("spec", "status", "full"),
    [
        pytest.param({}, {"hard": {"pods": "4"}, "used": {"pods": "4"}}, True, id="as many pods as it allows"),
        pytest.param({}, {"hard": {"count/pods": "4"}, "used": {"count/pods": "5"}}, True, id="said otherwise"),
        pytest.param({}, {"hard": {"pods": "4"}, "used": {"pods": "3"}}, False, id="one more"),
        pytest.param({}, {"hard": {"cpu": "4"}, "used": {"cpu": "4"}}, False, id="of other things"),
        pytest.param({}, {"hard": {"pods": "4"}}, False, id="not counted yet"),
        pytest.param({"scopes": ["BestEffort"]}, {"hard": {"pods": "1"}, "used": {"pods": "1"}}, False, id="of others"),
    ],
)
async def test_a_full_quota_takes_no_replacement(spec: dict[str, Any], status: dict[str, Any], full: bool) -> None:
    rig = Rig()
    rig.put(rig.around.quotas, "quota", spec=spec, status=status)
    assert rig.around.current_constraints().full_quotas == (frozenset({"shop"}) if full else frozenset())


@pytest.mark.rule("spot:B45")
@pytest.mark.looptime
async def test_who_holds_the_lease_that_a_workload_names_leads_it() -> None:
    rig = Rig()
    rig.server.put(f"{LEASES}/web", {"spec": {"holderIdentity": "web-b_1234"}})
    await rig.around.read_lease_holders()
    assert rig.around.current_constraints().leaders == {"uid-web-b"}
    rig.server.put(f"{LEASES}/web", {"spec": {"holderIdentity": "web-a"}})
    await rig.around.read_lease_holders()
    assert rig.around.current_constraints().leaders == {"uid-web-b"}, "it is looked at now and then"
    await asyncio.sleep(HOLDER_READ_S)
    await rig.around.read_lease_holders()
    assert rig.around.current_constraints().leaders == {"uid-web-a"}
    rig.server.judge = lambda _: Fault(status=500, reason="InternalError")
    await asyncio.sleep(HOLDER_READ_S)
    await rig.around.read_lease_holders()
    assert rig.around.current_constraints().leaders == {"uid-web-a"}, "what cannot be read stays as it was"
    rig.server.judge = lambda _: None
    rig.server.remove(f"{LEASES}/web")
    await asyncio.sleep(HOLDER_READ_S)
    await rig.around.read_lease_holders()
    assert rig.around.current_constraints().leaders == frozenset()


@pytest.mark.rule("spot:B45")
@pytest.mark.looptime
async def test_leases_that_no_workload_names_are_not_read() -> None:
    rig = Rig()
    rig.cluster.owners[UID] = owner(2, annotations={LEADER: "role=primary"})  # type: ignore[index]  # a dict here
    await rig.around.read_lease_holders()
    assert rig.server.requests == []


@pytest.mark.rule("spot:F1", "spot:P5")
@pytest.mark.looptime
async def test_nothing_is_moved_before_what_may_forbid_it_is_known_but_quotas_may_stay_unknown() -> None:
    around = Rig().around
    for reflector in (around.budgets, around.services, around.network_policies):
        assert around.readiness_problem() is not None
        reflector.store.replace(())
    assert around.readiness_problem() is None
