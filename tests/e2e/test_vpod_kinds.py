"""Vpods of other kinds than ConsumerGroup, on a real cluster: KafkaSource, and any custom resource by its paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.vpod_cluster import Arena, Cluster, placed
from tests.waiting import eventually

SOURCES = "/apis/sources.knative.dev/v1beta1"


@pytest.mark.rule("vpod:V20", "vpod:V5")
def test_kafka_sources_are_vpods_of_their_own(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    sources = [{"kind": "KafkaSource", "namespace": "kafka-sources"}]
    with arena("kafka-sources", sources=sources) as ours:
        ours.add_statefulset()
        cluster.apply(_kafka_source(ours.name, "orders", 5), _kafka_source(ours.name, "payments", None))
        ours.start()

        def placements(name: str) -> dict[str, int]:
            return placed(cluster.get(f"{SOURCES}/namespaces/{ours.name}/kafkasources/{name}"))

        eventually("orders is placed", lambda: sum(placements("orders").values()), lambda total: total == 5)
        eventually("payments has its one", lambda: sum(placements("payments").values()), lambda total: total == 1)
        assert ours.replicas() == 2

        # the data plane allows fewer: what it says counts
        cluster.kubectl(
            *("patch", "kafkasource", "orders", "-n", ours.name, "--subresource=status", "--type=merge"),
            *("-p", '{"status": {"maxAllowedVReplicas": 3}}'),
        )
        eventually("orders has three", lambda: sum(placements("orders").values()), lambda total: total == 3)
        cluster.kubectl("scale", "kafkasource", "payments", "-n", ours.name, "--replicas=2")
        eventually("payments has two", lambda: sum(placements("payments").values()), lambda total: total == 2)


@pytest.mark.rule("vpod:D20", "vpod:V2")
def test_a_kind_of_ones_own_is_placed_by_its_paths_once_it_exists(
    cluster: Cluster, arena: Callable[..., Arena]
) -> None:
    kind = {
        "kind": "Stream",
        "group": "example.com",
        "version": "v1",
        "resource": "streams",
        "namespace": "streams",
        "vreplicasPath": "spec.parallelism.workers",
        "placementsPath": "status.schedule.placements",
    }
    with arena("streams", sources=[kind]) as ours:
        ours.add_statefulset()
        scheduler = ours.start()
        (line, *_) = eventually(
            "the log names what is missing",
            lambda: [line for line in scheduler.log() if line.get("resource") == "streams.example.com"],
        )
        assert "404" in line["error"]
        cluster.apply(_definition())
        cluster.kubectl("wait", "--for=condition=Established", "crd", "streams.example.com", "--timeout=120s")
        stream = {
            "apiVersion": "example.com/v1",
            "kind": "Stream",
            "metadata": {"name": "clicks", "namespace": ours.name},
            "spec": {"parallelism": {"workers": 6}},
        }
        cluster.apply(stream)
        path = f"/apis/example.com/v1/namespaces/{ours.name}/streams/clicks"

        def placements() -> dict[str, int]:
            return placed(cluster.get(path), ("status", "schedule", "placements"))

        eventually("it is placed", lambda: sum(placements().values()), lambda total: total == 6)
        assert ours.replicas() == 2


def _kafka_source(namespace: str, name: str, consumers: int | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"bootstrapServers": ["kafka.example.com:9092"], "topics": [name]}
    return {
        "apiVersion": "sources.knative.dev/v1beta1",
        "kind": "KafkaSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec if consumers is None else spec | {"consumers": consumers},
    }


def _definition() -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "streams.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Stream", "listKind": "StreamList", "plural": "streams", "singular": "stream"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
