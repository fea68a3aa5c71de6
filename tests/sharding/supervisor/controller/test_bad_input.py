"""What users write into objects, kinds and rules may be wrong: it is said on the object, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import EXECUTOR_SELECTOR, PREFIX, PRIORITY
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import OrphanPolicy, SupervisorConfig
from situate.sharding.strategies import MinScheduled, ObjectFacts, Rules
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorProcess
from situate.testing.sharding.world.reports import REPORTS, report
from situate.testing.sharding.world.supervisor_world import SupervisorWorld
from situate.testing.virtual_time.isolation import suppress_logs

Towns = Callable[..., SupervisorWorld]


async def quick(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
    await asyncio.sleep(1)
    return Outcome.succeeded("Done")


def condition(town: SupervisorWorld, name: str, type_: str = "Assigned") -> dict[str, Any]:
    """Empty if there is none."""
    conditions = town.get(name).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == type_), {})


def told(town: SupervisorWorld, name: str) -> set[str]:
    """Reasons of the Events about it."""
    events = town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
    return {each["reason"] for each in events if each["involvedObject"]["name"] == name}


def others_go_on(town: SupervisorWorld) -> None:
    town.create("good")
    assert town.run(2, lambda: "good" in town.first_assigned_at)


@pytest.mark.rule("sharding:K6")
@pytest.mark.parametrize(
    ("spec", "status", "names"),
    [
        ({"assignedTo": 7}, {}, "spec.assignedTo is 7"),
        ({"assignedTo": {"name": "a"}}, {}, "spec.assignedTo is"),
        ({}, {"completedAt": True}, "status.completedAt is true"),
        ({}, {"completedAt": "yesterday"}, 'status.completedAt is "yesterday"'),
        ({}, {"completedAt": {"time": 1}}, "status.completedAt is"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_on_the_object(
    town: SupervisorWorld, spec: dict[str, Any], status: dict[str, Any], names: str
) -> None:
    town.create_executor("a")
    town.start_supervisor()
    town.run(5)
    path = REPORTS.path(NAMESPACE, "bad")
    made = town.call("POST", REPORTS.path(NAMESPACE), report("bad", **spec))
    if status:
        town.call("PUT", f"{path}/status", made | {"status": status})
    assert town.run(10, lambda: names in condition(town, "bad").get("message", ""))
    assert condition(town, "bad")["reason"] == "Quarantined"
    assert town.run(5, lambda: "Unreadable" in told(town, "bad"))
    others_go_on(town)
    assert "bad" not in town.first_assigned_at
    found = town.get("bad")
    found["spec"].pop("assignedTo", None)
    town.call("PUT", path, found)
    found = town.get("bad")
    found["status"].pop("completedAt", None)
    town.call("PUT", f"{path}/status", found)
    assert town.run(5, lambda: town.view("bad").executor == "a"), "it is corrected"


@pytest.mark.rule("sharding:K6", "sharding:L4")
@pytest.mark.parametrize(
    ("annotations", "status", "names"),
    [
        ({}, {"completedAt": "2020-01-01T00:00:00Z", "successful": "yes"}, 'status.successful is "yes"'),
        ({}, {"completedAt": "2020-01-01T00:00:00Z", "reason": ["Done"]}, "status.reason is"),
        ({PREFIX + "assigned-at": "noon"}, {"completedAt": "2020-01-01T00:00:00Z"}, "assigned-at is"),
        ({PRIORITY: "high"}, {"completedAt": "2020-01-01T00:00:00Z"}, "priority is"),
    ],
)
def test_what_only_tells_is_named_on_the_object_and_holds_up_nothing(
    town_of: Towns, annotations: dict[str, str], status: dict[str, Any], names: str
) -> None:
    town = town_of(archive=True, archive_ttl=5.0)
    town.create_executor("a")
    town.start_supervisor()
    town.run(5)
    made = report("bad")
    made["metadata"]["annotations"] = annotations
    made = town.call("POST", REPORTS.path(NAMESPACE), made)
    town.call("PUT", f"{REPORTS.path(NAMESPACE, 'bad')}/status", made | {"status": status})
    assert town.run(5, lambda: "Ignored" in told(town, "bad"))
    events = town.call("GET", f"/api/v1/namespaces/{NAMESPACE}/events")["items"]
    assert [each["message"] for each in events if each["reason"] == "Ignored" and names in each["message"]]
    others_go_on(town)
    assert town.run(15, lambda: not town.exists("bad"))
    kept = town.archived_record(made["metadata"]["uid"])
    assert kept is not None
    assert (kept.object["status"], kept.successful) == (status, None)


class Odd(MinScheduled):
    """A strategy of a user's."""

    def choose_executor(self, obj: ObjectFacts) -> str:
        match obj.name:
            case "raises":
                raise ZeroDivisionError("a bad day")
            case "nobody":
                return None  # type: ignore[return-value]  # what the test is about
            case "stranger":
                return "nobody-of-that-name"
        return super().choose_executor(obj)


@pytest.mark.rule("sharding:K7")
@pytest.mark.parametrize(
    ("name", "said"),
    [("raises", "a bad day"), ("nobody", "the strategy named None"), ("stranger", "nobody-of-that-name")],
)
def test_a_strategy_that_raises_or_names_nobody_is_named_on_the_object(
    town: SupervisorWorld, name: str, said: str
) -> None:
    town.create_executor("a")
    town.start_supervisor(strategy=Odd())
    town.run(5)
    town.create(name)
    assert town.run(10, lambda: said in condition(town, name).get("message", ""))
    assert condition(town, name)["reason"] == "NoHealthyExecutors"
    others_go_on(town)
    assert name not in town.first_assigned_at


@pytest.mark.rule("sharding:B16", "sharding:B11")
def test_a_selector_that_suits_nobody_is_named_on_the_object(town: SupervisorWorld) -> None:
    town.create_executor("a")
    town.start_supervisor()
    town.run(5)
    for name, selector in (("none", "zone=moon"), ("bad", "zone in moon")):
        made = report(name)
        town.call(
            "POST",
            REPORTS.path(NAMESPACE),
            made | {"metadata": made["metadata"] | {"annotations": {EXECUTOR_SELECTOR: selector}}},
        )
        assert town.run(10, lambda: selector in condition(town, name).get("message", "")), condition(town, name)  # noqa: B023  # asked at once
    others_go_on(town)


@pytest.mark.parametrize("rule", ["is_ready", "archive_when", "filter"])
def test_a_rule_that_raises_is_named_on_the_object(town_of: Towns, rule: str) -> None:
    def fails(view: ObjectView) -> bool:
        return bool(view.content["spec"]["flag"]) if view.name == "bad" else True

    def filters(obj: ObjectFacts, _: object) -> str | None:
        return "no" if obj.name == "bad" and obj.content["spec"]["flag"] else None

    hooks = {} if rule == "filter" else {rule: fails}
    town = town_of(archive=True, archive_ttl=5.0, **hooks)
    town.create_executor("a", quick)
    town.start_supervisor(rules=Rules(filters=(filters,)) if rule == "filter" else None)
    town.run(5)
    town.create("bad")
    type_ = "ArchiveFailed" if rule == "archive_when" else "Assigned"
    assert town.run(15, lambda: "flag" in condition(town, "bad", type_).get("message", "")), town.get("bad")
    others_go_on(town)
    assert town.run(15, lambda: not town.exists("good")), "it is archived"
    assert town.exists("bad")


@pytest.mark.rule("sharding:K8")
@pytest.mark.parametrize("told_so", [True, False])
def test_a_kind_without_status_subresource(told_so: bool) -> None:
    """Who has not said that there is none hears of it; the work goes on without what cannot be written."""
    with suppress_logs():
        town = SupervisorWorld(SupervisorConfig(orphan_policy=OrphanPolicy.FAIL), status_subresource=False)
        try:
            town.start_supervisor(status_subresource=not told_so)
            town.create("early")
            if told_so:
                assert town.run(10, lambda: condition(town, "early").get("reason") == "NoExecutors")
            else:
                assert town.run(10, lambda: "ConditionNotWritten" in told(town, "early"))
            member = town.create_executor("a", status_subresource=False)
            assert town.run(5, lambda: town.view("early").executor == "a")
            others_go_on(town)
            member.crash()
            town.write_pod_status("a", terminated=True)
            if told_so:
                assert town.run(5, lambda: town.view("early").reason == "ExecutorLost")
            else:
                assert town.run(30, lambda: "WriteRefused" in told(town, "early"))
                assert town.view("early").executor == "a", "it can neither be failed nor is it forgotten"
        finally:
            town.close()


@pytest.mark.rule("sharding:X13", "sharding:L1")
def test_a_full_table_of_executors_keeps_what_waits(town: SupervisorWorld) -> None:
    """So many executors, all of them full; and then there is room for all."""
    for number in range(12):
        town.create_executor(f"e{number}", capacity=1)
    town.start_supervisor()
    town.run(5)
    for number in range(20):
        town.create(f"r-{number}")
    town.run(5)
    waiting = [view.name for view in town.views() if view.holder is None]
    assert len(waiting) == 8
    assert {condition(town, name)["reason"] for name in waiting} == {"NoCapacity"}
    town.create_executor("big")
    assert town.run(2, lambda: len(town.first_assigned_at) == 20)
