"""Bodies as Go clients send them, built here by hand: tag, length, bytes."""

from __future__ import annotations

import json

import pytest

from situate.cluster.apiserver import protobuf
from situate.cluster.errors.field_errors import Refused
from tests.cluster.asking import MAPS, Cluster


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def part(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def envelope(api_version: str, kind: str, *message: bytes) -> bytes:
    return b"k8s\x00" + part(1, part(1, api_version) + part(2, kind)) + part(2, b"".join(message)) + part(4, "")


def read(body: bytes) -> object:
    found = protobuf.to_json(body)
    assert not isinstance(found, Refused), found
    return json.loads(found)


METADATA = part(1, part(1, "c") + part(8, b"") + part(11, part(1, "app") + part(2, "a")))


def test_maps_and_metadata() -> None:
    body = envelope(
        "v1", "ConfigMap", METADATA, part(2, part(1, "k") + part(2, "v")), part(3, part(1, "b") + part(2, b"\xff"))
    )
    assert read(body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "labels": {"app": "a"}},
        "data": {"k": "v"},
        "binaryData": {"b": "/w=="},
    }


def test_what_go_holds_inside_is_shown_inside_and_special_types_as_json_has_them() -> None:
    volume = part(1, "v") + part(2, part(2, part(1, "m")))
    request = part(2, part(1, "cpu") + part(2, part(1, "100m")))
    port = part(2, part(1, "/x") + part(2, part(1, 1) + part(3, "http")))
    container = part(1, "c") + part(8, request) + part(10, part(1, port) + part(2, 7))
    spec = part(1, volume) + part(2, container) + part(4, 30) + part(5, -1) + part(11, 1)
    assert read(envelope("v1", "Pod", METADATA, part(2, spec))) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "c", "labels": {"app": "a"}},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {"medium": "m"}}],
            "containers": [
                {
                    "name": "c",
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"path": "/x", "port": "http"}, "initialDelaySeconds": 7},
                }
            ],
            "terminationGracePeriodSeconds": 30,
            "activeDeadlineSeconds": -1,
            "hostNetwork": True,
        },
    }


def test_times() -> None:
    spec = part(1, "me") + part(3, part(1, 1_700_000_000) + part(2, 5_000))
    lease = read(envelope("coordination.k8s.io/v1", "Lease", METADATA, part(2, spec)))
    assert lease["spec"] == {"holderIdentity": "me", "acquireTime": "2023-11-14T22:13:20.000005Z"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"{}", "does not appear to be a protobuf message", id="no envelope"),
        pytest.param(envelope("x.io/v1", "Foo"), "does not read Foo in x.io/v1 from protobuf; send JSON", id="unknown"),
        pytest.param(envelope("v1", "Pod", b"\x12\x7f"), "it ends too early", id="torn"),
        pytest.param(envelope("v1", "Pod", b"\x13"), "wire type 3", id="group"),
        pytest.param(envelope("v1", "Pod", b"\xff" * 12), "a number is too long", id="endless"),
        pytest.param(envelope("v1", "Pod", part(2, 5)), "a number stands where bytes should be", id="wrong type"),
    ],
)
def test_bad_bodies_are_refused(body: bytes, text: str) -> None:
    refused = protobuf.to_json(body)
    assert isinstance(refused, Refused)
    assert refused.code == 400
    assert text in refused.message


def test_a_server_reads_it() -> None:
    cluster = Cluster()
    body = envelope("v1", "ConfigMap", METADATA, part(2, part(1, "k") + part(2, "v")))
    made = cluster.ask("POST", MAPS, body, media=protobuf.MEDIA_TYPE).ok(201)
    assert made["data"] == {"k": "v"}
    assert cluster.ask("POST", MAPS, b"k8s\x00\x0a\x7f", media=protobuf.MEDIA_TYPE).code == 400
