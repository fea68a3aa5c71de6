"""Strict mode on a real API server: a policy sets the gate, the leader takes it away, and an uninstallation as well."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from situate.spot.model.object_names import configuration_name
from situate.spot.model.pods_nodes_workloads import GATE
from tests.e2e.spot_installed import Installed, classes, deployment, installation, stateful_set
from tests.e2e.vpod_cluster import Cluster
from tests.waiting import eventually

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


@pytest.fixture
def strict(spot_cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    with installation(spot_cluster, tmp_path, {"strict": {}, "gateBy": "policy"}) as made:
        yield made


def gated(pod: Any) -> bool:
    return GATE in [each["name"] for each in pod["spec"].get("schedulingGates", ())]


def wait_gated(installed: Installed, name: str, count: int) -> list[Any]:
    return eventually(
        f"{count} pods of {name} wait behind the gate",
        lambda: [pod for pod in installed.pods_of(name) if gated(pod)],
        lambda pods: len(pods) == count,
    )


@pytest.mark.rule("spot:P7", "spot:P8", "spot:P9", "spot:B35", "spot:K9")
def test_no_pod_slips_through_and_none_is_left_behind(strict: Installed) -> None:
    cluster = strict.cluster
    pod, _ = strict.pods()
    strict.make_shop()
    # API servers hear of a policy some moments later
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "uid": "none", "controller": True}
    probe = {
        "metadata": {"name": "tried", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    path = f"/api/v1/namespaces/{strict.shop}/pods?dryRun=All"
    eventually("the policy is in force", partial(cluster.plane.request, "POST", path, probe), gated)

    strict.deploy(deployment("web", 12, "5"), stateful_set("base", 3))
    wait_gated(strict, "web", 12)
    assert not any(each["spec"].get("nodeName") for each in wait_gated(strict, "base", 3)), (
        "without a leader none starts"
    )

    process = strict.start(pod)
    assert classes(strict.wait_pods("web", 12)) == {"on-demand": 5, "spot": 7}
    assert classes(strict.wait_pods("base", 3)) == {"on-demand": 2, "spot": 1}
    on_demand = [each for each in strict.pods_of("web") if classes([each])["on-demand"]]
    assert all(each["spec"]["nodeName"].startswith("on-demand") for each in on_demand)
    strict.check()

    process.stop(timeout_s=30)
    cluster.kubectl("scale", "deployment/web", "-n", strict.shop, "--replicas=14")
    wait_gated(strict, "web", 2)
    # uninstalled as docs/getting-started/tutorials/spot.md says: nothing sets gates any more, then pods are let go,
    # then the rest goes
    gates = [each for each in strict.objects if each["kind"].startswith("Mutating")]
    cluster.kubectl("delete", "-f", "-", given=gates)
    ungated = cluster.situate("spot", "ungate", "-A", kubeconfig=cluster.plane.folder / "admin.kubeconfig")
    assert ungated.returncode == 0, ungated.stdout + ungated.stderr
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", given=strict.objects)
    assert classes(strict.wait_pods("web", 14))[""] == 2
    eventually(
        "nothing is left", partial(cluster.get, f"/api/v1/namespaces/{strict.space}"), lambda found: found is None
    )
    assert cluster.get(f"{POLICIES}/{configuration_name(strict.space)}") is None
