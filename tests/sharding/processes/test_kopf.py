"""Real Kopf beside executors, as processes of their own: who is no owner has nothing to do with an object."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.sharding.processes.scene import Scene
from tests.waiting import eventually


def lines(log: Path, name: str) -> list[tuple[str, str]]:
    """What Kopf's handlers have written of the object: which one, and of which version."""
    if not log.exists():
        return []
    told = (line.split() for line in log.read_text().splitlines())
    return [(what, version) for what, of, version in told if of == name]


@pytest.mark.rule("sharding:K14", "sharding:S11")
def test_kopf_handlers_run_for_the_owner_only_and_one_does_its_work(scene: Scene, tmp_path: Path) -> None:
    # Kopf looks for kinds and namespaces that come and go (its documentation, "Deployment", RBAC)
    scene.place.let_executors_watch(("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces"))
    logs = {name: tmp_path / f"{name}.events" for name in ("a", "b")}
    for name, log in logs.items():
        scene.executor(name, str(log), lease="long", program="tests.sharding.processes.kopf_program")
    for name, log in logs.items():
        eventually(f"Kopf watches beside {name}", partial(lines, log, scene.name))
    scene.assign("a")
    done = eventually("it is completed", scene.get, lambda seen: (seen.get("status") or {}).get("completedAt"))
    assert (done["status"]["successful"], done["status"]["by"]) == (True, scene.pod("a"))
    assert done["status"]["build"] == "at the 2. call"
    assert "kopf" not in done["status"], "neither Kopf nor we leave a record of what is over"
    last = done["metadata"]["resourceVersion"]
    for name, log in logs.items():
        eventually(f"{name} has seen the end", partial(lines, log, scene.name), lambda told: ("seen", last) in told)
    found = {name: lines(log, scene.name) for name, log in logs.items()}
    assert "mine" in dict(found["a"])
    assert "mine" not in dict(found["b"])
    assert ("mine", last) not in found["a"], "what is completed is nobody's"
