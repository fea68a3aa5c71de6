"""Rule by rule where VolumeZone lets a pod with a bound claim go."""

from __future__ import annotations

import pytest

from situate.objects.kinds.storage import StorageObject
from situate.plugins.volume_zone import VolumeZone
from tests.framework.volumes.objects import claim, ephemeral, pod, storage_class, using, volume
from tests.plugins.twins.world import Answer
from tests.plugins.volume_rules import (
    LOCAL,
    OLD_ZONE,
    REGION,
    ZONE,
    P,
    answers,
    bad,
)

NO_ZONE = "node(s) had no available volume zone"
BOUND = claim("mine", volume="v", bound=True)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        pytest.param((BOUND, volume("v", labels={ZONE: "z1"})), bad("b", text=NO_ZONE), id="a zone"),
        pytest.param((BOUND, volume("v", labels={OLD_ZONE: "z2"})), bad("a", text=NO_ZONE), id="by the old label"),
        pytest.param((BOUND, volume("v", labels={ZONE: "z0 __ z2"})), bad("a", text=NO_ZONE), id="several zones"),
        pytest.param((BOUND, volume("v", labels={REGION: "s"})), bad("a", "b", text=NO_ZONE), id="another region"),
        pytest.param((BOUND, volume("v", labels={ZONE: "z1__"})), None, id="a label that says nothing"),
        pytest.param((BOUND, volume("v")), None, id="no label"),
        pytest.param((), 'persistentvolumeclaim "mine" not found', id="no such claim"),
        pytest.param((BOUND,), 'persistentvolume "v" not found', id="no such volume"),
        pytest.param(
            (claim("mine", storage_class=""),),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="nothing to go by",
        ),
        pytest.param((claim("mine"),), 'storageclass.storage.k8s.io "local" not found', id="no such class"),
        pytest.param(
            (claim("mine"), storage_class(mode=None)),
            'VolumeBindingMode not set for StorageClass "local"',
            id="a class without a mode",
        ),
        pytest.param(
            (claim("mine"), storage_class(mode="Immediate")), "PersistentVolume had no name", id="not bound yet"
        ),
        pytest.param((claim("mine"), LOCAL), None, id="to be bound for the pod"),
    ],
)
def test_volume_zone(stored: tuple[StorageObject, ...], wanted: dict[str, Answer] | str | None) -> None:
    assert answers(VolumeZone(), P, *stored) == wanted


def test_a_claim_without_a_name_is_refused_and_one_of_an_ephemeral_volume_is_not_looked_at() -> None:
    assert answers(VolumeZone(), pod("p", using(""))) == "PersistentVolumeClaim had no name"
    assert answers(VolumeZone(), pod("p", ephemeral("tmp"))) is None
