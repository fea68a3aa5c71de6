"""What `situate spot plan` tells of a cluster is what the controller then does there (B31)."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.kinds.events import ObjectReference
from tests.spot.controller.playground import DEPLOYMENTS, SETS, Playground, workload

MERGE = "application/merge-patch+json"
Moves = dict[str, list[tuple[str, str]]]
"""By workload: pod and reason, in their order."""


def planned(kubeconfig: Path) -> Moves:
    result = CliRunner().invoke(app, ["spot", "plan", "-A", "-o", "json", "--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 0, result.output
    found: Moves = defaultdict(list)
    for move in json.loads(result.stdout)["moves"]:
        found[move["workload"].rpartition("/")[2]].append((move["pod"].rpartition("/")[2], move["reason"]))
    return dict(found)


def kubeconfig_for(server: str, folder: Path) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.rule("spot:B31", "spot:B10")
async def test_every_pod_that_was_planned_is_moved_in_that_order_and_no_other(
    playground: Playground, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: Moves = defaultdict(list)

    def record(about: ObjectReference, _: str, reason: str, message: str) -> None:
        if reason == "PodEvicted":
            pod, _, why = message.removeprefix("spot evicted pod ").partition(": ")
            done[about.name].append((pod, why))

    monkeypatch.setattr(playground, "record", record)
    await playground.call("PATCH", "/api/v1/nodes/on-demand", {"spec": {"unschedulable": True}}, kind=MERGE)
    await playground.call("POST", DEPLOYMENTS, workload("web", 4, "2"))
    await playground.call("POST", DEPLOYMENTS, workload("fits", 2))
    await playground.call("POST", SETS, workload("base", 3, kind="StatefulSet"))

    async def up() -> bool:
        pods: list[Any] = [pod for name in ("web", "fits", "base") for pod in await playground.pods(name)]
        return len(pods) == 9 and all(
            any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
            for pod in pods
        )

    await playground.eventually("all run", up)
    await playground.call("PATCH", "/api/v1/nodes/on-demand", {"spec": {"unschedulable": None}}, kind=MERGE)
    kubeconfig = kubeconfig_for(playground.server.url, tmp_path)
    told = await asyncio.to_thread(planned, kubeconfig)
    assert {name: len(moves) for name, moves in told.items()} == {"web": 2, "base": 2}
    async with playground.controller("first", port, evictions={"coolDown": "0s"}) as ours:
        await playground.lead_to(port)
        await playground.answers(ours)

        async def nothing_left() -> bool:
            decision = ours.decision_loop.decision
            return (
                decision is not None
                and all(report.need == 0 for report in decision.reports.values())
                and await up()
                and len(decision.reports) == 3
            )

        await playground.eventually("nothing is left to be moved", nothing_left)
    assert dict(done) == told
    assert await asyncio.to_thread(planned, kubeconfig) == {}
