from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.archive.records.record import (
    BadRecord,
    ByName,
    ByUid,
    GroupKind,
    Record,
    encode_record,
    parse_record,
    record_of,
)
from tests.archive.reports import KIND, NOON, archived, report

pytestmark = pytest.mark.rule("sharding:K16")


def test_the_record_is_the_json_of_the_reference() -> None:
    content = report("nightly", "ns1", "u1", 10, {"app": "x"}, owner="o1", size=1)
    record = archived(content, reason="Done", term=3)
    raw = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    wire = {
        "apiVersion": "archive.situate.dev/v1",
        "kind": "Record",
        "subject": {
            "group": "batch.example.com",
            "version": "v1",
            "kind": "Report",
            "resource": "reports",
            "namespace": "ns1",
            "name": "nightly",
            "uid": "u1",
            "resourceVersion": "10",
            "ownerUid": "o1",
            "labels": {"app": "x"},
        },
        "completedAt": "2026-01-31T11:59:00.000000Z",
        "successful": True,
        "reason": "Done",
        "archivedAt": "2026-01-31T12:00:00.000000Z",
        "term": 3,
        "digest": "sha256:" + hashlib.sha256(raw).hexdigest(),
        "object": content,
    }
    assert encode_record(record) == json.dumps(wire, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(archived(), id="completed"),
        pytest.param(archived(completed_s=None, successful=None), id="deleted before completion"),
        pytest.param(archived(report(namespace="")), id="of the cluster"),
        pytest.param(archived(report(text="ä\u2028\0 😀 \\ \" '")), id="any text in the object"),
        pytest.param(archived(reason="a\0b"), id="any text in the reason"),
        pytest.param(archived(report(n=[1, 1.0, -0.0, 1e300, 1 << 70, None, True])), id="numbers keep their kind"),
    ],
)
def test_what_is_read_is_what_was_written(record: Record) -> None:
    back = parse_record(encode_record(record), "x")
    assert back == record
    assert encode_record(back) == encode_record(record)


def test_keys_say_who_is_meant() -> None:
    key = archived(report("nightly", "ns1", "u1")).subject.key
    assert key == ByUid(KIND, "u1", ("ns1", "nightly"))
    assert str(key) == "Report.batch.example.com ns1/nightly with UID u1"
    assert str(ByName(GroupKind("", "Node"), "", "n1")) == "Node n1"


def edited(**changes: Any) -> bytes:
    """A record with fields set by hand, dotted names with `__`."""
    wire = json.loads(encode_record(archived()))
    for path, value in changes.items():
        *parents, name = path.split("__")
        target = wire
        for parent in parents:
            target = target[parent]
        target[name] = value
    return json.dumps(wire).encode()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(encode_record(archived())[:-5], "", id="torn"),
        pytest.param(b"\0" * 100, "", id="zeros, as a disk leaves them"),
        pytest.param(b"[" * 100_000, "", id="nested without end"),
        pytest.param(b"\xff\xfe{}", "", id="no UTF-8"),
        pytest.param(b"[]", "", id="no map"),
        pytest.param(b'{"term": NaN}', "", id="not a number"),
        pytest.param(b'{"term": ' + b"9" * 5000 + b"}", "", id="a number without end"),
        pytest.param(edited(apiVersion="archive.situate.dev/v2"), "apiVersion", id="of another version"),
        pytest.param(edited(kind="List"), "kind", id="of another kind"),
        pytest.param(edited(object=None), "object", id="no object"),
        pytest.param(edited(object__spec={"size": 123}).replace(b"123", b"1e999"), "object", id="a number too large"),
        pytest.param(edited(object__spec={"size": 2}), "digest", id="the object was edited"),
        pytest.param(edited(digest="sha256:0"), "digest", id="the digest was edited"),
        pytest.param(edited(subject=[]), "subject", id="no subject"),
        pytest.param(edited(subject__name="other"), "subject.name", id="the name was edited"),
        pytest.param(edited(subject__uid="other"), "subject.uid", id="the UID was edited"),
        pytest.param(edited(subject__resourceVersion="9"), "subject.resourceVersion", id="the version was edited"),
        pytest.param(edited(subject__labels={"a": "b"}), "subject.labels", id="the labels were edited"),
        pytest.param(edited(subject__ownerUid="me"), "subject.ownerUid", id="the owner was edited"),
        pytest.param(edited(archivedAt="yesterday"), "archivedAt", id="no time"),
        pytest.param(edited(completedAt=5), "completedAt", id="a number for a time"),
        pytest.param(edited(successful="yes"), "successful", id="no outcome"),
        pytest.param(edited(reason=None), "reason", id="no reason"),
        pytest.param(edited(reason="\ud800"), "reason", id="half a character"),
        pytest.param(edited(term=True), "term", id="no term"),
        pytest.param(edited(term=1 << 63), "term", id="a term too large"),
    ],
)
def test_hostile_bytes_are_refused_by_record_and_field(text: bytes, path: str) -> None:
    with pytest.raises(BadRecord, match=r"^the archive's record ns1/x\.json cannot be used: ") as caught:
        parse_record(text, "ns1/x.json")
    assert (caught.value.record, caught.value.path) == ("ns1/x.json", path)
    assert len(str(caught.value)) < 400


WHOLE = encode_record(archived(report("nightly", "ns1", "u1", labels={"app": "x"}, owner="o1"), reason="Done"))


@given(
    st.integers(0, len(WHOLE)),
    st.integers(0, 3),
    st.binary(max_size=3) | st.sampled_from([b"null", b"{}", b"[]", b'""', b"1e999", b"\\ud800"]),
)
def test_whatever_bytes_are_changed_it_is_refused_or_a_whole_record(place: int, gone: int, put: bytes) -> None:
    try:
        record = parse_record(WHOLE[:place] + put + WHOLE[place + gone :], "x")
    except BadRecord:
        return
    assert parse_record(encode_record(record), "x") == record
    assert record.raw == parse_record(WHOLE, "x").raw, "nobody changes the object and its digest by chance"


@pytest.mark.parametrize(
    ("content", "path"),
    [
        pytest.param({}, "object.kind", id="nothing"),
        pytest.param({**report(), "metadata": "text"}, "object.metadata", id="metadata of another type"),
        pytest.param(report(name="a\0b"), "object.metadata.name", id="a zero byte"),
        pytest.param(report(name="n" * 254), "object.metadata.name", id="too long a name"),
        pytest.param(report(name="\U0001f600" * 64), "object.metadata.name", id="too many bytes"),
        pytest.param(report(name="\ud800"), "object", id="half a character"),
        pytest.param(report(x={1, 2}), "object", id="no JSON"),
        pytest.param(report(x=float("nan")), "object", id="not a number"),
        pytest.param(report(labels={"a": 1}), "object.metadata.labels[a]", id="a label that is no text"),  # type: ignore[dict-item]  # hostile
        pytest.param({**report(), "kind": 5}, "object.kind", id="a kind that is no text"),
    ],
)
def test_what_can_be_no_record_is_refused_for_good(content: dict[str, Any], path: str) -> None:
    with pytest.raises(BadRecord) as caught:
        archived(content)
    assert caught.value.path == path


def test_names_as_long_as_kubernetes_allows_are_fine() -> None:
    record_of(
        report("n" * 253, "m" * 63, "u1", labels={"p" * 253 + "/" + "k" * 63: "v" * 63}),
        resource="reports",
        completed_at=NOON,
        successful=True,
        reason="",
        archived_at=NOON,
        term=0,
    )


@pytest.mark.parametrize(
    ("new", "stored", "replaces"),
    [
        ("11", "10", True),
        ("10", "10", True),
        ("9", "10", False),
        ("99999999999999999999", "1", True),
        ("abc", "10", True),
        ("9", "", True),
        ("9", "¹0", True),
    ],
)
def test_an_older_version_never_takes_the_place_of_a_newer(new: str, stored: str, replaces: bool) -> None:
    assert archived(report(version=new)).replaces(archived(report(version=stored))) is replaces
