from __future__ import annotations

from typing import Any

import msgspec
import pytest

from situate.objects.decoding.codec import decode
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim
from situate.objects.resources import (
    CSINODES,
    CSISTORAGECAPACITIES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODS,
    STORAGECLASSES,
)


def claim(**fields: Any) -> PersistentVolumeClaim:
    return decode(PERSISTENTVOLUMECLAIMS, msgspec.json.encode(fields))


def volume(**fields: Any) -> PersistentVolume:
    return decode(PERSISTENTVOLUMES, msgspec.json.encode(fields))


def test_the_class_is_that_of_the_annotation_before_that_of_the_field() -> None:
    old = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    assert claim(metadata=old, spec={"storageClassName": "new"}).storage_class == "old"
    assert volume(metadata=old, spec={"storageClassName": "new"}).storage_class == "old"
    assert claim(spec={"storageClassName": "new"}).storage_class == "new"
    assert claim().storage_class == volume().storage_class == ""


def test_a_claim_is_bound_for_good_once_the_controller_says_so() -> None:
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    assert claim(metadata=done, spec={"volumeName": "v"}).fully_bound
    assert not claim(spec={"volumeName": "v"}).fully_bound
    assert not claim(metadata=done).fully_bound


MINE = claim(metadata={"namespace": "ns", "name": "mine", "uid": "1"})


@pytest.mark.parametrize(
    ("ref", "whether"),
    [
        pytest.param(None, False, id="nobody's"),
        pytest.param({"namespace": "ns", "name": "mine"}, True, id="meant for the name"),
        pytest.param({"namespace": "ns", "name": "mine", "uid": "1"}, True, id="bound"),
        pytest.param(
            {"namespace": "ns", "name": "mine", "uid": "2"}, False, id="bound to an earlier claim of that name"
        ),
        pytest.param({"namespace": "other", "name": "mine"}, False, id="of another namespace"),
        pytest.param({"namespace": "ns", "name": "other"}, False, id="of another name"),
    ],
)
def test_whose_a_volume_is(ref: dict[str, str] | None, whether: bool) -> None:
    assert volume(spec={"claimRef": ref} if ref else {}).is_for(MINE) is whether


def test_sizes_and_limits_are_read_where_they_are_named() -> None:
    assert claim().requested_storage is None
    assert str(claim(spec={"resources": {"requests": {"storage": "5Gi"}}}).requested_storage) == "5Gi"
    assert volume().size.value == 0
    assert volume(spec={"capacity": {"storage": "1Ki"}}).size.value == 1024
    node = decode(
        CSINODES,
        b'{"metadata":{"annotations":{"storage.alpha.kubernetes.io/migrated-plugins":"kubernetes.io/gce-pd,x"}},'
        b'"spec":{"drivers":[{"name":"a","allocatable":{"count":3}},{"name":"b"},{"name":"c","allocatable":{}}]}}',
    )
    assert node.limits == {"a": 3}
    assert node.migrated_plugins == {"kubernetes.io/gce-pd", "x"}
    assert decode(CSINODES, b"{}").migrated_plugins == frozenset()
    room = decode(CSISTORAGECAPACITIES, b'{"capacity":"10Gi","maximumVolumeSize":"2Gi"}')
    assert str(room.largest_volume) == "2Gi"
    assert str(decode(CSISTORAGECAPACITIES, b'{"capacity":"10Gi"}').largest_volume) == "10Gi"
    assert decode(CSISTORAGECAPACITIES, b"{}").largest_volume is None
    assert decode(STORAGECLASSES, b'{"provisioner":"p"}').volume_binding_mode is None


def test_volumes_that_decide_nothing_are_not_kept() -> None:
    pod = decode(
        PODS,
        b'{"spec":{"volumes":[{"name":"token","projected":{}},{"name":"data","persistentVolumeClaim":{"claimName":"c"}},'
        b'{"name":"files","image":{"reference":"r"}},{"name":"settings","configMap":{"name":"m"}}],'
        b'"resourceClaims":[{"name":"gpu","resourceClaimName":"g"}]}}',
    )
    assert [each.name for each in pod.spec.volumes] == ["data", "files"]
    assert [each.name for each in pod.spec.resource_claims] == ["gpu"]
