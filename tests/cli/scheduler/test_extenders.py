"""Answers of `situate scheduler` where extenders have a say: they are asked over HTTP, and never to bind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.extending import Extending, serving
from tests.cli.scheduler.test_files import scheduler

DUMP = "--objects=examples/scheduler/cluster.yaml"
NOWHERE = "http://127.0.0.1:1/none"


@pytest.fixture
def extender() -> Iterator[tuple[Extending, str]]:
    with serving() as found:
        yield found


def profile(folder: Path, url: str, **fields: Any) -> str:
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 5,
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
        "percentageOfNodesToScore": 100,
        "extenders": [{**extender, **fields}],
    }
    file = folder / "extended.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return f"--file={file}"


def test_explain_tells_what_an_extender_adds(extender: tuple[Extending, str], tmp_path: Path) -> None:
    extending, url = extender
    extending.wanted = "node-c1"
    code, out, _ = scheduler("explain", "web-1", "-n", "shop", DUMP, profile(tmp_path, url))
    assert code == 0
    assert "placed now it would go to node-c1" in out
    assert f"Extender {url} 500" in out
    assert set(extending.asked) == {"filter", "prioritize"}
    (first, *_) = extending.asked["filter"]["Nodes"]["items"]
    assert first["status"]["allocatable"]["cpu"], "nodes are shown whole"
    assert extending.asked["filter"]["Pod"]["metadata"]["name"] == "web-1"


def test_explain_tells_whom_an_extender_refuses(extender: tuple[Extending, str], tmp_path: Path) -> None:
    extending, url = extender
    extending.refusing = True
    code, out, _ = scheduler("explain", "web-1", "-n", "shop", DUMP, profile(tmp_path, url))
    assert code == 1
    assert "3 no licence" in out
    assert f"Extender {url}" in out
    assert "no change was found that would make the Pod fit" in out


def test_what_if_asks_about_pods_that_there_are_not_yet(extender: tuple[Extending, str], tmp_path: Path) -> None:
    extending, url = extender
    extending.wanted = "node-b1"
    arguments = ("what-if", "examples/scheduler/deployment.yaml", DUMP, profile(tmp_path, url), "-o", "json")
    code, out, _ = scheduler(*arguments)
    found = json.loads(out)
    assert code == found["asked"] - found["placed"] == 0
    assert found["pods"][0]["node"] == "node-b1"
    asked = extending.asked["filter"]["Pod"]
    assert (asked["kind"], asked["metadata"]["namespace"]) == ("Pod", "shop")
    assert asked["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert "extenders are not called to count how many more would fit" in found["remarks"]
    assert set(extending.asked) == {"filter", "prioritize"}, "nobody is bound"


@pytest.mark.parametrize("ignorable", [True, False])
def test_one_that_cannot_be_reached_is_named(tmp_path: Path, ignorable: bool) -> None:
    told = profile(tmp_path, NOWHERE, ignorable=ignorable)
    code, out, err = scheduler("explain", "web-1", "-n", "shop", DUMP, told)
    assert code == 0
    assert "it would go there again" in out
    assert f"extender {NOWHERE} at filter: " in err
    assert "the answer ignores this extender" in err
    code, out, _ = scheduler("what-if", "examples/scheduler/deployment.yaml", DUMP, told, "-o", "json")
    remarks = json.loads(out)["remarks"]
    assert [each for each in remarks if each.startswith(f"extender {NOWHERE} at filter: ")]


def test_status_and_replay_say_that_they_ask_nobody(tmp_path: Path) -> None:
    told = profile(tmp_path, NOWHERE)
    for arguments in (("status", DUMP), ("replay", "examples/scheduler/morning.jsonl")):
        _, _, err = scheduler(*arguments, told)
        assert "extenders are not called" in err
