from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from situate.cluster.apiserver.api import ApiServer
from situate.cluster.storage.builtin_resources import BUILT_IN
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.resources import Resource
from situate.objects.messages import Request, Response
from tests.cluster.asking import APPLY, JSON_PATCH, MAPS, MERGE, PODS, STRATEGIC, Cluster, config_map, events, pod


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_a_pod_is_completed_and_pending(cluster: Cluster) -> None:
    made = cluster.post(PODS, {**pod("p"), "status": {"phase": "Running"}}).ok(201)
    metadata, spec = made["metadata"], made["spec"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert (metadata["generation"], metadata["namespace"]) == (1, "default")
    assert metadata["managedFields"][0]["manager"] == "test"
    assert (spec["priority"], spec["schedulerName"]) == (0, "default-scheduler")
    assert [t["key"] for t in spec["tolerations"]] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def test_the_same_seed_gives_the_same_cluster() -> None:
    def told() -> Any:
        cluster = Cluster(seed=5)
        cluster.post(PODS, {**pod(), "metadata": {"generateName": "x-"}}).ok(201)
        return cluster.get(PODS).body

    assert told() == told()


@pytest.mark.parametrize(
    ("body", "code", "reason", "message"),
    [
        pytest.param(
            {**pod(), "metadata": {}},
            422,
            "Invalid",
            'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
            id="no name",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}},
            400,
            "BadRequest",
            'Service in version "v1" cannot be handled as a Pod: converting (v1.Service) to (core.Pod): unknown '
            "conversion",
            id="another kind",
        ),
        pytest.param(
            {**pod(), "metadata": {"name": "p", "namespace": "other"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            {**pod(), "apiVersion": "v2"},
            400,
            "BadRequest",
            "the API version in the data (v2) does not match the expected API version (v1)",
            id="another version",
        ),
        pytest.param(
            pod("p", priority=7),
            403,
            "Forbidden",
            'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority '
            "admission controller computed 0 from the given PriorityClass name",
            id="a priority of its own",
        ),
        pytest.param(
            pod("p", priorityClassName="none"),
            403,
            "Forbidden",
            'pods "p" is forbidden: no PriorityClass with name none was found',
            id="unknown priority class",
        ),
    ],
)
def test_bad_pods_are_refused(cluster: Cluster, body: Any, code: int, reason: str, message: str) -> None:
    refused = cluster.post(PODS, body).ok(code)
    assert (refused["reason"], refused["message"]) == (reason, message)
    assert cluster.get(PODS).ok()["items"] == []


def test_a_body_that_is_no_json(cluster: Cluster) -> None:
    refused = cluster.post(PODS, b'{"apiVersion":"v1","kind":"Pod"').ok(400)
    assert refused["message"].startswith("the object provided is unrecognized (must be of type Pod)")


def test_names_are_unique_and_namespaces_must_exist(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    assert cluster.post(PODS, pod()).ok(409)["message"] == 'pods "p" already exists'
    missing = cluster.post("/api/v1/namespaces/nope/pods", pod()).ok(404)
    assert (missing["message"], missing["details"]) == (
        'namespaces "nope" not found',
        {"name": "nope", "kind": "namespaces"},
    )


def test_unknown_fields_are_warned_of_dropped_or_refused(cluster: Cluster) -> None:
    body = {**config_map(), "foo": 1}
    warned = cluster.post(MAPS, body)
    assert warned.headers["warning"] == '299 - "unknown field \\"foo\\""'
    assert "foo" not in warned.ok(201)
    assert cluster.post(f"{MAPS}?fieldValidation=Strict", body).ok(400)["reason"] == "BadRequest"
    assert "warning" not in cluster.post(f"{MAPS}?fieldValidation=Ignore", {**body, "metadata": {"name": "d"}}).headers


def test_a_dry_run_leaves_no_trace(cluster: Cluster) -> None:
    revision = cluster.api.store.revision
    made = cluster.post(f"{MAPS}?dryRun=All", config_map()).ok(201)
    assert "resourceVersion" not in made["metadata"]
    assert cluster.api.store.revision == revision
    refused = cluster.post(f"{MAPS}?dryRun=x", config_map()).ok(422)
    assert 'dryRun: Unsupported value: ["x"]: supported values: "All"' in refused["message"]


def test_an_update_of_an_old_version_is_a_conflict(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map(a="1")).ok(201)
    cluster.put(f"{MAPS}/c", {**made, "data": {"a": "2"}}).ok()
    refused = cluster.put(f"{MAPS}/c", {**made, "data": {"a": "3"}}).ok(409)
    assert refused["message"] == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert refused["details"] == {"name": "c", "kind": "configmaps"}


def test_an_update_that_changes_nothing_is_no_change(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map(a="1")).ok(201)
    watch = cluster.watch(f"{MAPS}?resourceVersion={made['metadata']['resourceVersion']}")
    cluster.now += 100
    assert cluster.put(f"{MAPS}/c", config_map(a="1")).ok() == made
    assert cluster.patch(f"{MAPS}/c", {"data": {"a": "1"}}).ok() == made
    assert events(watch) == []


def test_generation_counts_what_is_asked_for(cluster: Cluster) -> None:
    made = cluster.post(DEPLOYMENTS, DEPLOYMENT).ok(201)
    path = f"{DEPLOYMENTS}/d"
    assert made["metadata"]["generation"] == 1
    assert cluster.patch(path, {"metadata": {"labels": {"x": "y"}}}).ok()["metadata"]["generation"] == 1
    assert cluster.patch(path, {"spec": {"replicas": 3}}).ok()["metadata"]["generation"] == 2
    assert cluster.patch(path, {"status": {"replicas": 3}}).ok()["status"] == {}
    status = cluster.patch(f"{path}/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}).ok()
    assert (status["metadata"]["generation"], status["spec"]["replicas"], status["status"]["replicas"]) == (2, 3, 3)
    assert cluster.patch(path, {"metadata": {"annotations": {"a": "b"}}}).ok()["metadata"]["generation"] == 3


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (MERGE, {"data": {"b": "2"}}),
        (STRATEGIC, {"data": {"b": "2"}}),
        (JSON_PATCH, [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_patches(cluster: Cluster, media: str, body: Any) -> None:
    cluster.post(MAPS, config_map(a="1")).ok(201)
    assert cluster.patch(f"{MAPS}/c", body, media).ok()["data"] == {"a": "1", "b": "2"}
    assert cluster.patch(f"{MAPS}/none", body, media).ok(404)["message"] == 'configmaps "none" not found'


def test_a_patch_in_another_format(cluster: Cluster) -> None:
    cluster.post(MAPS, config_map()).ok(201)
    refused = cluster.patch(f"{MAPS}/c", {}, "application/json").ok(415)
    assert (refused["message"], refused["details"]) == ("415: Unsupported Media Type", {})


def test_server_side_apply_creates_shares_and_conflicts(cluster: Cluster) -> None:
    path = f"{MAPS}/c?fieldManager="
    cluster.patch(f"{path}one", config_map(a="1"), APPLY).ok(201)
    cluster.patch(f"{path}two", config_map(b="2"), APPLY).ok()
    refused = cluster.patch(f"{path}two", config_map(a="x"), APPLY).ok(409)
    assert refused["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    forced = cluster.patch(f"{path}two&force=true", config_map(a="x"), APPLY).ok()
    assert forced["data"] == {"a": "x"}
    nameless = cluster.patch(f"{MAPS}/c", config_map(), APPLY).ok(422)
    assert "fieldManager: Required value: is required for apply patch" in nameless["message"]


def test_deletion_with_preconditions(cluster: Cluster) -> None:
    made = cluster.post(MAPS, config_map()).ok(201)
    refused = cluster.delete(f"{MAPS}/c", {"preconditions": {"uid": "z"}}).ok(409)
    assert refused["message"].startswith('Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition')
    gone = cluster.delete(f"{MAPS}/c", {"preconditions": {"uid": made["metadata"]["uid"]}}).ok()
    assert (gone["status"], gone["details"]) == (
        "Success",
        {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    )
    assert cluster.delete(f"{MAPS}/c").ok(404)["reason"] == "NotFound"


def test_finalizers_hold_an_object(cluster: Cluster) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["x.io/wait"]
    cluster.post(MAPS, body).ok(201)
    marked = cluster.delete(f"{MAPS}/c").ok()
    assert marked["metadata"]["deletionTimestamp"]
    watch = cluster.watch(f"{MAPS}?resourceVersion={cluster.api.store.revision}")
    cluster.patch(f"{MAPS}/c", {"metadata": {"finalizers": None}}).ok()
    assert [kind for kind, _ in events(watch)] == ["DELETED"]
    assert cluster.get(f"{MAPS}/c").code == 404


@pytest.mark.parametrize(
    ("policy", "finalizers"), [("Orphan", ["orphan"]), ("Foreground", ["foregroundDeletion"]), ("Background", None)]
)
def test_propagation(cluster: Cluster, policy: str, finalizers: list[str] | None) -> None:
    cluster.post(MAPS, config_map()).ok(201)
    cluster.delete(f"{MAPS}/c?propagationPolicy={policy}").ok()
    left = cluster.get(f"{MAPS}/c")
    assert (left.body["metadata"].get("finalizers") if left.code == 200 else None) == finalizers


def test_a_bound_pod_is_given_grace_that_can_only_shrink(cluster: Cluster) -> None:
    cluster.post(PODS, pod(nodeName="n")).ok(201)
    marked = cluster.delete(f"{PODS}/p").ok()
    assert (marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (30, 2)
    assert cluster.delete(f"{PODS}/p?gracePeriodSeconds=60").ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster.delete(f"{PODS}/p?gracePeriodSeconds=5").ok()["metadata"]["deletionGracePeriodSeconds"] == 5
    cluster.delete(f"{PODS}/p?gracePeriodSeconds=0").ok()
    assert cluster.get(f"{PODS}/p").code == 404


def test_an_unbound_pod_goes_at_once_but_is_marked_first(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    watch = cluster.watch(f"{PODS}?resourceVersion={cluster.api.store.revision}")
    gone = cluster.delete(f"{PODS}/p").ok()
    assert gone["kind"] == "Pod"
    (first, marked), (second, last) = events(watch)
    assert (first, second) == ("MODIFIED", "DELETED")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert last == gone


def test_a_collection_is_deleted_by_selector(cluster: Cluster) -> None:
    for name in "ab":
        cluster.post(PODS, {**pod(name), "metadata": {"name": name, "labels": {"n": name}}}).ok(201)
    cluster.delete(f"{PODS}?labelSelector=n=a").ok()
    assert [item["metadata"]["name"] for item in cluster.get(PODS).body["items"]] == ["b"]


def test_a_terminating_namespace_takes_nothing_new(cluster: Cluster) -> None:
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).ok(201)
    ending = cluster.delete("/api/v1/namespaces/n").ok()
    assert ending["status"]["phase"] == "Terminating"
    refused = cluster.post("/api/v1/namespaces/n/configmaps", config_map()).ok(403)
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    ending["spec"]["finalizers"] = []
    cluster.put("/api/v1/namespaces/n/finalize", ending).ok()
    assert cluster.get("/api/v1/namespaces/n").code == 404
    assert cluster.delete("/api/v1/namespaces/default").ok(403)["reason"] == "Forbidden"


def test_both_kinds_of_events_are_one(cluster: Cluster) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "hello",
        "reason": "R",
        "type": "Normal",
    }
    cluster.post("/api/v1/namespaces/default/events", event).ok(201)
    other = "/apis/events.k8s.io/v1/namespaces/default/events"
    shown = cluster.get(f"{other}/e").ok()
    assert (shown["apiVersion"], shown["note"], shown["regarding"]["name"]) == ("events.k8s.io/v1", "hello", "p")
    assert cluster.get(f"{other}?fieldSelector=regarding.name=p").ok()["items"][0]["note"] == "hello"


@pytest.mark.parametrize("resource", BUILT_IN, ids=lambda resource: f"{resource.api_version} {resource.kind}")
def test_everything_that_is_served_has_a_schema(cluster: Cluster, resource: Resource) -> None:
    assert cluster.api.semantics_of(resource).schema.properties


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "nothing scales by itself here"),
        ("/api/v1/namespaces/default/resourcequotas", "does not serve resourcequotas: quotas are not enforced"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", "does not serve apiservices"),
        (
            "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
            "does not serve storageversionmigrations: stored objects are not migrated",
        ),
        (f"{PODS}/p/log", "containers do not run, so they print nothing"),
        (f"{PODS}/p/exec", "containers do not run"),
        (f"{PODS}/p/attach", "containers do not run"),
        (f"{PODS}/p/portforward", "containers do not run"),
        (f"{PODS}/p/proxy", "containers do not run"),
    ],
)
def test_what_is_left_out_says_so(cluster: Cluster, path: str, text: str) -> None:
    refused = cluster.get(path).ok(404)
    assert refused["message"].startswith("the server could not find the requested resource")
    assert text in refused["message"]


def test_paths_and_methods_that_are_not_there(cluster: Cluster) -> None:
    assert cluster.get("/apis/nope.io/v1/x").body == b"404 page not found\n"
    assert cluster.get("/api/v1/nope").ok(404)["message"] == "the server could not find the requested resource"
    assert cluster.post(f"{MAPS}/c", {}).ok(405)["reason"] == "MethodNotAllowed"
    assert cluster.post("/api/v1/pods", pod()).ok(405)["reason"] == "MethodNotAllowed"
    assert cluster.get("/healthz").body == b"ok"


def test_reviews_allow_everything_and_say_so(cluster: Cluster) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    status = cluster.post(path, asked).ok(201)["status"]
    assert status["allowed"] is True
    assert "allows everything" in status["reason"]


def test_whose_a_token_is_can_be_asked_of_those_that_the_server_knows() -> None:
    api = ApiServer(NameGenerator(Random(0)), now=0.0, tokens={"abc": Identity("alice", ("dev",), "u1")})
    path, headers = "/apis/authentication.k8s.io/v1/tokenreviews", {"content-type": "application/json"}
    said = {}
    for token in ("abc", "other", None):
        answer = api.answer(Request("POST", path, (), headers, json.dumps({"spec": {"token": token}}).encode()), 0.0)
        assert isinstance(answer, Response)
        said[token] = json.loads(answer.body)["status"]
    assert said["abc"] == {"authenticated": True, "user": {"username": "alice", "uid": "u1", "groups": ["dev"]}}
    assert said["other"] == said[None] == {"user": {}, "error": "situate's embedded API server knows no such token"}
