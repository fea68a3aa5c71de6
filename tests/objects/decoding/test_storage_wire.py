from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from situate.objects.decoding.codec import Malformed, changes_decoder, decode
from situate.objects.kinds.storage import BIND_COMPLETED, READ_ANNOTATIONS, SELECTED_NODE
from situate.objects.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, ResourceType
from situate.objects.values.quantity import decode_quantity
from tests.objects.decoding.test_pod_wire import every_field

RESOURCES = pytest.mark.parametrize("resource", [PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES], ids=lambda each: each.kind)


def whole(resource: ResourceType[Any]) -> Any:
    """With a value of its own in every field that is read."""
    content = every_field(types.type_info(resource.model), "")
    content["metadata"]["annotations"] = {name: f"value of {name}" for name in READ_ANNOTATIONS}
    return content


@RESOURCES
def test_it_is_what_a_plain_decoding_gives(resource: ResourceType[Any]) -> None:
    body = msgspec.json.encode(whole(resource))
    plain = msgspec.json.decode(body, type=resource.model, dec_hook=decode_quantity)
    assert decode(resource, body) == plain
    assert changes_decoder(resource)([b'{"type":"ADDED","object":%b}' % body]) == [("ADDED", plain)]
    assert decode(resource, b"{}") == msgspec.json.decode(b"{}", type=resource.model)


@RESOURCES
def test_equal_parts_are_one_object(resource: ResourceType[Any]) -> None:
    content = whole(resource)
    one = decode(resource, msgspec.json.encode(content))
    content["metadata"]["annotations"]["other"] = "left out"
    other = decode(resource, msgspec.json.encode(content))
    assert other == one
    assert other.metadata.annotations is one.metadata.annotations
    assert other.metadata.labels is one.metadata.labels
    assert other.spec.access_modes is one.spec.access_modes


def test_annotations_that_nobody_reads_are_left_out() -> None:
    body = msgspec.json.encode(
        {"metadata": {"annotations": {BIND_COMPLETED: "yes", SELECTED_NODE: "a", "kubectl": "{...}"}}}
    )
    assert decode(PERSISTENTVOLUMECLAIMS, body).metadata.annotations == {BIND_COMPLETED: "yes", SELECTED_NODE: "a"}


@RESOURCES
def test_what_does_not_decode_is_named(resource: ResourceType[Any]) -> None:
    with pytest.raises(Malformed, match=r"spec\.accessModes"):
        decode(resource, b'{"metadata":{"name":"x"},"spec":{"accessModes":"all"}}')
    with pytest.raises(Malformed, match=r"metadata\.annotations"):
        decode(resource, b'{"metadata":{"name":"x","annotations":[]}}')
