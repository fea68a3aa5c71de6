"""status, scale and resize of the built-in kinds; those of custom resources are in test_crds."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Json
from tests.contract.things import IMAGE, apps, bound, core, deployment, pod, replicaset, statefulset


class TestStatus:
    async def test_status_leaves_the_spec(self, api: Api, namespace: str) -> None:
        made = (await api.post(apps(namespace, "deployments"), deployment("d", 1))).ok(201)
        made["spec"]["replicas"] = 9
        made["status"] = {"replicas": 1}
        new = (await api.put(apps(namespace, "deployments", "d", "status"), made)).ok(200)
        assert (new["spec"]["replicas"], new["status"]) == (1, {"replicas": 1})

    async def test_the_spec_leaves_the_status(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d", 1))).ok(201)
        (await api.patch(apps(namespace, "deployments", "d", "status"), {"status": {"replicas": 1}})).ok()
        body = deployment("d", 2)
        body["status"] = {"replicas": 7}
        new = (await api.put(apps(namespace, "deployments", "d"), body)).ok(200)
        assert (new["spec"]["replicas"], new["status"]) == (2, {"replicas": 1})

    async def test_status_of_a_pod_writes_metadata_too(self, api: Api, namespace: str) -> None:
        (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
        change = {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]},
            "status": {"phase": "Running"},
        }
        new = (await api.patch(core(namespace, "pods", "p", "status"), change)).ok(200)
        assert new["metadata"]["labels"] == {"a": "b"}
        assert new["metadata"]["annotations"] == {"c": "d"}
        assert new["metadata"]["finalizers"] == ["example.com/f"]
        (await api.patch(core(namespace, "pods", "p"), {"metadata": {"finalizers": None}})).ok()

    async def test_status_of_a_pod_is_written_as_given(self, api: Api, namespace: str) -> None:
        made = (await api.post(core(namespace, "pods"), pod("p", requests={"cpu": "1"}, nodeName="n"))).ok(201)
        (await api.put(core(namespace, "pods", "p", "status"), bound(made))).ok(200)
        status = {
            "conditions": [{"type": "PodResizeInProgress", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "app",
                    "image": "i",
                    "imageID": "i",
                    "ready": True,
                    "restartCount": 0,
                    "allocatedResources": {"cpu": "500m"},
                }
            ],
        }
        new = (await api.patch(core(namespace, "pods", "p", "status"), {"status": status})).ok(200)
        assert new["status"]["containerStatuses"][0]["allocatedResources"] == {"cpu": "500m"}
        assert "PodResizeInProgress" in [condition["type"] for condition in new["status"]["conditions"]]

    async def test_get_of_a_status(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "deployments"), deployment("d"))).ok(201)
        assert (await api.get(apps(namespace, "deployments", "d", "status"))).ok()["kind"] == "Deployment"


class TestScale:
    @pytest.mark.parametrize(
        ("resource", "body"),
        [
            ("deployments", deployment("d", 2)),
            ("statefulsets", statefulset("d", 2)),
            ("replicasets", replicaset("d", 2)),
        ],
    )
    async def test_scale(self, api: Api, namespace: str, resource: str, body: Json) -> None:
        made = (await api.post(apps(namespace, resource), body)).ok(201)
        path = apps(namespace, resource, "d", "scale")
        scale = (await api.get(path)).ok()
        assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert scale["metadata"]["uid"] == made["metadata"]["uid"]
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 0, "selector": "app=d"}
        scale["spec"]["replicas"] = 5
        assert (await api.put(path, scale)).ok(200)["spec"] == {"replicas": 5}
        new = (await api.get(apps(namespace, resource, "d"))).ok()
        assert new["spec"]["replicas"] == 5
        assert new["metadata"]["generation"] == 2

    async def test_by_patch(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "statefulsets"), statefulset("s", 1))).ok(201)
        path = apps(namespace, "statefulsets", "s", "scale")
        assert (await api.patch(path, {"spec": {"replicas": 4}})).ok(200)["spec"] == {"replicas": 4}

    async def test_to_nothing(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "statefulsets"), statefulset("s", 1))).ok(201)
        path = apps(namespace, "statefulsets", "s", "scale")
        assert (await api.patch(path, {"spec": {"replicas": 0}})).ok(200)["spec"] == {}
        assert (await api.get(apps(namespace, "statefulsets", "s"))).ok()["spec"]["replicas"] == 0

    async def test_an_old_version(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "statefulsets"), statefulset("s", 1))).ok(201)
        path = apps(namespace, "statefulsets", "s", "scale")
        old = (await api.get(path)).ok()
        (await api.patch(path, {"spec": {"replicas": 2}})).ok()
        answer = await api.put(path, {**old, "spec": {"replicas": 3}})
        answer.refused(
            409,
            "Conflict",
            'Operation cannot be fulfilled on statefulsets.apps "s": the object has been modified; please apply your '
            "changes to the latest version and try again",
            {"name": "s", "group": "apps", "kind": "statefulsets"},
        )

    async def test_below_nothing(self, api: Api, namespace: str) -> None:
        (await api.post(apps(namespace, "statefulsets"), statefulset("s", 1))).ok(201)
        answer = await api.patch(apps(namespace, "statefulsets", "s", "scale"), {"spec": {"replicas": -1}})
        answer.refused(
            422,
            "Invalid",
            'Scale.autoscaling "s" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
            ...,
        )


class TestResize:
    """pods/resize, on pods whose status is written by hand; their node must exist."""

    @staticmethod
    async def running(
        api: Api, namespace: str, host: str, *, requests: Json | None, limits: Json | None = None
    ) -> Json:
        made = pod("r", requests=requests, limits=limits, nodeName=host)
        made = (await api.post(core(namespace, "pods"), made)).ok(201)
        placed: Json = (await api.put(core(namespace, "pods", "r", "status"), bound(made))).ok(200)
        return placed

    @staticmethod
    def change(*, requests: Json | None = None, limits: Json | None = None) -> Json:
        resources = {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}
        return {"spec": {"containers": [{"name": "app", "resources": resources}]}}

    async def test_resize(self, api: Api, namespace: str, host: str) -> None:
        old = await self.running(api, namespace, host, requests={"cpu": "1", "memory": "1Gi"})
        answer = await api.patch(
            core(namespace, "pods", "r", "resize"),
            self.change(requests={"cpu": "2"}),
            form="strategic",
            fieldManager="resizer",
        )
        new = answer.ok(200)
        assert new["kind"] == "Pod"
        assert new["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
        assert new["metadata"]["generation"] == old["metadata"]["generation"] + 1
        assert new["status"] == old["status"]
        entry = [e for e in new["metadata"]["managedFields"] if e["manager"] == "resizer"]
        assert [e["subresource"] for e in entry] == ["resize"]

    async def test_quality_of_service_stays(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "1"})
        answer = await api.patch(
            core(namespace, "pods", "r", "resize"),
            self.change(requests={"cpu": "2", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1Gi"}),
            form="strategic",
        )
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "Pod QOS Class may not change as a result of resizing" in answer.body["message"]

    async def test_labels_and_annotations_are_dropped(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "1"})
        change = {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, **self.change(requests={"cpu": "2"})}
        new = (await api.patch(core(namespace, "pods", "r", "resize"), change, form="strategic")).ok(200)
        assert "a" not in new["metadata"]["labels"]
        assert "annotations" not in new["metadata"]

    async def test_a_request_removed_becomes_the_limit(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "1"}, limits={"cpu": "3"})
        operations = [{"op": "remove", "path": "/spec/containers/0/resources/requests"}]
        new = (await api.patch(core(namespace, "pods", "r", "resize"), operations, form="json")).ok(200)
        assert new["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}

    async def test_anything_else_is_dropped(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "1"})
        change = {"spec": {"containers": [{"name": "app", "image": "other"}]}}
        new = (await api.patch(core(namespace, "pods", "r", "resize"), change, form="strategic")).ok(200)
        assert new["spec"]["containers"][0]["image"] == IMAGE
        assert new["metadata"]["generation"] == 1

    async def test_not_through_the_pod(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "1"})
        answer = await api.patch(core(namespace, "pods", "r"), self.change(requests={"cpu": "2"}), form="strategic")
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")

    async def test_without_resources_in_the_status(self, api: Api, namespace: str, host: str) -> None:
        made = pod("r", requests={"cpu": "1"}, nodeName=host)
        made = (await api.post(core(namespace, "pods"), made)).ok(201)
        body = bound(made)
        del body["status"]["containerStatuses"][0]["resources"]
        (await api.put(core(namespace, "pods", "r", "status"), body)).ok(200)
        answer = await api.patch(
            core(namespace, "pods", "r", "resize"), self.change(requests={"cpu": "2"}), form="strategic"
        )
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "Pod running on node without support for resize" in answer.body["message"]

    async def test_below_the_request(self, api: Api, namespace: str, host: str) -> None:
        await self.running(api, namespace, host, requests={"cpu": "2"}, limits={"cpu": "3"})
        answer = await api.patch(
            core(namespace, "pods", "r", "resize"), self.change(limits={"cpu": "1"}), form="strategic"
        )
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert "must be less than or equal to cpu limit" in answer.body["message"]


async def test_an_unknown_subresource(api: Api, namespace: str) -> None:
    (await api.post(core(namespace, "pods"), pod("p"))).ok(201)
    answer = await api.get(core(namespace, "pods", "p", "colour"))
    answer.refused(404, "NotFound", "the server could not find the requested resource", {})
