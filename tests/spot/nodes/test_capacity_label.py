"""The label of the note on nodes that say the same otherwise (P34)."""

from __future__ import annotations

import pytest

from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL
from situate.spot.nodes.capacity_label import capacity_patch
from situate.spot.nodes.known_signals import SIGNALS
from tests.spot.builders import node


@pytest.mark.rule("spot:P34")
@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({"karpenter.sh/capacity-type": "reserved"}, "on-demand"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"karpenter.sh/capacity-type": "on-demand", "eks.amazonaws.com/capacityType": "SPOT"}, "spot"),
        ({}, None),
        ({CAPACITY_LABEL: "on-demand"}, None),
        ({CAPACITY_LABEL: "cheap", "karpenter.sh/capacity-type": "spot"}, None),
    ],
)
def test_a_known_capacity_is_written_where_the_label_is_not(labels: dict[str, str], want: str | None) -> None:
    patch = capacity_patch(node(labels=labels), SIGNALS)
    assert (patch and patch["metadata"]["labels"]) == (want and {CAPACITY_LABEL: want})
