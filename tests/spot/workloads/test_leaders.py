"""Who leads a workload (B45)."""

from __future__ import annotations

import pytest

from situate.spot.model.pods_nodes_workloads import PodKey
from situate.spot.workloads.leaders import leader_uids, lease_keys
from tests.spot.builders import owner, pod

KEY = "spot.situate.dev/leader"


@pytest.mark.rule("spot:B45")
@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("role=primary", {"uid-b"}),
        ("role=secondary", set()),
        ("lease/web", {"uid-a"}),
        ("lease/api", set()),
        ("lease/other", set()),
        ("", set()),
        ("primary", set()),
    ],
)
def test_by_a_label_or_a_lease(said: str, want: set[str]) -> None:
    of = owner(2, annotations={KEY: said})
    given = [pod("a"), pod("b", labels={"role": "primary"})]
    holders = {PodKey("shop", "web"): "a_3f2a", PodKey("shop", "other"): "", PodKey("blog", "api"): "a"}
    assert leader_uids([of], {of.uid: given}, holders) == want
    assert lease_keys([of]) == ({PodKey("shop", said.removeprefix("lease/"))} if said.startswith("lease/") else set())
