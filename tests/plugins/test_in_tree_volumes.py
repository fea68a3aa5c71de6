"""In-tree volumes as the CSI drivers see them, by the rules of k8s.io/csi-translation-lib."""

from __future__ import annotations

from typing import Any

import pytest

from situate.framework.pod.node_selection import Term
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    CinderSource,
    CSIInlineSource,
    GCEPersistentDiskSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PortworxSource,
    Volume,
)
from situate.objects.kinds.storage import PersistentVolume, VolumeNodeAffinity
from situate.plugins.in_tree_volumes import BadSource, csi_volume, inline_volume, kind_of, migrated_node_terms
from tests.framework.volumes.objects import volume

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
GCE, EBS = GCEPersistentDiskSource("disk"), AWSElasticBlockStoreSource("vol-1")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"gce_persistent_disk": GCE}, ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk")),
        ({"aws_elastic_block_store": EBS}, ("ebs.csi.aws.com", "vol-1")),
        ({"aws_elastic_block_store": AWSElasticBlockStoreSource("aws://z/vol-2")}, ("ebs.csi.aws.com", "vol-2")),
        ({"aws_elastic_block_store": AWSElasticBlockStoreSource("aws:///vol-2")}, ("ebs.csi.aws.com", "vol-2")),
        ({"cinder": CinderSource("c")}, ("cinder.csi.openstack.org", "c")),
        ({"azure_disk": AzureDiskSource("/uri", "Managed")}, ("disk.csi.azure.com", "/uri")),
        ({"portworx_volume": PortworxSource("p")}, ("pxd.portworx.com", "p")),
        ({"csi": CSIInlineSource("secrets")}, None),
    ],
)
def test_what_drivers_know_a_pods_own_volume_by(source: dict[str, Any], wanted: tuple[str, str] | None) -> None:
    assert inline_volume(Volume("v", **source)) == wanted


@pytest.mark.parametrize(
    ("each", "wanted"),
    [
        pytest.param(volume("v", driver="d", handle="h"), ("d", "h"), id="a CSI volume"),
        pytest.param(volume("v"), None, id="of a kind that no driver attaches"),
        pytest.param(volume("v", aws_elastic_block_store=EBS), ("ebs.csi.aws.com", "vol-1"), id="the same as inline"),
        pytest.param(
            volume("v", gce_persistent_disk=GCE, labels={ZONE: "us-a-1"}),
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a-1/disks/disk"),
            id="a zone",
        ),
        pytest.param(
            volume("v", gce_persistent_disk=GCE, labels={OLD_ZONE: "us-a-1__us-a-2", ZONE: "us-b-1"}),
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-a/disks/disk"),
            id="several zones, by the old label first",
        ),
    ],
)
def test_what_drivers_know_a_persistent_volume_by(each: PersistentVolume, wanted: tuple[str, str] | None) -> None:
    assert csi_volume(each) == wanted


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (volume("v", gce_persistent_disk=GCE, labels={ZONE: "us-a-1__us-b-1"}), "zones of one region"),
        (volume("v", gce_persistent_disk=GCE, labels={ZONE: "here__there"}), "zones of one region"),
        (volume("v", aws_elastic_block_store=AWSElasticBlockStoreSource("aws://z/disk")), "aws://ZONE/vol-ID"),
        (volume("v", azure_disk=AzureDiskSource("uri")), "allowed: Managed"),
    ],
)
def test_what_no_driver_could_find_is_named(each: PersistentVolume, text: str) -> None:
    with pytest.raises(BadSource, match=text):
        csi_volume(each)


def term(*expressions: tuple[str, tuple[str, ...]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(tuple(NodeSelectorRequirement(key, "In", values) for key, values in expressions))


@pytest.mark.parametrize(
    ("terms", "labels", "wanted"),
    [
        pytest.param(None, {}, None, id="everywhere"),
        pytest.param((term((ZONE, ("a",))),), {}, (term((EBS_ZONE, ("a",))),), id="a zone"),
        pytest.param((term((OLD_ZONE, ("a",))),), {}, (term((EBS_ZONE, ("a",))),), id="by the old label"),
        pytest.param(None, {ZONE: "b__a"}, (term((EBS_ZONE, ("a", "b"))),), id="by a label of the volume"),
        pytest.param(
            (term(("rack", ("r",))),),
            {OLD_ZONE: "a"},
            (term(("rack", ("r",)), (EBS_ZONE, ("a",))),),
            id="beside other demands",
        ),
        pytest.param((term((ZONE, ("a",))),), {ZONE: "b"}, (term((EBS_ZONE, ("a",))),), id="demands go before labels"),
        pytest.param(
            (term((OLD_ZONE, ("a",)), (OLD_REGION, ("r",))),),
            {},
            (term((EBS_ZONE, ("a",)), (REGION, ("r",))),),
            id="regions go by the new label",
        ),
        pytest.param((term((REGION, ("r",))),), {}, (term((REGION, ("r",))),), id="a region"),
        pytest.param(None, {ZONE: " __ "}, None, id="a label that says nothing"),
    ],
)
def test_where_a_driver_can_use_a_volume(
    terms: tuple[NodeSelectorTerm, ...] | None,
    labels: dict[str, str],
    wanted: tuple[NodeSelectorTerm, ...] | None,
) -> None:
    affinity = None if terms is None else VolumeNodeAffinity(NodeSelector(terms))
    each = volume("v", aws_elastic_block_store=EBS, labels=labels, affinity=affinity)
    kind = kind_of(each)
    assert kind is not None
    assert migrated_node_terms(each, kind) == (None if wanted is None else tuple(map(Term.from_selector_term, wanted)))


def test_a_csi_volume_is_of_no_in_tree_kind() -> None:
    assert kind_of(volume("v", driver="d")) is None
