"""Rule by rule what NodeVolumeLimits counts."""

from __future__ import annotations

import pytest

from situate.objects.kinds.pods import (
    AzureDiskSource,
    Pod,
    Volume,
)
from situate.objects.kinds.storage import StorageObject
from situate.plugins.node_volume_limits import NodeVolumeLimits
from tests.framework.volumes.objects import attached, claim, csi_node, ephemeral, pod, storage_class, using, volume
from tests.plugins.twins.world import UNSCHEDULABLE, Answer
from tests.plugins.volume_rules import (
    FINE,
    MADE,
    P,
    answers,
    bad,
    ebs,
    iscsi,
    placed,
)

FULL = "node(s) exceed max volume count"


def bound(name: str, driver: str = "csi", handle: str = "") -> tuple[StorageObject, StorageObject]:
    return claim(name, volume=f"v-{name}", bound=True), volume(
        f"v-{name}", claimed_by=name, driver=driver, handle=handle
    )


ONE_EACH = (csi_node("a", ("csi", 1)), csi_node("b", ("csi", 1)))
OTHER = placed("q", "a", using("other"))
EBS = "ebs.csi.aws.com"


@pytest.mark.parametrize(
    ("new", "stored", "pods", "wanted"),
    [
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine"), *bound("other")),
            (OTHER,),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="full",
        ),
        pytest.param(P, (*bound("mine"), *bound("other")), (OTHER,), None, id="no limits known"),
        pytest.param(P, (*ONE_EACH, *bound("mine", "x"), *bound("other")), (OTHER,), FINE, id="of another driver"),
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine", handle="h"), *bound("other", handle="h")),
            (OTHER,),
            FINE,
            id="the same volume",
        ),
        pytest.param(
            P,
            (*ONE_EACH, *bound("mine"), *bound("other"), attached("v-other", "b")),
            (),
            bad("b", text=FULL, code=UNSCHEDULABLE),
            id="attached without a pod",
        ),
        pytest.param(
            P,
            (csi_node("a", ("csi", 2)), *bound("mine"), *bound("other"), attached("v-other", "a")),
            (OTHER,),
            FINE,
            id="attached for a pod counts once",
        ),
        pytest.param(
            P,
            (csi_node("a", ("made", 0)), MADE, claim("mine", storage_class="made")),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="a volume that will be made",
        ),
        pytest.param(
            P,
            (csi_node("a", (EBS, 0)), storage_class(provisioner="kubernetes.io/aws-ebs"), claim("mine")),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="one that an in-tree provisioner would have made",
        ),
        pytest.param(
            P,
            (csi_node("a", (EBS, 0)), storage_class(provisioner="kubernetes.io/azure-file"), claim("mine")),
            (),
            FINE,
            id="one that is no CSI volume",
        ),
        pytest.param(
            pod("p", ebs()),
            (csi_node("a", (EBS, 0)),),
            (),
            bad("a", text=FULL, code=UNSCHEDULABLE),
            id="an in-tree disk",
        ),
        pytest.param(
            pod("p", ebs("aws://z1/vol-1")),
            (csi_node("a", (EBS, 1)),),
            (placed("q", "a", ebs("vol-1")),),
            FINE,
            id="an in-tree disk by either name",
        ),
        pytest.param(
            P,
            ONE_EACH,
            (),
            bad("a", "b", text='looking up PVC default/mine: persistentvolumeclaim "mine" not found'),
            id="no such claim",
        ),
        pytest.param(pod("p", iscsi()), ONE_EACH, (), None, id="nothing that a driver attaches"),
        pytest.param(
            pod("p", using("odd")), (*ONE_EACH, claim("odd", volume="v", bound=True)), (), FINE, id="its volume is gone"
        ),
    ],
)
def test_node_volume_limits(
    new: Pod, stored: tuple[StorageObject, ...], pods: tuple[Pod, ...], wanted: dict[str, Answer] | None
) -> None:
    assert answers(NodeVolumeLimits(), new, *stored, pods=pods) == wanted


def test_a_disk_that_no_driver_could_find_is_named() -> None:
    wrong = pod("p", Volume("disk", azure_disk=AzureDiskSource("uri", "Dedicated")))
    with pytest.raises(ValueError, match=r"azureDisk.kind: found 'Dedicated', allowed: Managed"):
        answers(NodeVolumeLimits(), wrong, *ONE_EACH)
    assert answers(NodeVolumeLimits(), wrong) is None, "no node has a CSI driver"
    there = placed("q", "a", *wrong.spec.volumes)
    assert answers(NodeVolumeLimits(), P, *ONE_EACH, *bound("mine"), pods=(there,)) == FINE, "nobody else suffers"


def test_a_claim_that_was_made_for_another_pod_is_named() -> None:
    with pytest.raises(Exception, match=r"PVC default/p-tmp was not created for pod default/p \(pod is not owner\)"):
        answers(NodeVolumeLimits(), pod("p", ephemeral("tmp")), *ONE_EACH, claim("p-tmp", owner="other"))
