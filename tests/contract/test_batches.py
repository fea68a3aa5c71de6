"""How many pods a ReplicaSet asks for at once: 1, 2, 4, …, as a slow webhook sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.things import core, pod, replicaset
from tests.contract.waiting import eventually
from tests.contract.webhooks import serving
from tests.contract.work import Work


class Turnstile:
    """Lets nobody through before a whole batch has come, and the last of it only when the others are pods.

    Who comes before that has not waited for the batch, and is counted with it. A batch that is smaller than expected
    waits until the webhook's time is over, and the set never gets its pods.
    """

    def __init__(self, batches: list[int], pods: Callable[[], Awaitable[int]]) -> None:
        self.peaks: list[int] = []
        self._batches = batches
        self._pods = pods
        self._waiting = 0
        self._full = asyncio.Event()

    async def pass_through(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["dryRun"]:
            return {"allowed": True}
        self._waiting += 1
        full = self._full
        if self._waiting == self._batches[len(self.peaks)]:
            full.set()
            others = sum(self.peaks) + self._waiting - 1
            await eventually(self._pods, lambda pods: pods >= others)
            self.peaks.append(self._waiting)
            self._waiting, self._full = 0, asyncio.Event()
        await full.wait()
        return {"allowed": True}


@pytest.mark.parametrize(
    ("replicas", "batches"),
    [
        pytest.param(7, [1, 2, 4], id="7"),
        pytest.param(50, [1, 2, 4, 8, 16, 19], id="50: at most 19 in flight"),
        pytest.param(100, [1, 2, 4, 8, 16, 32, 37], id="100: at most 37 in flight"),
    ],
)
async def test_a_replicaset_creates_in_batches(work: Work, replicas: int, batches: list[int]) -> None:
    """Each batch waits for the one before: a slow webhook has the largest of them in hand at once."""

    async def pods() -> int:
        return len((await work.api.get(core(work.namespace, "pods"))).ok()["items"])

    turnstile = Turnstile(batches, pods)
    async with serving() as hooks:
        webhook = {
            "name": "slow.situate.dev",
            "clientConfig": hooks.at("/slow", turnstile.pass_through),
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": work.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
        }
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        (await work.api.post(path, {"metadata": {"name": work.namespace}, "webhooks": [webhook]})).ok(201)
        probe = core(work.namespace, "pods")
        await eventually(lambda: work.api.post(probe, pod("probe"), dryRun="All"), lambda _: hooks.asked)
        await work.create("replicasets", replicaset("rs", replicas))
        await work.settled(replicas)
        (await work.api.delete(f"{path}/{work.namespace}")).ok()
    assert turnstile.peaks == batches
