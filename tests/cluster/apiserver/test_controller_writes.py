from __future__ import annotations

import pytest

from situate.cluster.apiserver.api import Handling
from situate.cluster.apiserver.controller_writes import ControllerWriter, answer_of
from situate.cluster.controllers.machinery.actions import Bind, Create, Delete, Patch, Write
from situate.cluster.storage.effects import Effect, WebhookReply
from tests.cluster.asking import PODS, Cluster, pod
from tests.cluster.test_admission import MUTATING, hook


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def perform(cluster: Cluster, action: Write) -> object:
    def never(*_: object) -> None:
        raise AssertionError("no webhook was expected")

    return ControllerWriter(cluster.api, lambda: cluster.now, never).perform(action, "u", "m", 1)


def test_controllers_write_as_any_client(cluster: Cluster) -> None:
    made = perform(cluster, Create("pods", "default", {**pod(), "metadata": {"generateName": "g-"}}))
    name = made.name  # type: ignore[attr-defined]
    assert name.startswith("g-")
    whole = cluster.get(f"{PODS}/{name}").ok()
    assert whole["metadata"]["managedFields"][0]["manager"] == "m"
    uid = whole["metadata"]["uid"]
    assert perform(cluster, Bind("default", name, uid, "n")).status == 201  # type: ignore[attr-defined]
    perform(cluster, Patch("pods", "default", name, {"status": {"phase": "Running"}}, "status"))
    assert cluster.get(f"{PODS}/{name}").ok()["status"]["phase"] == "Running"
    refused = perform(cluster, Delete("pods", "default", name, "other"))
    assert (refused.status, refused.reason) == (409, "Conflict")  # type: ignore[attr-defined]
    perform(cluster, Delete("pods", "default", name, uid, grace_seconds=0))
    assert cluster.get(f"{PODS}/{name}").code == 404


def test_a_webhook_makes_the_answer_come_later(cluster: Cluster) -> None:
    cluster.post(MUTATING, {"metadata": {"name": "m"}, "webhooks": [hook()]}).ok(201)
    waiting: list[tuple[Handling, Effect, int]] = []
    writer = ControllerWriter(cluster.api, lambda: cluster.now, lambda *late: waiting.append(late))
    assert writer.perform(Create("pods", "default", pod()), "u", "m", 42) is None
    [(handling, _, ticket)] = waiting
    assert ticket == 42
    with pytest.raises(StopIteration) as done:
        handling.send(WebhookReply(error="refused"))
    assert answer_of(done.value.value).status == 500
