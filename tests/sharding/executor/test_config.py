"""Every mistake in an executor's configuration is named, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.next_step import HandlerRetries
from situate.sharding.leases.membership import BadLeaseTimes, LeaseTimes
from situate.sharding.model.supervisor_config import BadConfiguration
from situate.testing.sharding.world.reports import REPORTS

POD = ExecutorIdentity("reports-0", "shop", "0f4f8a3c-aaaa")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concurrency": 0}, "concurrency is 0, allowed: whole numbers from 1"),
        ({"concurrency": True}, "concurrency is true, allowed: whole numbers from 1"),
        ({"max_handler_failures": 0}, "max_handler_failures is 0, allowed: whole numbers from 1"),
        ({"capacity": -1.0}, "capacity is -1.0, allowed: a number from 0"),
        ({"progress_timeout": float("nan")}, "allowed: a number above 0"),
        ({"stall_limit": 10.0}, "stall_limit is 10, allowed: less than renew_deadline_s 10"),
        ({"pool": ""}, "pool is "),
        ({"pool": "Batch"}, "allowed: at most 63 of a to z"),
        ({"pool": 7}, "pool is 7"),
        ({"partition": "a/b"}, 'partition is "a/b", allowed: a label value'),
        ({"retries": HandlerRetries(0.0)}, "retries.initial_s is 0.0, allowed: a number above 0"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        ExecutorConfig(REPORTS, **given)
    assert said in str(caught.value)


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(BadConfiguration) as caught:
        ExecutorConfig(REPORTS, concurrency=0, pool="")
    assert "concurrency" in str(caught.value)
    assert "pool" in str(caught.value)


@pytest.mark.rule("sharding:S1")
def test_a_lease_that_could_run_out_while_work_goes_on_is_refused() -> None:
    with pytest.raises(BadLeaseTimes, match="an executor could still work"):
        ExecutorConfig(REPORTS, times=LeaseTimes(renew_deadline_s=12.0))


@pytest.mark.rule("sharding:K6")
def test_who_an_executor_is() -> None:
    assert POD.id == "reports-0"
    assert ExecutorIdentity("reports-0", "shop", "u", one_namespace=False).id == "shop/reports-0"
    assert ExecutorConfig(REPORTS).lease_name(POD) == "default.reports-0.0f4f8a3c"
    with pytest.raises(BadConfiguration, match="the executor's namespace, uid must not be empty; set POD_NAME"):
        ExecutorIdentity("reports-0", "", "")


@pytest.mark.rule("sharding:B8")
def test_only_its_own_objects_are_watched() -> None:
    assert ExecutorConfig(REPORTS).selectors("reports-0") == ("sharding.situate.dev/executor=reports-0", "")
    label, _ = ExecutorConfig(REPORTS).selectors("shop/reports-0")
    assert label.startswith("sharding.situate.dev/executor=")
    assert len(label.partition("=")[2]) == 32
    by_field = ExecutorConfig(REPORTS, assigned_field="spec.assignedTo")
    assert by_field.selectors("shop/reports-0") == ("", "spec.assignedTo=shop/reports-0")
