from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from situate.kube.client import Client
from situate.kube.patches import MergePatch
from situate.objects.resources import PODS
from situate.runtime.leadership.leader_label import LeaderLabel, maintain_leader_label
from situate.testing.virtual_time.processes import World
from tests.kube.hostile_server import HostileServer

MARK = LeaderLabel("situate", "here", "leads", "true")
OWN = "/api/v1/namespaces/situate/pods/here"


def keeping(server: HostileServer) -> tuple[list[float], Callable[[], Coroutine[Any, Any, None]]]:
    """Moments of the attempts, and the task."""
    client, tries = Client(server), list[float]()

    async def write(pod: str, patch: MergePatch) -> object:
        tries.append(asyncio.get_running_loop().time())
        return await client.patch(PODS, pod, patch, MARK.namespace)

    return tries, lambda: maintain_leader_label(MARK, client, write)


@pytest.mark.rule("vm:B44")
def test_a_pod_that_there_is_not_is_told_of_once_and_looked_for_ever_more_seldom() -> None:
    server = HostileServer()
    tries, keep = keeping(server)
    with World() as world, capture_logs() as logs:
        world.start("marking", keep)
        world.run_until(100)
        assert tries == [0, 1, 3, 7, 15, 30, 45, 60, 75, 90]
        assert [each["event"] for each in logs] == ["labelling of the request target failed"]

        server.put(OWN, {"metadata": {"labels": {"leads": "true"}}})
        world.run_until(130)
        server.remove(OWN)
        world.run_until(138)
        assert tries[-3:] == [135, 136, 138]
        assert len(logs) == 2, "told of again when it has gone again"
