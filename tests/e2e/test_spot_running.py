"""Spot at work in a real cluster: conversions, rollouts, scaling, notices, losses, silent nodes, certificates that end.

Scheduler and controller-manager are as they are shipped. Everything is put up at once (`spot_scenes`), and each test
waits for its own part of it; those that take longest come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from situate.sim.spot.baselines import Case, deviating_figures, simulate_case
from situate.sim.spot.cluster.delays import BASELINE, LogNormalTime
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, CLASS, ON_DEMAND, RELEASED_PREFIX
from tests.e2e.pod_history import figures, least, leaving, replacements
from tests.e2e.recording import Recording
from tests.e2e.spot_installed import deployment, floor_held, installation, managers, stateful_set
from tests.e2e.spot_scenes import BRIEF, BRIEF_NODES, OPEN, SETTINGS, SOON, ZONE, Scenes
from tests.e2e.stub_nodes import ready_condition, taints
from tests.e2e.vpod_cluster import Cluster, rfc3339_now
from tests.e2e.webhooks import Asked, Webhooks, patched
from tests.waiting import eventually

UNREACHABLE = "node.kubernetes.io/unreachable"
LOOKS_S = timedelta(seconds=3)
"""Less than between two looks of the controller-manager at its nodes, which are five seconds apart."""


@pytest.fixture(scope="module")
def scenes(spot_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    with (
        installation(spot_cluster, tmp_path_factory.mktemp("spot"), SETTINGS, election={}) as spot,
        Recording(spot_cluster.plane, "/api/v1/pods", "/api/v1/nodes") as recording,
    ):
        made = Scenes(spot, recording)
        made.put_up_before_us()
        (pod, _) = spot.pods()
        process = spot.start(pod)
        spot.wait_answering(process, pod)
        made.put_up_silence()
        made.put_up_waves()
        made.end_brief_nodes()
        with made.under_load():
            yield made
        spot_cluster.kubectl("delete", "node", "-l", "pool")


@pytest.mark.rule("spot:B10", "spot:P28", "spot:P30", "spot:I5", "spot:S21", "spot:P16", "spot:D14")
def test_what_runs_already_is_put_right_with_the_fewest_evictions_one_at_a_time(scenes: Scenes) -> None:
    scenes.wait_on_demand("old-web", 3, 6)
    scenes.wait_on_demand("old-set", 2, 3)
    assert len(scenes.evicted("old-web")) == 3
    assert sorted(scenes.evicted("old-set")) == ["old-set-0", "old-set-1"]
    assert scenes.least_serving("old-web", 6) >= 5
    assert scenes.least_serving("old-set", 3) >= 2
    assert scenes.untouched("old-fitting"), "it had what it needs"
    assert scenes.untouched("old-guarded"), "its budget allows nobody to go"


@pytest.mark.rule("spot:B11", "spot:S22", "spot:S34", "spot:D17")
def test_a_target_that_changes_costs_as_many_restarts_and_no_more(scenes: Scenes) -> None:
    before = len(scenes.evicted("old-web"))
    for target, evicted in (("5", 2), ("4", 3)):
        scenes.patch("deployment", "old-web", {"metadata": {"annotations": {ON_DEMAND: target}}})
        scenes.wait_on_demand("old-web", int(target), 6)
        assert len(scenes.evicted("old-web")) - before == evicted
    assert scenes.least_serving("old-web", 6) >= 5


ROLLOUTS: Mapping[str, Mapping[str, Any]] = {
    "in-place": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
    "surging": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
    "at-once": {"type": "Recreate"},
}


@pytest.mark.rule("spot:B15", "spot:B16", "spot:P31", "spot:D13", "spot:B2")
def test_a_rollout_of_any_kind_and_its_rollback_keep_the_floor(scenes: Scenes) -> None:
    scenes.spot.deploy(*(deployment(name, 8, "3", pod=OPEN, strategy=strategy) for name, strategy in ROLLOUTS.items()))
    for name in ROLLOUTS:
        scenes.wait_on_demand(name, 3, 8)
    for image in ("example.com/c:2", "example.com/c:1"):
        for name in ROLLOUTS:
            containers = [{"name": "c", "image": image}]
            patch = {"spec": {"template": {"spec": {"containers": containers}}}}
            if image.endswith(":2"):
                scenes.patch("deployment", name, patch)
            else:
                scenes.cluster.kubectl("rollout", "undo", f"deployment/{name}", "-n", scenes.spot.shop)
        for name in ROLLOUTS:
            scenes.wait_image(name, image, 8)
            scenes.wait_on_demand(name, 3, 8)
    surging = scenes.history()
    assert least(surging, lambda moment: len(moment.on_demand("surging")), 3) >= 3
    # Where a burst had one too many on demand (P5), that one is moved when all serve, and no other meanwhile.
    assert scenes.least_serving("surging", 8) >= 8 - bool(scenes.evicted("surging"))


@pytest.mark.rule("spot:B1", "spot:F13", "spot:P15", "spot:P31", "spot:S26")
def test_replicas_that_change_again_and_again_end_with_the_floor(scenes: Scenes) -> None:
    """As a HorizontalPodAutoscaler changes them, some faster than pods come."""
    scenes.spot.deploy(deployment("breathing", 10, "30%", pod=OPEN))
    scenes.spot.wait_pods("breathing", 10)
    for replicas in (20, 6, 15):
        scenes.scale("deployment", "breathing", replicas)
    scenes.wait_on_demand("breathing", 5, 15)


@pytest.mark.rule("spot:B40", "spot:S29", "spot:I3", "spot:P16")
def test_ordinals_keep_their_classes_through_rollouts_with_a_partition_and_without(scenes: Scenes) -> None:
    scenes.spot.deploy(stateful_set("numbered", 4, pod=OPEN, ordinals={"start": 5}))
    scenes.wait_on_demand("numbered", 3, 4)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in scenes.spot.pods_of("numbered")}
    image = "example.com/c:2"
    containers = [{"name": "c", "image": image}]
    for partition, replaced in ((2, {"numbered-7", "numbered-8"}), (0, set(before))):
        strategy = {"rollingUpdate": {"partition": partition}}
        patch = {"spec": {"updateStrategy": strategy, "template": {"spec": {"containers": containers}}}}
        scenes.patch("statefulset", "numbered", patch)
        scenes.wait_image("numbered", image, len(replaced))
        pods = {each["metadata"]["name"]: each for each in scenes.wait_ready("numbered", 4)}
        assert {name for name, each in pods.items() if each["metadata"]["uid"] != before[name]} == replaced
        assert {name for name, each in pods.items() if each["metadata"]["labels"][CLASS] == "spot"} == {"numbered-8"}
    assert not scenes.evicted("numbered")


@pytest.mark.rule("spot:F5", "spot:B3", "spot:P18", "spot:P23", "spot:P26", "spot:D8")
def test_webhooks_of_others_before_and_after_ours_change_no_count(scenes: Scenes, tmp_path: Path) -> None:
    """The one after ours widens the affinity: ours is asked again and narrows what was added."""
    chosen = {"matchLabels": {"app": "shared"}}
    shop, kubectl = scenes.spot.shop, scenes.cluster.kubectl
    with Webhooks(tmp_path) as others:
        others.serve("/before", partial(_with_zones, ["a", "c"]))
        others.serve("/after", partial(_with_zones, ["b"]))
        made = [
            others.configuration(name, f"/{name[2:]}", shop, objectSelector=chosen) for name in ("a-before", "z-after")
        ]
        scenes.cluster.apply(*made)
        try:
            tried = deployment("shared", 1)["spec"]["template"]
            tried["metadata"]["name"] = "tried"
            path = f"/api/v1/namespaces/{shop}/pods?dryRun=All"
            both = partial(scenes.cluster.plane.request, "POST", path, tried)
            eventually("API servers know both webhooks", both, lambda pod: len(_terms(pod)) == 2)
            scenes.spot.deploy(deployment("shared", 12, "5", pod=OPEN))
            pods = scenes.spot.wait_pods("shared", 12)
        finally:
            kubectl("delete", "mutatingwebhookconfiguration", "a-before", "z-after")
    floor_held(pods, 5)
    for pod in pods:
        assert len(_terms(pod)) == 2
        on_demand = pod["metadata"]["labels"][CLASS] == "on-demand"
        ours = {"key": CAPACITY_LABEL, "operator": "In", "values": ["on-demand"]}
        for term in _terms(pod):
            assert term["matchExpressions"].count(ours) == on_demand


def _terms(pod: Mapping[str, Any]) -> list[Any]:
    node = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    found: list[Any] = node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return found


def _with_zones(zones: list[str], asked: Asked) -> Mapping[str, Any]:
    """One more term: these zones will do as well."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}
    affinity = dict(asked["object"]["spec"].get("affinity", {}))
    terms = {"nodeSelectorTerms": [*_terms(asked["object"]), term]}
    node = {**affinity.get("nodeAffinity", {}), "requiredDuringSchedulingIgnoredDuringExecution": terms}
    return patched({"op": "add", "path": "/spec/affinity", "value": {**affinity, "nodeAffinity": node}})


@pytest.mark.rule(
    "spot:B20", "spot:B21", "spot:B23", "spot:I3", "spot:S4", "spot:S5", "spot:D15", "spot:P33", "spot:F7", "spot:F8"
)
def test_a_notice_moves_everything_to_nodes_that_stay_and_nothing_is_short(scenes: Scenes) -> None:
    """All spot nodes of two pools end, one with two minutes' notice and one with twenty seconds'."""
    floors = {"notice-web": (2, 10), "notice-all": (0, 4), "notice-guarded": (0, 3), "notice-set": (3, 5)}
    for app, (floor, replicas) in {**floors, "locked-web": (0, 2)}.items():
        scenes.wait_on_demand(app, floor, replicas)
    ordinals = {each["metadata"]["name"]: each["metadata"]["uid"] for each in scenes.spot.pods_of("notice-set")}
    before, told_at = scenes.revision(), rfc3339_now()
    scenes.taint("notice", "aws-node-termination-handler/spot-itn=yes:NoSchedule")
    scenes.taint("locked", f"{SOON}=yes:NoSchedule")
    for app, (_, replicas) in floors.items():
        scenes.wait_on_demand(app, replicas, replicas)
    assert scenes.least_serving("notice-web", 10, before) >= 10
    assert scenes.least_serving("notice-all", 4, before) >= 4
    assert scenes.least_serving("notice-guarded", 3, before) >= 2, "its budget allows one at a time"
    assert least(scenes.history(before), lambda moment: len(moment.on_demand("notice-set")), 3) >= 3
    after = {each["metadata"]["name"]: each["metadata"]["uid"] for each in scenes.spot.pods_of("notice-set")}
    assert {name for name, uid in after.items() if ordinals[name] != uid} == {"notice-set-3", "notice-set-4"}
    released = {
        each.object["metadata"]["labels"]["app"]
        for each in scenes.changes()
        if each.object["metadata"].get("labels", {}).get("pod-template-hash", "").startswith(RELEASED_PREFIX)
    }
    assert released == {"notice-web", "notice-all"}

    scenes.wait_on_demand("locked-web", 2, 2)
    assert not scenes.evicted("locked-web"), "its budget allows nobody to go"
    deleted = [each.at for each in scenes.written("pods", "delete") if "/locked-web-" in each.uri]
    notice_s, grace_s, margin_s = 20, 1, 5
    earliest = datetime.fromisoformat(told_at) + timedelta(seconds=notice_s - grace_s - margin_s)
    assert deleted
    assert datetime.fromisoformat(min(deleted)) >= earliest


@pytest.mark.rule("spot:K7", "spot:I2", "spot:F8", "spot:S35", "spot:I14", "spot:B33")
def test_nodes_that_are_deleted_without_a_word_leave_the_floor_and_cost_what_the_simulator_foretells(
    scenes: Scenes,
) -> None:
    """It is told how long pods take in this cluster, on this machine; what follows from that, it says itself.

    It knows the mean alone: when the first pod serves, and the one that makes half of them, it can tell no better than
    these moments lie apart.
    """
    for app in BRIEF:
        scenes.wait_on_demand(app, 10, 10)
    ended = (each for each in scenes.changes() if each.deleted and each.object["metadata"]["name"] in BRIEF_NODES)
    begun = next(ended).at
    for app, floor in BRIEF.items():
        found = replacements(scenes.changes(), [app], BRIEF_NODES, begun)
        delays = replace(
            BASELINE,
            detection_s=found.detection_s,
            create_s=found.create_s,
            bind_s=found.bind_s,
            start=LogNormalTime(found.start_s, found.start_s),
        )
        foretold, _ = simulate_case(Case(floor), Random, delays=delays, runs=1)
        was = figures(scenes.history(), app, 10, begun)
        assert was.least_ready >= floor
        nearer = replace(
            was,
            cost=foretold.cost,
            outage_s=nearer_by(found.spread_s, was.outage_s, foretold.outage_s),
            half_s=nearer_by(found.spread_s, was.half_s, foretold.half_s),
        )
        assert not deviating_figures(nearer, foretold), f"{app}: {was}, foretold {foretold}, from {found}"


def nearer_by(room_s: float, was: float, foretold: float) -> float:
    """`was`, moved towards `foretold` by so much at most."""
    return min(max(foretold, was - room_s), was + room_s)


@pytest.mark.rule("spot:K7", "spot:I2", "spot:F8", "spot:P30", "spot:I14")
def test_silent_nodes_are_left_by_our_pods_at_once_and_by_others_perhaps_never(scenes: Scenes) -> None:
    def silent(name: str) -> Any:
        return scenes.cluster.get(f"/api/v1/nodes/{name}")

    names = ("silent-s1-0", "silent-s2-0", "silent-s2-1", "silent-s2-2")
    for name in names:
        look = partial(silent, name)
        node = eventually(f"{name} is found silent", look, lambda node: ready_condition(node) == "Unknown")
        assert silent_for(node) >= 40
        eventually(f"{name} is tainted", look, lambda node: f"{UNREACHABLE}:NoSchedule" in taints(node))
    found = partial(silent, "silent-s1-0")
    eventually("its pods are to leave", found, lambda node: f"{UNREACHABLE}:NoExecute" in taints(node))
    eventually("they are told to", partial(scenes.untouched, "plain-s1"), lambda untouched: not untouched)
    # Of a zone's nodes that are not all found silent at one look, the first may have to go like any other. So may one
    # of those that are: it may be its turn while the look is still going over them, and only then too many are silent.
    others = {name: silent(name) for name in names[1:]}
    latest = max(map(found_silent, others.values()))
    too_many = {name for name, node in others.items() if latest - found_silent(node) < LOOKS_S}
    hurried = {name for name in too_many if f"{UNREACHABLE}:NoExecute" in taints(silent(name))}
    assert len(hurried) <= 1, "too much of its zone is silent"
    assert scenes.untouched("plain-s2") or "silent-s2-0" not in too_many - hurried

    def whole(pods: list[Any]) -> bool:
        staying = [each for each in pods if not leaving(each)]
        return len(staying) == 4 and all(str(each["spec"].get("nodeName")).startswith("living-") for each in staying)

    eventually("ours are elsewhere", partial(scenes.spot.pods_of, "silent-web"), whole)
    assert least(scenes.history(), lambda moment: len(moment.on_demand("silent-web")), 2) >= 2


def silent_for(node: Mapping[str, Any]) -> float:
    """Seconds from its last word until it was found silent, as its condition has them."""
    last = datetime.fromisoformat(_ready(node)["lastHeartbeatTime"])
    return (found_silent(node) - last).total_seconds()


def found_silent(node: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(_ready(node)["lastTransitionTime"])


def _ready(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(each for each in node["status"]["conditions"] if each["type"] == "Ready")


@pytest.mark.rule("spot:B37", "spot:P6", "spot:F15")
def test_certificates_that_live_a_minute_are_replaced_and_no_question_is_left_without_an_answer(scenes: Scenes) -> None:
    (process,) = scenes.spot.processes

    def served() -> list[datetime]:
        lines = scenes.spot.log(process)
        return [datetime.fromisoformat(each["until"]) for each in lines if each["message"] == "certificate served"]

    first, *_ = eventually("a second certificate is served", served, lambda found: len(found) > 1)
    load = scenes.load
    eventually("the first one has ended, and questions are asked", lambda: load.answered[-1][0], lambda at: at > first)
    assert not load.problems
    assert {pod_class for _, pod_class in load.answered} <= {"spot", "on-demand"}


@pytest.mark.rule("spot:I6", "spot:S23", "spot:S10", "spot:I7", "spot:B36")
def test_nothing_of_all_this_was_written_on_a_workload_or_a_node(scenes: Scenes) -> None:
    shop = scenes.spot.shop
    for kind in ("deployments", "replicasets", "statefulsets"):
        for obj in scenes.cluster.get(f"/apis/apps/v1/namespaces/{shop}/{kind}")["items"]:
            assert all(each == "kube-controller-manager" or each.startswith("kubectl") for each in managers(obj)), obj
    written = {each.resource for each in scenes.cluster.requests(scenes.spot.space) if each.decided}
    ours = {"configmaps", "secrets", "mutatingwebhookconfigurations"}  # the record of valid policies, the certificate
    assert written <= {"pods", "pods/eviction", *ours}, written
    scenes.spot.check()
