"""Random histories: what controllers promise at every moment, and where they arrive when the faults are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situate.cluster.controllers import KubeletSettings, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Create, Delete, Write
from situate.cluster.controllers.node.pods import PodFacts
from situate.cluster.controllers.workloads.deployment.rollout import build_rollout
from tests.cluster.controllers.world import World, deployment, stateful_set

HISTORIES = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
SLOW = MachinerySettings(kubelet=KubeletSettings(start_delay=2, stop_delay=3, jitter=1.0))

Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["scale", "image", "delete", "unready", "ready", "hold", "release", "stop", "start", "fail", "steal"]
        ),
        st.integers(0, 5),
        st.integers(0, 12),
    ),
    max_size=12,
)


def act(world: World, resource: str, step: Step) -> None:
    """One disturbance, then some seconds."""
    kind, number, seconds = step
    names = world.pods()
    name = names[number % len(names)] if names else ""
    match kind:
        case "scale":
            world.patch(resource, "web", {"spec": {"replicas": number}})
        case "image":
            containers = [{"name": "app", "image": f"app:{number}"}]
            world.patch(resource, "web", {"spec": {"template": {"spec": {"containers": containers}}}})
        case "stop":
            world.machinery.stop_kubelet(f"node-{number % 3}")
        case "start":
            world.machinery.start_kubelet(f"node-{number % 3}")
        case _ if not name:
            pass
        case "delete":
            world.delete("pods", name)
        case "unready" | "hold":
            world.patch("pods", name, {"metadata": {"annotations": {kind: "1"}}})
        case "ready" | "release":
            annotation = {"ready": "unready", "release": "hold"}[kind]
            world.patch("pods", name, {"metadata": {"annotations": {annotation: None}}})
        case "fail":
            world.patch("pods", name, {"status": {"phase": "Failed"}})
        case "steal":
            world.patch("pods", name, {"metadata": {"ownerReferences": None}})
    world.run(seconds)


def heal(world: World) -> None:
    """All faults are over, and there has been time."""
    for number in range(3):
        world.machinery.start_kubelet(f"node-{number}")
    for name in world.pods():
        world.patch("pods", name, {"metadata": {"annotations": {"unready": None, "hold": None}}})
    world.run(2000)


def well(pod: PodFacts) -> bool:
    return pod.running_and_ready and not pod.terminating


def order_kept(world: World) -> Callable[[Write], WriteAnswer | None]:
    """Checks each write to pods of an ordered set against what it promises."""

    def look(action: Write) -> None:
        if not isinstance(action, Create | Delete) or action.resource != "pods":
            return
        found = world.get("statefulsets.apps", "web")
        assert found is not None
        pods = {
            pod.index: pod for pod in world.machinery.cluster.pods.pods_of_owner(found["metadata"]["uid"]).pods.values()
        }
        replicas = found["spec"]["replicas"]
        if isinstance(action, Create):
            ordinal = int(action.body["metadata"]["name"].rpartition("-")[2])
            assert ordinal < replicas
            assert all(lower in pods and well(pods[lower]) for lower in range(ordinal)), "created before its elders"
            return
        if action.grace_seconds is not None:
            return  # a kubelet's or the pod collector's
        ordinal = int(action.name.rpartition("-")[2])
        if ordinal >= replicas:
            assert ordinal == max(pods), "scaled down out of order"
            assert all(index in pods and well(pods[index]) for index in range(replicas)), "scaled down while ill"

    def check(action: Write) -> WriteAnswer | None:
        # The index learns of writes of this step when the machinery takes them in, before the next decision.
        if isinstance(action, Create | Delete) and action.resource == "pods":
            look(action)
        return None

    return check


@HISTORIES
@given(replicas=st.integers(0, 5), history=steps)
def test_an_ordered_set_keeps_its_order_whatever_happens(replicas: int, history: list[Step]) -> None:
    world = World(SLOW)
    world.create("statefulsets.apps", stateful_set(replicas=replicas))
    by_taints = {"stop"}
    world.refuse = order_kept(world)
    for step in history:
        if step[0] not in by_taints:
            act(world, "statefulsets.apps", step)


@HISTORIES
@given(
    replicas=st.integers(0, 5),
    history=steps,
    policy=st.sampled_from(["OrderedReady", "Parallel"]),
    partition=st.integers(0, 2),
)
def test_a_stateful_set_arrives(replicas: int, history: list[Step], policy: str, partition: int) -> None:
    world = World(SLOW)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    world.create(
        "statefulsets.apps", stateful_set(replicas=replicas, podManagementPolicy=policy, updateStrategy=update)
    )
    for step in history:
        act(world, "statefulsets.apps", step)
    heal(world)
    found = world.get("statefulsets.apps", "web")
    assert found is not None
    want = found["spec"]["replicas"]
    assert world.pods() == sorted(f"web-{ordinal}" for ordinal in range(want))
    status = found["status"]
    assert status["replicas"] == status["readyReplicas"] == status["availableReplicas"] == want
    assert status["observedGeneration"] == found["metadata"]["generation"]
    for pod in world.machinery.cluster.pods.pods.values():
        assert well(pod)
        assert pod.owner_uid == found["metadata"]["uid"]
        if pod.index >= partition:
            assert pod.labels["controller-revision-hash"] == status["updateRevision"]


@HISTORIES
@given(
    replicas=st.integers(0, 5),
    history=steps,
    strategy=st.sampled_from(["RollingUpdate", "Recreate"]),
    surge=st.integers(0, 2),
)
def test_a_deployment_arrives(replicas: int, history: list[Step], strategy: str, surge: int) -> None:
    world = World(SLOW)
    bounds: dict[str, Any] = {"type": strategy}
    if strategy == "RollingUpdate":
        bounds["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": 1}
    world.create("deployments.apps", deployment(replicas=replicas, strategy=bounds))
    for step in history:
        act(world, "deployments.apps", step)
    heal(world)
    found = world.get("deployments.apps", "web")
    assert found is not None
    want = found["spec"]["replicas"]
    status = found["status"]
    assert status["replicas"] == status["updatedReplicas"] == status["availableReplicas"] == want
    assert status["unavailableReplicas"] == status["terminatingReplicas"] == 0
    living = [pod for pod in world.machinery.cluster.pods.pods.values() if not pod.finished]
    assert len(living) == want
    assert all(well(pod) for pod in living)
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    images = [p["spec"]["containers"][0]["image"] for p in world.list("pods") if p["status"]["phase"] == "Running"]
    assert images == [image] * want


@HISTORIES
@given(
    replicas=st.integers(1, 8),
    surge=st.one_of(st.integers(0, 3), st.sampled_from(["0%", "30%", "100%"])),
    unavailable=st.one_of(st.integers(0, 3), st.sampled_from(["0%", "30%", "100%"])),
    images=st.lists(st.tuples(st.integers(1, 4), st.floats(0, 12)), min_size=1, max_size=5),
)
def test_rollouts_never_leave_their_bounds(
    replicas: int, surge: int | str, unavailable: int | str, images: list[tuple[int, float]]
) -> None:
    world = World(SLOW)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    made = world.create("deployments.apps", deployment(replicas=replicas, strategy=strategy))
    world.run(60)
    plan = build_rollout(made, [])
    least, most = replicas - plan.max_unavailable, replicas + plan.max_surge

    def look() -> None:
        pods = [pod for pod in world.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            for pod in pods
        )
        assert ready >= least
        assert len(pods) <= most

    world.after_write = look
    for number, seconds in images:
        containers = [{"name": "app", "image": f"app:{number}"}]
        world.patch("deployments.apps", "web", {"spec": {"template": {"spec": {"containers": containers}}}})
        world.run(seconds)
    world.run(300)
    found = world.get("deployments.apps", "web")
    assert found is not None
    assert found["status"]["updatedReplicas"] == found["status"]["availableReplicas"] == replicas


@HISTORIES
@given(
    owners=st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=2, max_size=15),
    deletions=st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["Background", "Foreground", "Orphan", ""]), st.booleans()),
        max_size=6,
    ),
    blocking=st.booleans(),
)
def test_the_collector_leaves_no_orphan_and_takes_nothing_with_a_living_owner(
    owners: list[list[int]], deletions: list[tuple[int, str, bool]], blocking: bool
) -> None:
    idle = frozenset({"scheduler", "kubelet", "heartbeat", "node-lifecycle"})
    world = World(MachinerySettings(disabled=idle), node_count=0)
    made: list[dict[str, Any]] = []
    for number, wanted in enumerate(owners):
        # Owners are older objects, so that there are no circles.
        chosen = sorted({index % number for index in wanted}) if number else []
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": f"c{index}",
                "uid": made[index]["metadata"]["uid"],
                "blockOwnerDeletion": blocking,
            }
            for index in chosen
        ]
        metadata = {"name": f"c{number}", **({"ownerReferences": references} if references else {})}
        made.append(world.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    world.run(1)
    assert len(world.list("configmaps")) == len(owners)
    asked = set()
    taken: list[str] = []

    def watch(action: Write) -> WriteAnswer | None:
        """At the moment of a deletion no owner may be alive, unless it waits for this very object."""
        if isinstance(action, Delete) and action.resource == "configmaps":
            taken.append(action.name)
            obj = world.get("configmaps", action.name)
            for reference in (obj or {"metadata": {}})["metadata"].get("ownerReferences") or ():
                owner = world.get("configmaps", reference["name"])
                assert owner is None or "deletionTimestamp" in owner["metadata"], "its owner lives"
        return None

    world.refuse = watch
    for index, propagation, wait in deletions:
        name = f"c{index % len(owners)}"
        if world.get("configmaps", name) is not None:
            asked.add(name)
            world.delete("configmaps", name, propagation)
        if wait:
            world.run(1)
    world.run(10)
    left = {entry["metadata"]["name"]: entry for entry in world.list("configmaps")}
    uids = {entry["metadata"]["uid"] for entry in left.values()}
    for name, entry in left.items():
        assert name not in asked, "deletion never came to its end"
        references = entry["metadata"].get("ownerReferences") or []
        assert not references or any(reference["uid"] in uids for reference in references), "an orphan is left"
    assert set(left) | asked | set(taken) == {f"c{number}" for number in range(len(owners))}
