"""Units of work as custom resources and as a Job each, on a real control plane with nodes (sharding B15)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.shard_jobs import as_jobs, as_units
from bench.shard_place import reached

from tests.e2e.vpod_cluster import Cluster

COUNT = 6


@pytest.mark.slow
@pytest.mark.rule("sharding:B15", "sharding:K2")
async def test_units_need_half_of_the_writes_and_of_the_objects_that_jobs_need_or_less(
    spot_cluster: Cluster, tmp_path: Path
) -> None:
    target = reached(spot_cluster.plane)
    ours = await as_units(target, tmp_path, COUNT)
    jobs = await as_jobs(target, tmp_path, COUNT, nodes=0)
    # others may still write pods and events of earlier tests on this server, but never units
    of_units = {name: writes for name, writes in ours["by_resource"].items() if name.startswith("units")}
    assert of_units == {"units": 2 * COUNT, "units/status": COUNT}, "created, assigned, completed"
    assert ours["objects"] == COUNT
    by_resource = jobs["by_resource"]
    assert by_resource["jobs"] >= COUNT
    assert by_resource["pods/binding"] >= COUNT
    assert jobs["writes"] >= 2 * sum(of_units.values()), by_resource
    assert jobs["objects"] >= 2 * COUNT, "a Job and its pod at least; Events may come late"
