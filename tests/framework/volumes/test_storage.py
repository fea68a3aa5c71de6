from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.plugin_api.changes import discard, store
from situate.framework.plugin_api.events import Change, Subject
from situate.framework.volumes.persistent_map import PersistentMap
from situate.framework.volumes.storage import (
    EMPTY_STORAGE,
    ClaimToProvision,
    Promises,
    Reservation,
    ReservedVolume,
    Storage,
)
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageObject,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from tests.framework.volumes.objects import NAMESPACE, claim, storage_class, volume


def content(storage: Storage) -> dict[str, object]:
    """As plain dicts, however deep."""

    def plain(value: object) -> object:
        return {key: plain(each) for key, each in value.items()} if isinstance(value, PersistentMap) else value

    return {field.name: plain(getattr(storage, field.name)) for field in fields(Storage) if field.name != "promises"}


NAMES = st.sampled_from("abcd")
OBJECTS: st.SearchStrategy[StorageObject] = st.one_of(
    st.builds(lambda name, version: claim(name, version=version), NAMES, NAMES),
    st.builds(
        lambda name, size, kind, owner, version: volume(
            name, size=f"{size}Gi", storage_class=kind, claimed_by=owner, version=version
        ),
        NAMES,
        st.integers(1, 3),
        NAMES,
        st.sampled_from(("", "", "a", "b")),
        NAMES,
    ),
    st.builds(storage_class, NAMES),
    st.builds(lambda name: CSINode(ObjectMeta(name=name)), NAMES),
    st.builds(lambda name: CSIDriver(ObjectMeta(name=name)), NAMES),
    st.builds(lambda name, kind: CSIStorageCapacity(ObjectMeta(name=f"{name}{kind}"), None, kind), NAMES, NAMES),
    st.builds(
        lambda name, node: VolumeAttachment(ObjectMeta(name=f"{name}{node}"), VolumeAttachmentSpec("driver", node)),
        NAMES,
        NAMES,
    ),
)


@given(st.lists(st.tuples(OBJECTS, st.booleans())))
def test_step_by_step_is_the_same_as_all_at_once(steps: list[tuple[StorageObject, bool]]) -> None:
    storage = EMPTY_STORAGE
    left: dict[tuple[type, str], StorageObject] = {}
    for each, stays in steps:
        before = storage.stored_object(each)
        assert before == left.get((type(each), each.metadata.name))
        if stays:
            storage = storage.with_object(each)
            left[type(each), each.metadata.name] = each
        else:
            storage = storage.without_object(each)
            left.pop((type(each), each.metadata.name), None)
    assert content(storage) == content(Storage.from_objects(left.values()))


def test_free_volumes_are_in_the_order_of_their_size() -> None:
    volumes = [volume("c", size="2Gi"), volume("a", size="10Gi"), volume("b", size="2Gi"), volume("d", claimed_by="x")]
    assert [each.metadata.name for each in Storage.from_objects(volumes).unclaimed["local"]] == ["b", "c", "a"]


CLAIM, VOLUME = claim("mine"), volume("v")
GIVEN = Reservation(given=(ReservedVolume(volume("v", claimed_by="mine"), CLAIM, write=True),))
WANTED = Reservation(wanted=(ClaimToProvision(claim("mine", selected="node"), write=True),))
KNOWN = Storage.from_objects([CLAIM, VOLUME])


def test_a_promised_volume_is_seen_with_its_claim() -> None:
    storage = KNOWN.with_promises(Promises().with_reservation("pod", GIVEN))
    seen = storage.volume("v")
    assert seen is not None
    assert seen.is_for(CLAIM)
    assert storage.volumes_for(CLAIM) == [seen]
    assert storage.volumes["v"] is VOLUME
    assert storage.reservation("pod") is GIVEN


def test_a_promised_claim_is_seen_with_its_node() -> None:
    seen = KNOWN.with_promises(Promises().with_reservation("pod", WANTED)).claim(NAMESPACE, "mine")
    assert seen is not None
    assert seen.selected_node == "node"


def test_a_newer_object_counts_more_than_a_promise_about_an_older_one() -> None:
    storage = KNOWN.with_promises(Promises().with_reservation("one", GIVEN).with_reservation("other", WANTED))
    storage = storage.with_object(volume("v", version="2")).with_object(claim("mine", version="2"))
    assert storage.volume("v") == volume("v", version="2")
    assert storage.claim(NAMESPACE, "mine") == claim("mine", version="2")
    assert storage.volumes_for(CLAIM) == []


def test_a_promise_about_what_is_gone_makes_nothing() -> None:
    storage = (
        KNOWN.with_promises(Promises().with_reservation("one", GIVEN).with_reservation("other", WANTED))
        .without_object(VOLUME)
        .without_object(CLAIM)
    )
    assert storage.volume("v") is None
    assert storage.claim(NAMESPACE, "mine") is None
    assert storage.volumes_for(CLAIM) == []


def test_a_volume_stays_promised_while_one_of_two_pods_of_its_claim_is_left() -> None:
    promises = Promises().with_reservation("one", GIVEN).with_reservation("two", GIVEN)
    left = KNOWN.with_promises(promises.without_reservation("one"))
    assert left.volumes_for(CLAIM)
    assert not KNOWN.with_promises(promises.without_reservation("one").without_reservation("two")).volumes_for(CLAIM)


def test_taking_back_twice_is_taking_back_once_and_a_second_promise_replaces_the_first() -> None:
    promises = Promises().with_reservation("pod", GIVEN).with_reservation("pod", WANTED)
    storage = KNOWN.with_promises(promises)
    assert storage.volume("v") is VOLUME
    once = promises.without_reservation("pod")
    assert once.without_reservation("pod") is once
    assert not once.by_pod
    assert not once.claims
    assert not once.volumes
    assert not once.by_claim


DRIVER, ASKING = CSIDriver(ObjectMeta(name="d")), CSIDriver(ObjectMeta(name="d"), CSIDriverSpec(storage_capacity=True))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(None, CLAIM, (Subject.CLAIM, Change.ADD), id="a new claim"),
        pytest.param(VOLUME, volume("v", size="2Gi", version="2"), (Subject.VOLUME, Change.UPDATE), id="it has grown"),
        pytest.param(VOLUME, volume("v", version="2"), None, id="only its version is new"),
        pytest.param(DRIVER, ASKING, (Subject.CSI_DRIVER, Change.UPDATE), id="a driver's setting"),
    ],
)
def test_what_the_queue_has_to_hear(
    old: StorageObject | None, new: StorageObject, wanted: tuple[Subject, Change] | None
) -> None:
    storage = Storage.from_objects([old] if old is not None else [])
    after, events = store(storage, new)
    assert after.stored_object(new) is new
    assert [(event.subject, event.change) for event in events] == ([wanted] if wanted else [])
    assert all((event.old, event.new) == (old, new) for event in events)


def test_what_is_gone_is_told_once() -> None:
    after, events = discard(KNOWN, volume("v", version="9"))
    assert [(event.subject, event.change, event.old, event.new) for event in events] == [
        (Subject.VOLUME, Change.DELETE, VOLUME, None)
    ]
    assert discard(after, VOLUME) == (after, ())


def test_the_kinds_are_told_apart() -> None:
    same = [each(ObjectMeta(name="x")) for each in (PersistentVolume, PersistentVolumeClaim, CSINode, CSIDriver)]
    storage = Storage.from_objects(same)
    assert [storage.stored_object(each) for each in same] == same
