"""What a supervisor has to do with: mistakes are named, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.resources import unstructured
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.model.supervisor_config import BadConfiguration
from situate.sharding.supervisor.scope import Scope

REPORTS = unstructured("batch.example.com", "v1", "Report", "reports")


def scope(**said: Any) -> Scope:
    return Scope(REPORTS, ExecutorWatch("app=reports"), said.pop("identity", "me"), "system", **said)


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"partition_table": "table"}, 'partition is "", allowed with a partition table: numbers from 0 to 4095'),
        ({"partition_table": "table", "partition": "4096"}, "numbers from 0 to 4095"),
        ({"partition_table": "table", "partition": "1-of-4"}, "numbers from 0 to 4095"),
        ({"shares": {"team": 0}}, "shares.team is 0, allowed: numbers above 0"),
        ({"shares": {"team": True}}, "shares.team is true"),
        ({"shares": {"team": float("nan")}}, "shares.team is"),
        ({"identity": ""}, "identity is empty"),
        ({"pool": "A"}, 'pool is "A"'),
        ({"write_concurrency": 0}, "write_concurrency is 0"),
        ({"archive_propagation": "Later"}, "Background, Foreground, Orphan"),
    ],
)
def test_mistakes_are_named(said: dict[str, Any], names: str) -> None:
    with pytest.raises(BadConfiguration) as found:
        scope(**said)
    assert names in str(found.value)


@pytest.mark.rule("sharding:K10")
def test_each_partition_has_a_lease_of_its_own() -> None:
    leases = {scope(partition=each).lease for each in ("", "0", "1")}
    assert {lease.name for lease in leases} == {
        "reports.batch.example.com.default.supervisor",
        "reports.batch.example.com.default.0.supervisor",
        "reports.batch.example.com.default.1.supervisor",
    }
