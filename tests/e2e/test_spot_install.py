"""What the installation of spot promises, on a real API server (`tests.e2e.spot_installed`)."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from situate.spot.model.object_names import CERTIFICATES, NAME, configuration_name
from situate.spot.model.pods_nodes_workloads import CLASS, DECISION
from tests.e2e.spot_installed import WEBHOOKS, Installed, classes, deployment, floor_held, managers
from tests.waiting import eventually

TRIES = 4
"""Until a burst was exact."""
ALLOWED_KINDS = {
    "Namespace",
    "ConfigMap",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Deployment",
    "Service",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "MutatingWebhookConfiguration",
    "Lease",
    "Secret",
}


@pytest.mark.rule("spot:B35", "spot:B1", "spot:P1", "spot:P6", "spot:S20", "spot:S23", "spot:I6", "spot:B36")
def test_a_deployment_gets_its_floor_from_nothing_but_the_manifests(installed: Installed) -> None:
    cluster = installed.cluster
    assert {each["kind"] for each in installed.objects} == ALLOWED_KINDS
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    checked = cluster.situate("check", "-f", str(installed.file), kubeconfig=installed.folder / f"{pod}.kubeconfig")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    proved = cluster.situate(
        "check", "-f", str(installed.file), "-o", "json", kubeconfig=cluster.plane.folder / "admin.kubeconfig"
    )
    results = {each["check"]: each["ok"] for each in json.loads(proved.stdout)}
    assert results["webhook pods.spot.situate.dev answers"]
    assert results["unreadable spot.situate.dev/on-demand is refused"]

    installed.deploy(deployment("web", 20, "7"))
    pods = installed.wait_pods("web", 20)
    floor_held(pods, 7)
    for each in pods:
        decision = json.loads(each["metadata"]["annotations"][DECISION])
        assert decision["target"] == 7
    placed = Counter(
        each["spec"]["nodeName"].rpartition("-")[0] for each in pods if CLASS in each["metadata"]["labels"]
    )
    assert placed["on-demand"] >= 7
    on_demand = [each for each in pods if each["metadata"]["labels"][CLASS] == "on-demand"]
    assert all(each["spec"]["nodeName"].startswith("on-demand") for each in on_demand)

    for path in ("deployments/web", "replicasets"):
        found = cluster.get(f"/apis/apps/v1/namespaces/{installed.shop}/{path}?")
        for obj in found.get("items", [found]):
            assert managers(obj) <= {"kubectl", "kube-controller-manager"}
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=30")
    floor_held(installed.wait_pods("web", 30), 7)
    installed.check()


@pytest.mark.rule("spot:B1", "spot:P17", "spot:K1", "spot:D1")
def test_every_floor_is_exact_in_a_burst(installed: Installed, record_property: Callable[[str, object], None]) -> None:
    """Five workloads at once, then each scaled twice within a second.

    A server that stalls for a second after an answer makes one pod too many on demand (P5); who sees that tries again,
    and where every burst takes that long, nothing is exact.
    """
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    floors = {f"web-{floor}": floor for floor in (0, 5, 25, 26, 50)}
    for name, floor in floors.items():
        installed.deploy(deployment(name, 50, str(floor)))
    for name, floor in floors.items():
        counts = [floor_held(installed.wait_pods(name, 50), floor)]
        while counts[-1]["on-demand"] > floor and len(counts) < TRIES:
            again = f"{name}-{len(counts)}"
            installed.deploy(deployment(again, 50, str(floor)))
            counts.append(floor_held(installed.wait_pods(again, 50), floor))
        found = ", ".join(str(each["on-demand"]) for each in counts)
        record_property("table", f"spot: 50 pods with a floor of {floor}: {found} on demand")
    for name in floors:
        for replicas in (45, 60):
            installed.cluster.kubectl("scale", f"deployment/{name}", "-n", installed.shop, f"--replicas={replicas}")
    for name, floor in floors.items():
        floor_held(installed.wait_pods(name, 60), floor)
    installed.check()


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P21", "spot:K3", "spot:D2", "spot:F5")
def test_pods_that_a_quota_refuses_keep_no_place(installed: Installed) -> None:
    """Quota is looked at after mutation: an admitted pod may never exist."""
    cluster = installed.cluster
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    installed.make_shop()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": installed.shop}}
    refuses = partial(cluster.refuses_pods, installed.shop)
    for most, holds in (("0", bool), ("5", operator.not_)):  # until the quota is known it lets everybody through
        cluster.apply({**quota, "spec": {"hard": {"pods": most}}})
        eventually(f"{most} pods are allowed", refuses, holds)
    installed.deploy(deployment("web", 20, "8"))
    assert classes(installed.wait_pods("web", 5)) == {"on-demand": 5}
    for most in ("9", "30"):
        cluster.apply({**quota, "spec": {"hard": {"pods": most}}})
        pods = installed.wait_pods("web", min(20, int(most)))
    floor_held(pods, 8)
    installed.check()


@pytest.mark.rule("spot:P1", "spot:P22", "spot:B4", "spot:I11", "spot:F3")
def test_the_second_pod_takes_over_from_one_that_was_killed(installed: Installed) -> None:
    cluster = installed.cluster
    first_pod, second_pod = installed.pods()
    first = installed.start(first_pod)
    installed.wait_answering(first, first_pod)
    second = installed.start(second_pod)
    installed.deploy(deployment("web", 6, "4"))
    floor_held(installed.wait_pods("web", 6), 4)
    eventually("the second has seen the Lease", lambda: installed.said(second, "lease holder changed"))
    first.kill()
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=7")
    assert len(installed.wait_pods("web", 7)) == 7, "pods start without anybody to answer"
    installed.wait_answering(second, second_pod)
    before = classes(installed.pods_of("web"))
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=16")
    pods = installed.wait_pods("web", 16)
    after = classes(pods)
    assert after[""] == before[""]
    assert max(4, before["on-demand"]) <= after["on-demand"] < before["on-demand"] + 5, (before, after)
    installed.check()


@pytest.mark.rule("spot:P1", "spot:I11", "spot:F3")
def test_a_pod_that_was_paused_past_its_lease_answers_nobody_when_it_wakes(installed: Installed) -> None:
    """On one machine the second cannot listen before the first has let go of the port, which it does when it wakes."""
    cluster = installed.cluster
    first_pod, second_pod = installed.pods()
    first = installed.start(first_pod)
    installed.wait_answering(first, first_pod)
    second = installed.start(second_pod)
    installed.deploy(deployment("web", 4, "2"))
    installed.wait_pods("web", 4)
    eventually("the second has seen the Lease", lambda: installed.said(second, "lease holder changed"))
    first.pause()
    eventually("the second leads", lambda: installed.said(second, "leadership acquired"))
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=6")
    before = classes(installed.wait_pods("web", 6))
    assert before[""] == 2, "nobody answered, and pods were created in time all the same"
    first.resume()
    eventually("the first knows that it lost", lambda: installed.said(first, "leadership lost"))
    installed.wait_answering(second, second_pod)
    eventually("the first has told that it closed", lambda: installed.said(first, "server closes"))
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=12")
    assert classes(installed.wait_pods("web", 12))[""] == 2
    assert first.running, "it stands by"
    installed.check()


@pytest.mark.rule("spot:B35")
def test_what_was_installed_is_gone_after_its_deletion_and_pods_go_on(installed: Installed) -> None:
    cluster = installed.cluster
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    installed.deploy(deployment("web", 4, "2"))
    before = {each["metadata"]["uid"] for each in installed.wait_pods("web", 4)}
    process.stop(timeout_s=30)
    # as docs/getting-started/tutorials/spot.md says
    ours = ("-l", f"app.kubernetes.io/name={NAME}", "--ignore-not-found", "-f", "-")
    cluster.kubectl("delete", "--wait=false", *ours, given=installed.objects)
    left = partial(cluster.kubectl, "get", "-o", "name", *ours, given=installed.objects)
    eventually("all but the namespace is gone", left, operator.not_)
    assert cluster.get(f"{WEBHOOKS}/{configuration_name(installed.space)}") is None
    assert cluster.get(f"/api/v1/namespaces/{installed.space}")["status"]["phase"] == "Active", "others may live in it"
    assert {each["metadata"]["uid"] for each in installed.pods_of("web")} == before


def test_a_second_apply_takes_nothing_from_the_leader(installed: Installed) -> None:
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    secret = f"/api/v1/namespaces/{installed.space}/secrets/{CERTIFICATES}"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed.space}/leases/{NAME}"
    before = installed.cluster.get(secret)["data"], installed.bundle()
    installed.apply()
    assert (installed.cluster.get(secret)["data"], installed.bundle()) == before
    assert installed.cluster.get(lease)["spec"]["holderIdentity"] == f"{pod}_x"
