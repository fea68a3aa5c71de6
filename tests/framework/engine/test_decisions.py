"""What a decision says of promises: where a pod is expected, and when a promise is taken back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from situate.framework.engine.decisions import Failed, Placed, Refused, Waiting
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.actions import Action, Patch
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SKIP, SUCCESS, Code, Status, unschedulable_status
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod
from tests.framework.engine.test_engine import WAIT, Recorder, engine_of, node, pod

PATCH = Patch("pods", ("default", "p"), {"metadata": {}})


class Prepares:
    """PreBind that notes in which order it is asked what."""

    def __init__(self, name: str, asked: list[str], preflight: Status = SUCCESS) -> None:
        self.name = name
        self._asked = asked
        self._preflight = preflight

    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        self._asked.append(f"{self.name} preflight")
        return self._preflight

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        self._asked.append(self.name)
        return (PATCH,)


def nominated(name: str, on: str) -> Pod:
    each = pod(name)
    return msgspec.structs.replace(each, status=msgspec.structs.replace(each.status, nominated_node_name=on))


def decided(engine: Engine, each: Pod) -> Any:
    engine.set_node(node("a"), 0)
    engine.set_pod(each, 0)
    return engine.schedule(0)


def test_all_preflights_come_first_and_who_skips_is_not_asked_again() -> None:
    asked: list[str] = []
    plugins = Prepares("One", asked), Prepares("Idle", asked, SKIP), Prepares("Two", asked)
    engine = engine_of(*plugins)
    placed = decided(engine, pod("p"))
    assert isinstance(placed, Placed)
    binding = engine.binding(placed)
    assert asked == ["One preflight", "Idle preflight", "Two preflight", "One", "Two"]
    assert binding.expected
    assert binding.before == (PATCH, PATCH)


def test_a_pod_for_which_nothing_is_to_be_done_is_bound_at_once() -> None:
    engine = engine_of(Prepares("Idle", [], SKIP))
    placed = decided(engine, pod("p"))
    assert not engine.binding(placed).expected


def test_a_pod_that_is_held_has_its_preflights_behind_it() -> None:
    asked: list[str] = []
    engine = engine_of(Prepares("One", asked), Prepares("Idle", asked, SKIP), Recorder("Gang", permit=WAIT))
    assert isinstance(decided(engine, pod("p")), Waiting)
    assert asked == ["One preflight", "Idle preflight"]
    placed = engine.allow("p", "Gang")
    assert placed is not None
    assert engine.binding(placed).expected
    assert asked == ["One preflight", "Idle preflight", "One"]


def test_a_preflight_that_fails_while_the_pod_is_held_fails_it_and_frees_its_room() -> None:
    gang = Recorder("Gang", permit=WAIT)
    engine = engine_of(Prepares("Broken", [], Status(Code.ERROR, ("no idea",))), gang)
    failed = decided(engine, pod("p"))
    assert isinstance(failed, Failed)
    assert failed.error == 'running PreBindPreFlight plugin "Broken": no idea'
    assert gang.asked == ["reserve", "permit", "unreserve"]
    assert engine.allow("p", "Gang") is None
    assert engine.tick(1000) == []


@pytest.mark.parametrize(
    "strict",
    [
        pytest.param(Recorder("Strict", reserve=unschedulable_status("no")), id="reserve"),
        pytest.param(Recorder("Strict", permit=unschedulable_status("no")), id="permit"),
    ],
)
def test_a_rejection_of_the_placement_takes_an_earlier_promise_back(strict: Recorder) -> None:
    engine = engine_of(strict)
    refused = decided(engine, nominated("p", "a"))
    assert isinstance(refused, Refused)
    assert refused.nominate == ""
    assert not engine.nominations


def test_without_nodes_and_without_post_filter_a_promise_is_taken_back() -> None:
    engine = engine_of()
    engine.set_pod(nominated("p", "a"), 0)
    nowhere = engine.schedule(0)
    assert isinstance(nowhere, Refused)
    assert nowhere.nominate == ""
    assert not engine.nominations
    other = engine_of()
    other.set_pod(pod("there", on="a"), 0)
    refused = decided(other, nominated("p", "a"))
    assert isinstance(refused, Refused)
    assert refused.nominate == ""
    assert not other.nominations


def test_an_error_takes_a_promise_back() -> None:
    class Broken(Recorder):
        def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
            raise ZeroDivisionError("oh")

        def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Any:
            raise ZeroDivisionError("oh")

    engine = engine_of(Broken("Broken"))
    assert isinstance(decided(engine, nominated("p", "a")), Failed)
    assert not engine.nominations


@pytest.mark.parametrize("how", ["at once", "held", "held for too long"])
def test_what_a_rejected_pod_gives_back_is_no_news_for_itself(how: str) -> None:
    """Though its rejector names no events, so that every other one calls it."""
    engine = engine_of(Recorder("Gang", permit=unschedulable_status("no") if how == "at once" else WAIT))
    decided(engine, pod("p"))
    if how == "held":
        assert engine.reject("p", "Gang", "no", 1) is not None
    elif how == "held for too long":
        assert len(engine.tick(61)) == 1
    engine.tick(200)
    assert engine.schedule(200) is None
    engine.set_node(node("b"), 201)
    assert engine.schedule(201) is not None
