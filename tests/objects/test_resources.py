from __future__ import annotations

import pytest

from situate.objects.resources import EVENTS, NODES, PODS, STATEFULSETS, unstructured

SOURCES = unstructured("sources.knative.dev", "v1beta1", "KafkaSource", "kafkasources")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("d"), "/api/v1/namespaces/d/pods"),
        (PODS.path("d", "w", "binding"), "/api/v1/namespaces/d/pods/w/binding"),
        (NODES.path("ignored", "n"), "/api/v1/nodes/n"),
        (STATEFULSETS.path("d", "w", "scale"), "/apis/apps/v1/namespaces/d/statefulsets/w/scale"),
        (SOURCES.path("d"), "/apis/sources.knative.dev/v1beta1/namespaces/d/kafkasources"),
    ],
)
def test_path(path: str, wanted: str) -> None:
    assert path == wanted


def test_names() -> None:
    assert (PODS.api_version, EVENTS.api_version) == ("v1", "events.k8s.io/v1")
    assert (PODS.group_resource, STATEFULSETS.group_resource) == ("pods", "statefulsets.apps")
