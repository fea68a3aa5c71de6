"""What a supervisor keeps of each object."""

from __future__ import annotations

from situate.objects.unstructured import with_content
from situate.sharding.assignment import view_of
from situate.sharding.controller.kept import KeptObjects, kept
from situate.testing.sharding.shipped.reports import PATHS, report


def test_all_is_kept_but_managed_fields() -> None:
    content = report("r", note='"managedFields"')
    content["metadata"] |= {"uid": "u", "resourceVersion": "7", "namespace": "shop", "labels": {"a": "é"}}
    full = content | {"metadata": content["metadata"] | {"managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}]}}
    found = kept(with_content(full))
    assert found.content == content
    assert (found.metadata.uid, found.metadata.resource_version) == ("u", "7")
    assert not found.metadata.labels


def test_a_store_keeps_each_object_so() -> None:
    store = KeptObjects("reports")
    store.replace([with_content(report("r") | {"metadata": {"name": "r", "managedFields": []}})])
    (held,) = store.list()
    assert "managedFields" not in held.content["metadata"]
    assert view_of(held.content, PATHS, held.raw).content == held.content
