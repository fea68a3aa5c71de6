"""From Knative's scheduler to vpod and back, on a real API server: docs/guides/vpod/migrate-from-knative.md.

Knative's controller cannot run here. In its place stands the profile `reference`, which answers as it does, and for
what it leaves behind, objects written field by field as its controllers write them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.e2e.vpod_cluster import GROUP, Arena, Cluster
from tests.waiting import eventually, steadily

CONDITIONS = ("Autoscaler", "Consumers", "ConsumersScheduled", "Ready")
"""Of a ConsumerGroup in Knative, by name."""


def versions(ours: Arena) -> dict[str, str]:
    """The resourceVersion of every source and worker: nobody has written what has the same."""
    paths = (ours.group_path(), f"/apis/{GROUP}/v1alpha1/namespaces/{ours.name}/consumers")
    items = [each["metadata"] for path in paths for each in ours.cluster.get(path)["items"]]
    return {f"{each['name']}/{each['uid']}": each["resourceVersion"] for each in items}


def planned_changes(cluster: Cluster, ours: Arena) -> list[str]:
    """What `situate vpod plan` would change, by vpod."""
    plan = cluster.situate(
        *("vpod", "plan", "-f", str(ours.file), "-A", "-o", "json"),
        kubeconfig=cluster.plane.folder / "admin.kubeconfig",
    )
    assert plan.returncode == 0, plan.stderr
    return [each["change"] for each in json.loads(plan.stdout)[0]["vpods"]]


@pytest.mark.rule("vpod:V21", "vpod:V24", "vpod:D1", "vpod:B2", "vpod:S5")
def test_to_vpod_and_back_moves_nothing(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    with arena("switching", scaleDownStabilization="300s") as ours:
        ours.add_statefulset()
        ours.want(orders=6, payments=3, clicks=1)
        knative = ours.start("knative", "vpod[0].profile=reference")
        held = ours.wait_placed()
        ours.wait_quiet()
        as_knative_leaves_it(ours)
        knative.process.stop(timeout_s=60)

        assert planned_changes(cluster, ours) == ["", "", ""]
        before = versions(ours)
        vpod = ours.start("vpod")
        eventually("vpod has rebuilt what is placed", lambda: vpod.said("state rebuilt"))
        steadily("nothing is written", lambda: versions(ours), lambda now: now == before, seconds=2)
        assert ours.placements() == held

        ours.want(orders=8)  # it does place
        held = ours.wait_placed()
        ours.wait_quiet()
        vpod.process.stop(timeout_s=60)
        before = versions(ours)
        back = ours.start("knative-again", "vpod[0].profile=reference")
        eventually("Knative's has rebuilt what is placed", lambda: back.said("state rebuilt"))
        steadily("nothing is written", lambda: versions(ours), lambda now: now == before, seconds=2)
        ours.want(clicks=2)
        now = ours.wait_placed()
        assert {name: pods for name, pods in now.items() if name != "clicks"} == {
            name: pods for name, pods in held.items() if name != "clicks"
        }


def as_knative_leaves_it(ours: Arena) -> None:
    """Conditions of every type, in its order, and what else its controller keeps in the status and the metadata."""
    for name in ours.placements():
        path = ours.group_path(name)
        settled = eventually("the workers are there", partial(ours.cluster.get, path))
        then = "2026-01-01T00:00:00Z"
        conditions: list[dict[str, Any]] = [
            {"type": each, "status": "True", "lastTransitionTime": then} for each in CONDITIONS
        ]
        status = {
            **settled["status"],
            "conditions": conditions,
            "observedGeneration": settled["metadata"]["generation"],
            "replicas": settled["spec"]["replicas"],
            "subscriberUri": "http://receiver.example.com",
        }
        ours.cluster.kubectl(
            *("patch", "consumergroup", name, "-n", ours.name, "--type=merge", "--subresource=status"),
            *("-p", json.dumps({"status": status})),
        )
