"""Pods that cannot be read: told so once in an Event, a metric and their condition, and the others go on.

Validation keeps them out; what another version of the server has stored is there all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from tests.scheduler.controller.test_controller import sample
from tests.scheduler.stage import PODS_PATH, Answer, Stage, stage

GATED: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]}
REPELS = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Nearly", "values": ["web"]}]},
            }
        ]
    }
}
"""It decodes, and says nothing that can be acted on."""


def alter(ours: Stage, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """As the store holds the pod, past validation."""
    store = ours.world.cluster.api.store
    stored = store.get("pods", "work", name)
    assert stored is not None
    content = msgspec.json.decode(stored.raw)
    change(content)
    store.put("pods", content, fields=stored.fields)


def lots(content: dict[str, Any]) -> None:
    content["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"


def repels(content: dict[str, Any]) -> None:
    content["spec"].pop("schedulingGates", None)
    content["spec"]["affinity"] = REPELS


def conditions_written(ours: Stage) -> list[str]:
    """The pods, one for each write of a condition, which this server accepts whatever else the pods hold."""
    seen: list[str] = []

    def accept(request: Request, _: Callable[[], Response | Watch]) -> Answer:
        name = request.path.split("/")[-2]
        seen.append(name)
        (condition,) = msgspec.json.decode(request.body)["status"]["conditions"]
        alter(ours, name, lambda content: content["status"].update(conditions=[condition]))
        return Response(200, msgspec.json.encode(ours.pod(name)))

    ours.meddle("/status", accept, times=10**6)
    return seen


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        pytest.param(lots, "NotUnderstood", "lots", id="it does not decode"),
        pytest.param(repels, "FailedScheduling", "Nearly", id="its fields cannot be parsed"),
    ],
)
def test_it_is_told_so_once_and_the_others_go_on(
    change: Callable[[dict[str, Any]], None], reason: str, words: str
) -> None:
    with stage(nodes=1) as ours:
        ours.create("bad", **GATED)
        alter(ours, "bad", change)
        written = conditions_written(ours)
        ours.create("web")
        ours.wait_bound("web")
        ours.let_pass(20)
        (note,) = ours.notes("bad", reason)
        assert words in note
        assert "work/bad" in note
        said = ours.condition("bad")
        assert (said["status"], said["reason"], said["message"]) == ("False", "SchedulerError", note)
        ours.world.end(ours.world.members[0])
        ours.let_pass(60)
        assert written == ["bad"], "nor does the next process say it again"


def test_a_pod_that_is_corrected_is_placed_and_told_anew_if_it_goes_wrong_again() -> None:
    with stage(nodes=1) as ours:
        ours.create("bad", **GATED)
        alter(ours, "bad", repels)
        ours.let_pass(3)
        assert sample(ours, "situate_scheduler_refused_objects", resource="pods") == 1
        alter(ours, "bad", lambda content: content["spec"].pop("affinity"))
        ours.wait_bound("bad")
        assert ours.condition("bad")["status"] == "True"
        assert sample(ours, "situate_scheduler_refused_objects", resource="pods") == 0


def test_pods_of_other_schedulers_and_pods_in_place_keep_their_conditions() -> None:
    with stage(nodes=1) as ours:
        ours.create("theirs", schedulerName="somebody-else")
        ours.create("there", nodeName="node-0")
        ours.let_pass(2)
        written = conditions_written(ours)
        for name in ("theirs", "there"):
            alter(ours, name, lots)
        ours.let_pass(5)
        assert "theirs" not in written
        assert ours.condition("there").get("reason") != "SchedulerError"
        assert ours.notes("there", "NotUnderstood")


def test_a_write_that_fails_is_made_up_for() -> None:
    with stage(nodes=1) as ours:
        ours.create("bad", **GATED)
        alter(ours, "bad", lots)
        written = conditions_written(ours)

        def fail(_: Request, __: Callable[[], Response | Watch]) -> Answer:
            return Response(500, b'{"kind":"Status","apiVersion":"v1","reason":"InternalError","code":500}')

        ours.meddle(f"{PODS_PATH}/bad/status", fail, times=2)
        ours.let_pass(10)
        assert written == ["bad"]
        assert len(ours.notes("bad", "NotUnderstood")) == 1


def test_where_the_server_cannot_read_it_either_the_event_has_to_do() -> None:
    with stage(nodes=1) as ours:
        ours.create("bad", **GATED)
        alter(ours, "bad", lots)
        ours.let_pass(10)
        assert len(ours.notes("bad", "NotUnderstood")) == 1
