"""Creating, replacing and deleting: versions, generated names, generations, preconditions, finalizers, dry runs."""

from __future__ import annotations

import re

import pytest

from tests.contract.api import Api, Json
from tests.contract.things import apps, configmap, core, deployment, pod


class TestCreate:
    async def test_what_the_server_adds(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "b"}))).ok(201)
        metadata = made["metadata"]
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert metadata["resourceVersion"].isdigit()
        assert metadata["namespace"] == namespace
        assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
        assert "generation" not in metadata

    async def test_again(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        answer = await api.post(core(namespace, "configmaps"), configmap("c"))
        answer.refused(409, "AlreadyExists", 'configmaps "c" already exists', {"name": "c", "kind": "configmaps"})

    async def test_again_in_a_group(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
        answer = await api.post(apps(namespace, "deployments"), deployment("d"))
        answer.refused(
            409,
            "AlreadyExists",
            'deployments.apps "d" already exists',
            {"name": "d", "group": "apps", "kind": "deployments"},
        )

    async def test_generated_name(self, api: Api, namespace: str) -> None:
        body = {"metadata": {"generateName": "made-"}}
        names = {(await api.post(core(namespace, "configmaps"), body)).ok(201)["metadata"]["name"] for _ in range(3)}
        assert len(names) == 3
        # Letters and digits that spell no words.
        assert all(re.fullmatch(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)

    async def test_a_name_beats_a_generated_one(self, api: Api, namespace: str) -> None:
        body = {"metadata": {"generateName": "made-", "name": "given"}}
        made = (await api.post(core(namespace, "configmaps"), body)).ok(201)
        assert (made["metadata"]["name"], made["metadata"]["generateName"]) == ("given", "made-")

    async def test_with_a_version(self, api: Api, namespace: str) -> None:
        answer = await api.post(core(namespace, "configmaps"), configmap("c", resourceVersion="5"))
        answer.refused(500, None, "resourceVersion should not be set on objects to be created", ...)

    async def test_what_the_server_keeps_to_itself(self, api: Api, namespace: str) -> None:
        body = deployment("d")
        body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
        body["status"] = {"readyReplicas": 9}
        made = (await api.post(apps(namespace, "deployments"), body)).ok(201)
        assert made["metadata"]["uid"] != "mine"
        assert not made["metadata"]["creationTimestamp"].startswith("2001")
        assert made["metadata"]["generation"] == 1
        assert made["status"] == {}

    async def test_pods_begin_pending(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p", requests={"cpu": "1"}))).ok(201)
        assert made["status"] == {"phase": "Pending", "qosClass": "Burstable"}
        assert made["metadata"]["generation"] == 1
        spec = made["spec"]
        assert spec["schedulerName"] == "default-scheduler"
        assert spec["restartPolicy"] == "Always"
        assert spec["priority"] == 0
        assert spec["preemptionPolicy"] == "PreemptLowerPriority"
        assert spec["terminationGracePeriodSeconds"] == 30
        assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"

    @pytest.mark.parametrize(
        ("requests", "limits", "want"),
        [
            (None, None, "BestEffort"),
            ({"cpu": "1"}, None, "Burstable"),
            ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
            (None, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
            (None, {"cpu": "1"}, "Burstable"),
        ],
    )
    async def test_quality_of_service(self, api: Api, namespace: str, requests: Json, limits: Json, want: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p", requests=requests, limits=limits))).ok(201)
        assert made["status"]["qosClass"] == want
        # A limit without a request is the request too.
        assert made["spec"]["containers"][0]["resources"].get("requests") == (requests or limits)

    async def test_tolerations_of_lost_nodes(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        assert made["spec"]["tolerations"] == [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ]

    async def test_gated_pods_say_so(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p", schedulingGates=[{"name": "example.com/wait"}]))).ok(
            201
        )
        (condition,) = made["status"]["conditions"]
        condition.pop("lastTransitionTime")
        assert condition == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
        }

    async def test_quantities_stay_as_written(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p", requests={"cpu": "1000m", "memory": "1024Mi"}))).ok(
            201
        )
        assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


class TestReplace:
    async def test_replace(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1", "b": "2"}))).ok(201)
        made["data"] = {"a": "3"}
        new = (await api.put(core(namespace, "configmaps", "c"), made)).ok(200)
        assert new["data"] == {"a": "3"}
        assert int(new["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])

    async def test_an_old_version(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
        (await api.patch(core(namespace, "configmaps", "c"), {"data": {"a": "2"}})).ok()
        answer = await api.put(core(namespace, "configmaps", "c"), made)
        answer.refused(
            409,
            "Conflict",
            'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes '
            "to the latest version and try again",
            {"name": "c", "kind": "configmaps"},
        )

    async def test_no_version_means_any(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
        assert (await api.put(core(namespace, "configmaps", "c"), configmap("c", {"a": "2"}))).ok()["data"] == {
            "a": "2"
        }

    async def test_another_uid(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        answer = await api.put(core(namespace, "configmaps", "c"), configmap("c", uid="0000"))
        answer.refused(
            409, "Conflict", 'Operation cannot be fulfilled on configmaps "c": StorageError: invalid object…', ...
        )

    async def test_nobody(self, api: Api, namespace: str) -> None:
        answer = await api.put(core(namespace, "configmaps", "c"), configmap("c"))
        answer.refused(404, "NotFound", 'configmaps "c" not found', {"name": "c", "kind": "configmaps"})

    async def test_nobody_of_a_kind_that_updates_may_create(self, api: Api, namespace: str) -> None:
        lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l"
        assert (await api.put(path, lease)).ok(201)["spec"]["holderIdentity"] == "me"

    async def test_generation_counts_changes_of_the_spec(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
        path = apps(namespace, "deployments", "d")
        labelled = (await api.patch(path, {"metadata": {"labels": {"x": "y"}}})).ok()
        assert labelled["metadata"]["generation"] == 1
        scaled = (await api.patch(path, {"spec": {"replicas": 3}})).ok()
        assert scaled["metadata"]["generation"] == 2
        reported = (await api.patch(f"{path}/status", {"status": {"replicas": 1}})).ok()
        assert reported["metadata"]["generation"] == 2

    async def test_lease_times_have_six_decimals(self, api: Api, namespace: str) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        good = {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-02T03:04:05.000006Z"}}
        assert (await api.post(path, good)).ok(201)["spec"]["renewTime"] == "2026-01-02T03:04:05.000006Z"
        bad = {"metadata": {"name": "m"}, "spec": {"renewTime": "2026-01-02T03:04:05Z"}}
        answer = await api.post(path, bad)
        answer.refused(400, "BadRequest", 'Lease in version "v1" cannot be handled as a Lease: parsing time …')


class TestDelete:
    async def test_delete(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        assert (await api.delete(core(namespace, "configmaps", "c"))).ok(200) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]},
        }
        assert (await api.get(core(namespace, "configmaps", "c"))).status == 404

    async def test_nobody(self, api: Api, namespace: str) -> None:
        answer = await api.delete(core(namespace, "configmaps", "c"))
        answer.refused(404, "NotFound", 'configmaps "c" not found', {"name": "c", "kind": "configmaps"})

    @pytest.mark.parametrize("field", ["uid", "resourceVersion"])
    async def test_preconditions(self, api: Api, namespace: str, field: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)["metadata"]
        answer = await api.delete(core(namespace, "configmaps", "c"), {"preconditions": {field: "0"}})
        shown = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
        answer.refused(
            409,
            "Conflict",
            'Operation cannot be fulfilled on ConfigMap "c": the '
            f"{shown} in the precondition (0) does not match the {shown} in record ({made[field]}). The object might "
            f"have been {'deleted and then recreated' if field == 'uid' else 'modified'}",
            {"name": "c", "kind": "ConfigMap"},
        )
        (await api.delete(core(namespace, "configmaps", "c"), {"preconditions": {field: made[field]}})).ok()

    async def test_finalizers_hold(self, api: Api, namespace: str) -> None:
        path = core(namespace, "configmaps", "c")
        made = (
            await api.post(core(namespace, "configmaps"), configmap("c", finalizers=["example.com/a", "example.com/b"]))
        ).ok(201)
        held = (await api.delete(path)).ok(200)
        assert held["kind"] == "ConfigMap"
        assert held["metadata"]["deletionTimestamp"]
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["uid"] == made["metadata"]["uid"]
        again = (await api.delete(path)).ok(200)
        assert again["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]
        (await api.patch(path, {"metadata": {"finalizers": ["example.com/b"]}})).ok()
        assert (await api.get(path)).status == 200
        (await api.patch(path, {"metadata": {"finalizers": None}})).ok()
        assert (await api.get(path)).status == 404

    async def test_no_new_finalizer_while_going(self, api: Api, namespace: str) -> None:
        path = core(namespace, "configmaps", "c")
        (await api.post(core(namespace, "configmaps"), configmap("c", finalizers=["example.com/a"]))).ok(201)
        (await api.delete(path)).ok()
        answer = await api.patch(path, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}})
        answer.refused(
            422,
            "Invalid",
            'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
            'being deleted, found new finalizers []string{"example.com/b"}',
            ...,
        )
        (await api.patch(path, {"metadata": {"finalizers": None}})).ok()

    async def test_a_placed_pod_goes_gracefully(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p", nodeName="n"))).ok(201)
        path = core(namespace, "pods", "p")
        going = (await api.delete(path, {"gracePeriodSeconds": 7})).ok(200)
        assert going["metadata"]["deletionGracePeriodSeconds"] == 7
        assert going["metadata"]["deletionTimestamp"] > going["metadata"]["creationTimestamp"]
        assert (await api.get(path)).status == 200
        shorter = (await api.delete(path, {"gracePeriodSeconds": 3})).ok(200)
        assert shorter["metadata"]["deletionGracePeriodSeconds"] == 3
        (await api.delete(path, {"gracePeriodSeconds": 0})).ok(200)
        assert (await api.get(path)).status == 404

    async def test_a_pod_goes_in_its_own_time(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p", nodeName="n", terminationGracePeriodSeconds=11))).ok(201)
        going = (await api.delete(core(namespace, "pods", "p"))).ok(200)
        assert going["metadata"]["deletionGracePeriodSeconds"] == 11

    async def test_a_pending_pod_goes_at_once(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        (await api.delete(core(namespace, "pods", "p"))).ok(200)
        assert (await api.get(core(namespace, "pods", "p"))).status == 404

    async def test_going_raises_the_generation(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p", nodeName="n"))).ok(201)
        assert (await api.delete(core(namespace, "pods", "p"))).ok(200)["metadata"]["generation"] == 2

    async def test_grace_in_the_query(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p", nodeName="n"))).ok(201)
        (await api.delete(core(namespace, "pods", "p"), gracePeriodSeconds=0)).ok(200)
        assert (await api.get(core(namespace, "pods", "p"))).status == 404

    async def test_collection(self, api: Api, namespace: str) -> None:
        for name in ("a1", "a2", "b1"):
            (await api.post(core(namespace, "configmaps"), configmap(name, labels={"set": name[0]}))).ok(201)
        gone = (await api.delete(core(namespace, "configmaps"), labelSelector="set=a")).ok(200)
        assert gone["kind"] == "ConfigMapList"
        assert [item["metadata"]["name"] for item in gone["items"]] == ["a1", "a2"]
        left = (await api.get(core(namespace, "configmaps"))).ok()["items"]
        assert [item["metadata"]["name"] for item in left] == ["b1"]


class TestDryRun:
    async def test_create(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c"), dryRun="All")).ok(201)
        assert made["metadata"]["uid"]
        assert "resourceVersion" not in made["metadata"]
        assert (await api.get(core(namespace, "configmaps", "c"))).status == 404

    async def test_create_what_exists(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "configmaps"), configmap("c"))).ok(201)
        assert (await api.post(core(namespace, "configmaps"), configmap("c"), dryRun="All")).status == 409

    async def test_change_and_delete(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "configmaps"), configmap("c", {"a": "1"}))).ok(201)
        path = core(namespace, "configmaps", "c")
        changed = (await api.patch(path, {"data": {"a": "2"}}, dryRun="All")).ok()
        assert changed["data"] == {"a": "2"}
        assert changed["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        (await api.delete(path, dryRun="All")).ok(200)
        assert (await api.get(path)).ok() == made

    async def test_other_values(self, api: Api, namespace: str) -> None:
        answer = await api.post(core(namespace, "configmaps"), configmap("c"), dryRun="Some")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert 'dryRun: Unsupported value: ["Some"]: supported values: "All"' in answer.body["message"]


class TestNamespaces:
    async def test_a_new_one_has_its_label_and_finalizer(self, api: Api, namespace: str) -> None:
        made = (await api.get(f"/api/v1/namespaces/{namespace}")).ok()
        assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}
        assert made["spec"]["finalizers"] == ["kubernetes"]
        assert made["status"]["phase"] == "Active"

    async def test_nothing_is_made_in_one_that_goes(self, api: Api, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}"
        (await api.patch(path, {"metadata": {"finalizers": ["example.com/stay"]}})).ok()
        assert (await api.delete(path)).ok()["status"]["phase"] == "Terminating"
        answer = await api.post(core(namespace, "configmaps"), configmap("c"))
        answer.refused(
            403,
            "Forbidden",
            f'configmaps "c" is forbidden: unable to create new content in namespace {namespace} because it is being '
            "terminated",
            {
                "name": "c",
                "kind": "configmaps",
                "causes": [
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            },
        )
        (await api.patch(path, {"metadata": {"finalizers": None}})).ok()


class TestYaml:
    """A body of type application/yaml means what it would mean as JSON."""

    @pytest.mark.parametrize(
        "text", ["12:30", "1:30.5", "2001-01-01", "'7'", "!!timestamp 2001-01-01", "0x" + "f" * 17, "1" + "0" * 400]
    )
    async def test_what_is_text(self, api: Api, namespace: str, text: str) -> None:
        body = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{a: {text}}}}}"
        made = await api.call("POST", core(namespace, "configmaps"), body.encode(), content_type="application/yaml")
        assert made.ok(201)["data"] == {"a": text.rpartition(" ")[2].strip("'")}

    @pytest.mark.parametrize("text", [".nan", "7", "yes", "1" + "0" * 30, "!!bool maybe", r'"\ud800"'])
    async def test_what_is_none(self, api: Api, namespace: str, text: str) -> None:
        body = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{a: {text}}}}}"
        answer = await api.call("POST", core(namespace, "configmaps"), body.encode(), content_type="application/yaml")
        assert (answer.status, answer.body["reason"]) == (400, "BadRequest"), answer.body
