"""What a supervisor keeps of each object."""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

import pytest

from situate.objects.kinds.unstructured import Unstructured, unstructured_from
from situate.sharding.model.object_view import view_of
from situate.sharding.partitions.partitions import EVERYTHING, static_partition
from situate.sharding.supervisor.controller.observe.trimmed_objects import TrimmedObjects, trim_object
from situate.testing.sharding.world.reports import PATHS, report


def test_all_is_kept_but_managed_fields() -> None:
    content = report("r", note='"managedFields"')
    content["metadata"] |= {"uid": "u", "resourceVersion": "7", "namespace": "shop", "labels": {"a": "é"}}
    full = content | {"metadata": content["metadata"] | {"managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}]}}
    found = trim_object(unstructured_from(full))
    assert found.content == content
    assert (found.metadata.uid, found.metadata.resource_version) == ("u", "7")
    assert not found.metadata.labels


def test_a_store_keeps_each_object_so() -> None:
    store = TrimmedObjects("reports")
    store.replace([unstructured_from(report("r") | {"metadata": {"name": "r", "managedFields": []}})])
    (held,) = store.list()
    assert "managedFields" not in held.content["metadata"]
    assert view_of(held.content, PATHS, held.raw).content == held.content


def numbered(count: int) -> list[Unstructured]:
    found = []
    for number in range(count):
        made = report(f"r{number}")
        uid = str(uuid5(NAMESPACE_OID, str(number)))
        found.append(unstructured_from(made | {"metadata": made["metadata"] | {"uid": uid, "resourceVersion": "7"}}))
    return found


def whole(store: TrimmedObjects) -> set[str]:
    return {each.metadata.name for each in store.list() if each.content}


@pytest.mark.rule("sharding:K10")
def test_what_becomes_anothers_is_let_go_and_what_becomes_ours_is_not_known_until_it_is_listed() -> None:
    objects = numbered(40)
    first, second = (
        {each.metadata.name for each in objects if static_partition(index, 2).holds(each.metadata)} for index in (0, 1)
    )
    assert first
    assert second
    store = TrimmedObjects("reports")
    store.replace(objects)
    store.restrict_to(static_partition(0, 2))
    assert whole(store) == first
    assert {each.metadata.name for each in store.list()} == first | second
    late = [*map(store.get, sorted(first | second))]
    store.restrict_to(EVERYTHING)
    assert {each.metadata.name for each in store.list()} == first, "nothing is known of the others, not even that"
    store.replace([each for each in late if each is not None])
    assert whole(store) == {each.metadata.name for each in store.list()} == first, "what was begun before tells nothing"
    store.replace(objects)
    assert whole(store) == first | second
