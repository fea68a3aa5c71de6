"""Rule by rule whom VolumeRestrictions keeps apart."""

from __future__ import annotations

import pytest

from situate.objects.kinds.pods import Volume
from situate.objects.kinds.storage import StorageObject
from situate.plugins.volume_restrictions import VolumeRestrictions
from tests.framework.volumes.objects import claim, pod, using
from tests.plugins.twins.world import UNSCHEDULABLE, Answer
from tests.plugins.volume_rules import (
    FINE,
    P,
    answers,
    bad,
    ebs,
    gce,
    iscsi,
    placed,
    rbd,
)


@pytest.mark.parametrize(
    ("mine", "theirs", "free"),
    [
        pytest.param(gce(), gce(), False, id="gce"),
        pytest.param(gce(reads=True), gce(), False, id="gce, only one reads"),
        pytest.param(gce(reads=True), gce(reads=True), True, id="gce, both read"),
        pytest.param(gce(), gce("e"), True, id="gce, another disk"),
        pytest.param(ebs(), ebs(), False, id="ebs, whoever reads"),
        pytest.param(ebs(), ebs("vol-2"), True, id="ebs, another volume"),
        pytest.param(iscsi(), iscsi(), False, id="iscsi"),
        pytest.param(iscsi(reads=True), iscsi(reads=True), True, id="iscsi, both read"),
        pytest.param(iscsi(), iscsi("j"), True, id="iscsi, another target"),
        pytest.param(rbd("m", "n"), rbd("n", "o"), False, id="rbd, a monitor in common"),
        pytest.param(rbd("m"), rbd("n"), True, id="rbd, of another cluster"),
        pytest.param(rbd("m"), rbd("m", image="y"), True, id="rbd, another image"),
        pytest.param(rbd("m"), rbd("m", pool="p"), True, id="rbd, another pool"),
        pytest.param(rbd("m", reads=True), rbd("m", reads=True), True, id="rbd, both read"),
        pytest.param(gce(), ebs("d"), True, id="of different kinds"),
    ],
)
def test_disks_that_exclude_each_other(mine: Volume, theirs: Volume, free: bool) -> None:
    found = answers(VolumeRestrictions(), pod("p", mine), pods=(placed("q", "a", theirs),))
    assert found == (FINE if free else bad("a", text="node(s) had no available disk", code=UNSCHEDULABLE))


ONE_POD = claim("mine", volume="v", bound=True, access_modes=("ReadWriteOncePod",))
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@pytest.mark.parametrize(
    ("stored", "other", "wanted"),
    [
        pytest.param(ONE_POD, using("mine"), bad("a", "b", text=IN_USE, code=UNSCHEDULABLE), id="in use"),
        pytest.param(ONE_POD, using("other"), None, id="not in use"),
        pytest.param(claim("mine"), using("mine"), None, id="of another access mode"),
    ],
)
def test_a_claim_for_one_pod(stored: StorageObject, other: Volume, wanted: dict[str, Answer] | None) -> None:
    assert answers(VolumeRestrictions(), P, stored, pods=(placed("q", "b", other),)) == wanted


def test_a_claim_for_one_pod_is_free_in_another_namespace() -> None:
    other = placed("q", "b", using("mine"), namespace="other")
    assert answers(VolumeRestrictions(), P, ONE_POD, pods=(other,)) is None
    assert answers(VolumeRestrictions(), P) == 'persistentvolumeclaim "mine" not found'
