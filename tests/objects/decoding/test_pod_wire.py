from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from situate.objects.decoding.codec import changes_decoder, decode
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.objects.values.quantity import decode_quantity


class _Event(msgspec.Struct):
    object: msgspec.Raw


def every_field(info: types.Type, name: str) -> Any:
    """Plain data with a value of its own in every field, so that two fields that change places are noticed."""
    match info:
        case types.StructType():
            return {each.encode_name: every_field(each.type, f"{name}.{each.encode_name}") for each in info.fields}
        case types.UnionType():
            return every_field(next(each for each in info.types if not isinstance(each, types.NoneType)), name)
        case types.VarTupleType() | types.ListType():
            return [every_field(info.item_type, name)]
        case types.DictType():
            return {name: every_field(info.value_type, name)}
        case types.StrType():
            return name
        case types.IntType() | types.CustomType():
            return len(name)
        case types.BoolType():
            return True
        case types.DateTimeType():
            return f"2026-01-01T00:00:{len(name) % 60:02d}Z"
        case types.AnyType():
            return name
        case _:
            raise AssertionError(f"{name}: {info}")


def test_a_pod_is_what_a_plain_decoding_gives() -> None:
    body = msgspec.json.encode(every_field(types.type_info(Pod), "pod"))
    plain = msgspec.json.decode(body, type=Pod, dec_hook=decode_quantity)
    assert plain.spec.volumes
    assert decode(PODS, body) == plain


def test_an_event_shows_the_same_pod_when_its_spec_came_before_and_when_it_did_not() -> None:
    pod = every_field(types.type_info(Pod), "pod")
    changed = {**pod, "spec": {**pod["spec"], "nodeName": "another"}}
    read = changes_decoder(PODS)
    for each in (pod, pod, changed, {"metadata": pod["metadata"]}, pod):
        body = msgspec.json.encode(each)
        plain = msgspec.json.decode(body, type=Pod, dec_hook=decode_quantity)
        assert read([b'{"type":"MODIFIED","object":%b}' % body]) == [("MODIFIED", plain)]


def test_pods_that_wait_share_spec_and_status() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"%b","uid":"%b"},"spec":{"priority":%b},"status":%b}}'
    pending, failed = b'{"phase":"Pending","qosClass":"Burstable"}', b'{"phase":"Failed","qosClass":"Burstable"}'
    kinds = ((b"a", b"7", pending), (b"b", b"7", pending), (b"c", b"7", failed), (b"d", b"8", pending))
    lines = [line % (name, name, priority, status) for name, priority, status in kinds]
    found = [change[1] for change in changes_decoder(PODS)(lines) if change is not None]
    one, other, ended, urgent = found
    assert one.spec is other.spec is ended.spec
    assert one.status is other.status is urgent.status
    assert (urgent.spec.priority, ended.status.phase, ended.status.qos_class) == (8, "Failed", "Burstable")
    for each, body in zip(found, lines, strict=True):
        assert each == msgspec.json.decode(msgspec.json.decode(body, type=_Event).object, type=Pod)


@pytest.mark.parametrize("spec", ['{"priority":"x"}', "[]"])
def test_an_event_with_an_unreadable_spec_is_left_to_the_decoder_that_says_why(spec: str) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a"},"spec":%b}}'
    (before, unreadable, after) = changes_decoder(PODS)([line % b"{}", line % spec.encode(), line % b"{}"])
    assert before is not None
    assert unreadable is None
    assert after == before
