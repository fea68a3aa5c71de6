"""Pods of the embedded server as processes: their command, their environment, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from situate.embedded.pods.processes import PodEnded
from situate.objects.resources import PODS
from situate.testing.builders.operators import LocalCluster, local_cluster

STAYS = "import sys, time; print(*sys.argv[1:], flush=True); time.sleep(600)"
COUNTS = "import pathlib, sys; f = pathlib.Path(sys.argv[1]); f.open('a').write('x'); sys.exit(int(sys.argv[2]))"


def pod(name: str, program: str, *args: str, **variables: str) -> dict[str, Any]:
    fields = {"POD_NAME": "metadata.name", "POD_UID": "metadata.uid", "NOWHERE": "metadata.nowhere.else"}
    given = [{"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}} for variable, path in fields.items()]
    given += [{"name": variable, "value": value} for variable, value in variables.items()]
    command = ["python", "-c", program]
    container = {"name": "c", "image": "c", "command": command, "args": [*args], "env": given}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "tried"}},
        "spec": spec,
    }


async def logged(cluster: LocalCluster, name: str) -> str:
    log = cluster.folder / f"{name}.log"
    return log.read_text() if log.exists() else ""


async def test_a_pod_has_a_process_with_its_arguments_until_it_goes(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        processes = await cluster.run_pods("default", "app=tried", "--more")
        await cluster.create(
            pod("one", STAYS, "$(POD_NAME)", "a$(COLOUR)b", "$(UNKNOWN)", "[$(NOWHERE)]", COLOUR="red")
        )
        await cluster.eventually("it says its arguments", lambda: logged(cluster, "one"))
        assert await logged(cluster, "one") == "one aredb $(UNKNOWN) [] --more\n"
        assert processes.running_pods() == ["one"]
        await cluster.client.delete(PODS, "one", "default")
        await cluster.eventually(
            "its process has ended", lambda: _answer(not processes.running_pods() and processes.all_stopped())
        )
        processes.check()


async def test_one_that_is_killed_stays_dead_although_its_pod_is_there(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        processes = await cluster.run_pods("default", "app=tried")
        await cluster.create(pod("one", STAYS), pod("two", STAYS))
        await cluster.eventually("both run", lambda: _answer(processes.running_pods() == ["one", "two"]))
        await processes.kill("one")
        await processes.synchronize()
        assert processes.running_pods() == ["two"]
        processes.check()


async def test_how_a_process_ends_by_itself_says_whether_it_is_begun_anew(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        await cluster.run_pods("default", "app=tried")
        anew, mistaken = tmp_path / "anew", tmp_path / "mistaken"
        await cluster.create(pod("anew", COUNTS, str(anew), "70"))
        await cluster.eventually("it is begun anew", lambda: _answer(anew.exists() and len(anew.read_text()) > 1))
        await cluster.create(pod("mistaken", COUNTS, str(mistaken), "1"))
        with pytest.raises(PodEnded, match="mistaken ended with code 1: no output"):
            await cluster.eventually("nothing that comes", lambda: _answer(False))
        assert mistaken.read_text() == "x"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["no-such-program"], "one cannot run no-such-program: No such file", id="unknown"),
        pytest.param([], "one: the first container has no command", id="the image's own"),
    ],
)
async def test_what_cannot_be_begun_is_named(tmp_path: Path, command: list[str], said: str) -> None:
    with pytest.raises(PodEnded, match=said):
        await _tried(tmp_path, command)


async def _tried(folder: Path, command: list[str]) -> None:
    made = pod("one", STAYS)
    made["spec"]["containers"][0]["command"] = command
    async with local_cluster(folder) as cluster:
        await cluster.run_pods("default", "app=tried")
        await cluster.create(made)
        await cluster.eventually("nothing that comes", lambda: _answer(False))


async def _answer(value: bool) -> bool:
    return value
