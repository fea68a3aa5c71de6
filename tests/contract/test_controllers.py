"""What the controllers do about pods, on a cluster whose nodes run everything at once."""

from __future__ import annotations

import datetime

from tests.contract.api import Json, causes
from tests.contract.things import apps, budget, core, deployment, eviction, group, pod, replicaset, statefulset
from tests.contract.waiting import eventually, gone, steady
from tests.contract.work import Work, name, owner, ready


def stay(held: bool) -> Json:
    """A patch for a pod that is deleted and does not go, however long anybody looks; or may go at last."""
    annotations = {
        "hold": "" if held else None
    }  # of kwok and the embedded kubelet, which end any pod with any finalizer
    return {"metadata": {"finalizers": ["example.com/stay"] if held else None, "annotations": annotations}}


class TestReleasing:
    """A pod whose labels no longer fit its owner's selector."""

    async def test_a_pod_that_leaves_is_replaced(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 2))
        first, second = await work.settled(2)
        (before,) = (await work.api.get(apps(work.namespace, "replicasets"))).ok()["items"]
        await work.label(name(first), app="out")
        pods = await work.settled(2, labelSelector="app=web")
        assert name(second) in {name(each) for each in pods}
        released = await eventually(lambda: work.pod(name(first)), lambda each: each is not None and not owner(each))
        assert released is not None
        assert "ownerReferences" not in released["metadata"]
        assert ready(released)
        # The Deployment's and the ReplicaSet's own objects are as they were.
        assert (await work.get("deployments", "web"))["metadata"]["generation"] == 1
        assert (await work.get("replicasets", name(before)))["metadata"]["generation"] == 1

    async def test_a_pod_that_comes_back_is_adopted(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 1))
        (only,) = await work.settled(1)
        # It costs more than its replacement, which therefore goes when it comes back.
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "9"}}}
        (await work.api.patch(core(work.namespace, "pods", name(only)), cost)).ok()
        await work.label(name(only), app="out")
        await eventually(lambda: work.pod(name(only)), lambda each: each and not owner(each))
        await work.settled(1, labelSelector="app=rs")
        await work.counted("replicasets", "rs", 1)
        await work.label(name(only), app="rs")
        (back,) = await work.settled(1, holds=owner)
        assert (name(back), owner(back)) == (name(only), "ReplicaSet/rs")
        assert back["metadata"]["uid"] == only["metadata"]["uid"]

    async def test_an_owner_reference_alone_comes_back(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 1))
        (only,) = await work.settled(1)
        (await work.api.patch(core(work.namespace, "pods", name(only)), {"metadata": {"ownerReferences": None}})).ok()
        back = await eventually(lambda: work.pod(name(only)), lambda each: each is None or owner(each))
        assert back is not None
        assert owner(back) == "ReplicaSet/rs"
        assert back["metadata"]["uid"] == only["metadata"]["uid"]

    async def test_a_loose_pod_is_adopted(self, work: Work) -> None:
        loose = pod("loose", meta={"labels": {"app": "rs"}})
        (await work.api.post(core(work.namespace, "pods"), loose)).ok(201)
        await work.known_to_replicasets()
        await work.create("replicasets", replicaset("rs", 1))
        (only,) = await work.settled(1, holds=owner)
        assert (name(only), owner(only)) == ("loose", "ReplicaSet/rs")

    async def test_a_released_pod_of_a_statefulset_keeps_its_name(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 1))
        await work.settled(1)
        await work.label("db-0", app="out")
        await eventually(lambda: work.pod("db-0"), lambda each: each and not owner(each))
        await steady(work.pods, lambda pods: [name(each) for each in pods] == ["db-0"])
        (await work.api.delete(core(work.namespace, "pods", "db-0"), gracePeriodSeconds=0)).ok()
        (new,) = await work.settled(1, holds=owner)
        assert (name(new), owner(new)) == ("db-0", "StatefulSet/db")

    async def test_a_released_pod_outlives_its_deployment(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 1))
        (only,) = await work.settled(1)
        (replica_set,) = (await work.api.get(apps(work.namespace, "replicasets"))).ok()["items"]
        await work.label(name(only), app="out")
        await work.settled(1, labelSelector="app=web")
        (await work.api.delete(apps(work.namespace, "deployments", "web"))).ok()
        await gone(work.api, apps(work.namespace, "replicasets", name(replica_set)))
        (left,) = await work.settled(1)
        assert left["metadata"]["uid"] == only["metadata"]["uid"]


class TestReplacing:
    async def test_a_replicaset_does_not_wait_for_the_object_to_go(self, work: Work) -> None:
        await work.create("replicasets", replicaset("rs", 1))
        (only,) = await work.settled(1)
        path = core(work.namespace, "pods", name(only))
        (await work.api.patch(path, stay(True))).ok()
        (await work.api.delete(path)).ok()
        pods = await eventually(work.pods, lambda pods: len(pods) == 2)
        assert name(only) in {name(each) for each in pods}
        (await work.api.patch(path, stay(False))).ok()

    async def test_a_statefulset_waits_for_the_object_to_go(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 1))
        (only,) = await work.settled(1)
        path = core(work.namespace, "pods", "db-0")
        (await work.api.patch(path, stay(True))).ok()
        (await work.api.delete(path, gracePeriodSeconds=0)).ok()
        await steady(work.pods, lambda pods: [each["metadata"]["uid"] for each in pods] == [only["metadata"]["uid"]])
        (await work.api.patch(path, stay(False))).ok()
        (new,) = await work.settled(1, holds=lambda each: each["metadata"]["uid"] != only["metadata"]["uid"])
        assert name(new) == "db-0"


class TestStatefulSets:
    async def test_pods_are_made_in_order_and_carry_their_number(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 3))
        pods = await work.settled(3)
        assert [name(each) for each in pods] == ["db-0", "db-1", "db-2"]
        for number, each in enumerate(pods):
            assert each["metadata"]["generateName"] == "db-"
            assert each["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == str(number)
            assert each["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == name(each)
            assert (each["spec"]["hostname"], each["spec"]["subdomain"]) == (name(each), "db")
        times = [each["metadata"]["creationTimestamp"] for each in pods]
        assert times == sorted(times)

    async def test_numbers_may_start_elsewhere(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 2, ordinals={"start": 5}))
        pods = await work.settled(2)
        assert [name(each) for each in pods] == ["db-5", "db-6"]
        assert pods[0]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "5"

    async def test_the_highest_goes_first(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 3))
        await work.settled(3)
        await work.scale("statefulsets", "db", 1)
        pods = await work.settled(1)
        assert [name(each) for each in pods] == ["db-0"]

    async def test_one_that_is_not_ready_holds_the_next(self, work: Work) -> None:
        body = statefulset("db", 2)
        body["spec"]["template"]["metadata"]["annotations"] = {"notready": ""}
        await work.create("statefulsets", body)
        await eventually(work.pods, lambda pods: len(pods) == 1)
        await steady(work.pods, lambda pods: [name(each) for each in pods] == ["db-0"])

    async def test_parallel_does_not_wait(self, work: Work) -> None:
        body = statefulset("db", 3, podManagementPolicy="Parallel")
        body["spec"]["template"]["metadata"]["annotations"] = {"notready": ""}
        await work.create("statefulsets", body)
        await eventually(work.pods, lambda pods: len(pods) == 3)

    async def test_status(self, work: Work) -> None:
        made = await work.create("statefulsets", statefulset("db", 2))
        await work.settled(2)
        body = await eventually(
            lambda: work.get("statefulsets", "db"), lambda body: body["status"].get("readyReplicas") == 2
        )
        status = body["status"]
        assert status["observedGeneration"] == made["metadata"]["generation"]
        assert (status["replicas"], status["currentReplicas"], status["updatedReplicas"]) == (2, 2, 2)
        assert status["currentRevision"] == status["updateRevision"]
        assert status["availableReplicas"] == 2

    async def test_rolling_update_from_the_highest(self, work: Work) -> None:
        await work.create("statefulsets", statefulset("db", 2))
        await work.settled(2)
        change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        (await work.api.patch(apps(work.namespace, "statefulsets", "db"), change)).ok()
        first, second = await work.settled(
            2, holds=lambda each: ready(each) and each["metadata"]["labels"].get("version") == "2"
        )
        assert second["metadata"]["creationTimestamp"] <= first["metadata"]["creationTimestamp"]

    async def test_a_partition_holds_the_lower_back(self, work: Work) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await work.create("statefulsets", statefulset("db", 2, updateStrategy=strategy))
        await work.settled(2)
        change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        (await work.api.patch(apps(work.namespace, "statefulsets", "db"), change)).ok()
        await eventually(
            lambda: work.pod("db-1"),
            lambda each: each and ready(each) and each["metadata"]["labels"].get("version") == "2",
        )
        await steady(lambda: work.pod("db-0"), lambda each: each and "version" not in each["metadata"]["labels"])


class TestDeployments:
    async def test_status(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 3))
        await work.settled(3)
        body = await eventually(
            lambda: work.get("deployments", "web"), lambda body: body["status"].get("availableReplicas") == 3
        )
        assert (body["status"]["replicas"], body["status"]["readyReplicas"], body["status"]["updatedReplicas"]) == (
            3,
            3,
            3,
        )
        body = await eventually(
            lambda: work.get("deployments", "web"),
            lambda body: (
                {(each["type"], each["status"], each["reason"]) for each in body["status"]["conditions"]}
                == {
                    ("Available", "True", "MinimumReplicasAvailable"),
                    ("Progressing", "True", "NewReplicaSetAvailable"),
                }
            ),
        )
        (rs,) = (await work.api.get(apps(work.namespace, "replicasets"))).ok()["items"]
        assert name(rs) == f"web-{rs['metadata']['labels']['pod-template-hash']}"
        assert rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert body["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"

    async def test_rolling_update(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 2))
        old = {name(each) for each in await work.settled(2)}
        change = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "registry.example/app:2"}]}}}}
        (await work.api.patch(apps(work.namespace, "deployments", "web"), change, form="strategic")).ok()
        new = await work.settled(2, holds=lambda each: ready(each) and name(each) not in old)
        assert {each["spec"]["containers"][0]["image"] for each in new} == {"registry.example/app:2"}
        sets = await eventually(
            lambda: self.sets(work), lambda sets: sorted(each["status"]["replicas"] for each in sets) == [0, 2]
        )
        assert len(sets) == 2

    @staticmethod
    async def sets(work: Work) -> list[Json]:
        return list((await work.api.get(apps(work.namespace, "replicasets"))).ok()["items"])

    async def test_recreate(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 2, strategy={"type": "Recreate"}))
        old = {name(each) for each in await work.settled(2)}
        change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        (await work.api.patch(apps(work.namespace, "deployments", "web"), change)).ok()
        await work.settled(2, holds=lambda each: ready(each) and name(each) not in old)

    async def test_a_pod_that_is_never_ready(self, work: Work) -> None:
        body = deployment("web", 1, progressDeadlineSeconds=2)
        body["spec"]["template"]["metadata"]["annotations"] = {"notready": ""}
        await work.create("deployments", body)

        def given_up(body: Json) -> bool:
            return ("Progressing", "False", "ProgressDeadlineExceeded") in {
                (each["type"], each["status"], each["reason"]) for each in body["status"].get("conditions", [])
            }

        # Where it takes longer than the deadline until the pod is made, that is progress once more.
        await eventually(
            lambda: work.get("deployments", "web"), lambda body: body["status"].get("updatedReplicas") == 1
        )
        await eventually(lambda: work.get("deployments", "web"), given_up)
        await steady(lambda: work.get("deployments", "web"), given_up)

    async def test_deleting_it_takes_everything_along(self, work: Work) -> None:
        await work.create("deployments", deployment("web", 2))
        await work.settled(2)
        (await work.api.delete(apps(work.namespace, "deployments", "web"))).ok()
        await eventually(work.pods, lambda pods: not pods)
        assert (await work.api.get(apps(work.namespace, "replicasets"))).ok()["items"] == []


class TestBudgets:
    async def test_a_budget_counts_healthy_pods(self, work: Work) -> None:
        await work.create("replicasets", replicaset("web", 2))
        pods = await work.settled(2)
        path = group("policy/v1", work.namespace, "poddisruptionbudgets")
        (await work.api.post(path, budget("b", {"app": "web"}, minAvailable=2))).ok(201)
        body = await eventually(
            lambda: work.api.get(f"{path}/b"), lambda answer: answer.body["status"].get("currentHealthy") == 2
        )
        status = body.ok()["status"]
        assert (status["desiredHealthy"], status["expectedPods"], status["disruptionsAllowed"]) == (2, 2, 0)
        assert status["observedGeneration"] == 1
        answer = await work.api.post(core(work.namespace, "pods", name(pods[0]), "eviction"), eviction(name(pods[0])))
        assert answer.status == 429
        assert causes(answer) == [
            ("DisruptionBudget", "", "The disruption budget b needs 2 healthy pods and has 2 currently")
        ]

    async def test_a_budget_lets_one_go_at_a_time(self, work: Work) -> None:
        await work.create("replicasets", replicaset("web", 2))
        pods = await work.settled(2)
        # Replacements do not become Ready, so the first eviction is the last.
        unready = {"spec": {"template": {"metadata": {"annotations": {"notready": ""}}}}}
        await work.change("replicasets", "web", unready)
        path = group("policy/v1", work.namespace, "poddisruptionbudgets")
        (await work.api.post(path, budget("b", {"app": "web"}, maxUnavailable=1))).ok(201)
        await eventually(
            lambda: work.api.get(f"{path}/b"), lambda answer: answer.body["status"].get("disruptionsAllowed") == 1
        )
        first, second = (core(work.namespace, "pods", name(each), "eviction") for each in pods)
        (await work.api.post(first, eviction(name(pods[0])))).ok(201)
        await steady(lambda: work.api.post(second, eviction(name(pods[1]))), lambda answer: answer.status == 429)
        assert await work.pod(name(pods[1])) is not None


class TestTaints:
    async def test_no_execute_evicts_who_does_not_tolerate(self, work: Work, own_host: str) -> None:
        host = own_host
        taint = {"key": "example.com/out", "effect": "NoExecute"}
        tolerations = [{"key": "example.com/out", "operator": "Exists", "effect": "NoExecute"}]
        for body in (pod("goes", nodeName=host), pod("stays", nodeName=host, tolerations=tolerations)):
            (await work.api.post(core(work.namespace, "pods"), body)).ok(201)
        await work.settled(2)
        node = (await work.api.get(f"/api/v1/nodes/{host}")).ok()
        taints = [*node["spec"].get("taints", []), taint]
        (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": taints}})).ok()
        await eventually(lambda: work.pod("goes"), lambda each: each is None)
        assert await work.pod("stays") is not None

    async def test_toleration_seconds_are_waited_for(self, work: Work, own_host: str) -> None:
        host = own_host
        taint = {"key": "example.com/out", "effect": "NoExecute"}
        tolerations = [{"key": "example.com/out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}]
        late = pod("late", nodeName=host, tolerations=tolerations, meta={"annotations": {"hold": ""}})
        (await work.api.post(core(work.namespace, "pods"), late)).ok(201)
        await work.settled(1)
        tainted = datetime.datetime.now(datetime.UTC)
        (await work.api.patch(f"/api/v1/nodes/{host}", {"spec": {"taints": [taint]}})).ok()
        going = await eventually(
            lambda: work.pod("late"), lambda each: each and "deletionTimestamp" in each["metadata"]
        )
        assert going is not None
        # It says when the pod is to be gone, in whole seconds: the grace period after it was deleted.
        end = datetime.datetime.fromisoformat(going["metadata"]["deletionTimestamp"])
        deleted = end - datetime.timedelta(seconds=going["metadata"]["deletionGracePeriodSeconds"])
        assert deleted - tainted > datetime.timedelta(seconds=1)
        (await work.api.patch(core(work.namespace, "pods", "late"), stay(False))).ok()
        await eventually(lambda: work.pod("late"), lambda each: each is None)
