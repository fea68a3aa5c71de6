"""What only buckets have: requests cut off one by one, ways from UIDs to keys, servers without conditions, secrets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from urllib.parse import quote

import obstore
import pytest
from aiohttp import web
from obstore.exceptions import BaseError, GenericError, NotFoundError, PermissionDeniedError

from situate.archive.protocol import (
    ArchiveCorrupt,
    ArchiveError,
    ArchiveRefused,
    ArchiveTooLarge,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, encode_record
from situate.archive.stores.s3.archiver import S3Archiver
from situate.archive.stores.s3.keys import record_key, uid_key
from situate.archive.stores.s3.objects import _failure
from situate.archive.stores.s3.settings import S3Settings, keys_for, region_of, settings_of
from situate.archive.stores.s3.signing import AccessKeys
from situate.archive.stores.s3.uploads import ABANDONED, SweepUnsupported, Uploads
from tests.archive.reports import KIND, archived, report
from tests.archive.servers.s3 import REGION, SECRET_KEY, S3Server
from tests.archive.store_fixtures_s3 import S3
from tests.archive.wire import Wire, never, wire_to

pytestmark = [pytest.mark.rule("sharding:K16"), pytest.mark.xdist_group("s3"), pytest.mark.realcluster]

BEFORE = archived(report(version=10, state="before"), at_s=0)
AFTER = archived(report(version=11, state="after"), at_s=1)
RECORD, UID = record_key(AFTER.subject), uid_key(KIND, AFTER.subject.uid)
REQUEST = re.compile(rb"(?:GET|PUT|DELETE|HEAD|POST) ")


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> S3:
    return S3(s3_server, tmp_path)


def keys(bucket: S3) -> list[str]:
    return sorted(entry["path"] for entry in obstore.list(bucket.objects).collect())


def through(wire: Wire, bucket: S3) -> S3Archiver:
    url = bucket.url.replace(quote(bucket.server.endpoint), quote(f"http://127.0.0.1:{wire.port}"))
    return S3Archiver(settings_of(url, {}), timeout_s=30.0)


def from_request(number: int, wire: Wire, *, heard: bool) -> Callable[[], int]:
    """Ends connections at this request and at all later ones; `heard`: the server does what that one says.

    Gives how many requests there were.
    """
    requests: list[bytes] = []

    def is_the_one(piece: bytes) -> bool:
        return len(requests) == number and heard

    def cut(piece: bytes) -> bool:
        if REQUEST.match(piece):
            requests.append(piece)
        return len(requests) >= number and not is_the_one(piece)

    wire.cut, wire.deaf = cut, is_the_one
    return lambda: len(requests)


@pytest.mark.rule("sharding:B9", "sharding:S8")
@pytest.mark.parametrize("heard", [True, False], ids=["stored, answer lost", "not stored"])
@pytest.mark.parametrize("first", [True, False], ids=["first put", "newer version"])
async def test_a_put_cut_off_at_any_request_leaves_old_or_new_and_a_second_put_settles_it(
    bucket: S3, first: bool, heard: bool
) -> None:
    straight = bucket.archiver()
    failures = 0
    async with wire_to(bucket.server.port) as wire:
        for number in count(1):
            await straight.delete(AFTER.subject.key)
            if not first:
                await straight.put(BEFORE)
            archiver = through(wire, bucket)
            requests = from_request(number, wire, heard=heard)
            try:
                await archiver.put(AFTER)
            except ArchiveUnavailable:
                failures += 1
            was_over = requests() < number
            wire.cut = wire.deaf = never
            found = (await straight.search(Query())).records
            assert found in [() if first else (BEFORE,), (AFTER,)], f"cut at request {number}"
            await archiver.put(AFTER)
            assert await straight.get(ByUid(KIND, AFTER.subject.uid)) == AFTER
            assert await straight.search(Query()) == Page((AFTER,))
            assert keys(bucket) == [UID, RECORD]
            if was_over:
                break
    assert failures >= (2 if first else 4)


@pytest.mark.rule("sharding:B9")
async def test_a_delete_cut_off_at_any_request_can_be_repeated(bucket: S3) -> None:
    straight = bucket.archiver()
    async with wire_to(bucket.server.port) as wire:
        for number in count(1):
            await straight.put(AFTER)
            archiver = through(wire, bucket)
            requests = from_request(number, wire, heard=False)
            try:
                await archiver.delete(ByUid(KIND, AFTER.subject.uid))
            except ArchiveUnavailable:
                assert (await straight.search(Query())).records in [(), (AFTER,)]
            was_over = requests() < number
            wire.cut = wire.deaf = never
            await straight.delete(ByUid(KIND, AFTER.subject.uid))
            assert keys(bucket) == []
            with pytest.raises(NotArchived):
                await straight.get(ByUid(KIND, AFTER.subject.uid))
            if was_over:
                return


async def test_records_lie_where_the_reference_says(bucket: S3) -> None:
    await bucket.archiver().put(AFTER)
    assert keys(bucket) == [
        ".uids/batch.example.com_Report/uid-ns1-nightly.json",
        "batch.example.com_Report/ns1/nightly/uid-ns1-nightly.json",
    ]
    assert bytes(obstore.get(bucket.objects, RECORD).bytes()) == encode_record(AFTER)
    assert bytes(obstore.get(bucket.objects, UID).bytes()).decode() == RECORD


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="missing, as after copying records by hand"),
        pytest.param(b"batch.example.com_Report/ns1/other/uid-ns1-nightly.json", id="leads to nothing"),
        pytest.param(b"batch.example.com_Report/ns1/other/another.json", id="leads to another object"),
        pytest.param(b"\xff", id="not ours"),
        pytest.param(b"", id="empty"),
    ],
)
async def test_a_record_is_found_by_uid_whatever_becomes_of_the_way_to_it(bucket: S3, left: bytes | None) -> None:
    archiver = bucket.archiver()
    other = archived(report("other", uid="another"))
    for record in (AFTER, other):
        await archiver.put(record)
    if left is None:
        obstore.delete(bucket.objects, UID)
    else:
        obstore.put(bucket.objects, UID, left)
    assert await archiver.get(ByUid(KIND, AFTER.subject.uid)) == AFTER
    await archiver.put(AFTER)
    assert bytes(obstore.get(bucket.objects, UID).bytes()).decode() == RECORD
    await archiver.delete(ByUid(KIND, AFTER.subject.uid))
    assert await archiver.search(Query()) == Page((other,))


@pytest.mark.rule("sharding:S8")
async def test_a_uid_under_another_name_is_still_one_record(bucket: S3) -> None:
    archiver = bucket.archiver()
    await archiver.put(BEFORE)
    moved = archived(report("moved", uid=BEFORE.subject.uid, version=11))
    await archiver.put(moved)
    assert keys(bucket) == [UID, record_key(moved.subject)]
    for key in (ByUid(KIND, moved.subject.uid), ByName(KIND, "ns1", "moved")):
        assert await archiver.get(key) == moved
    with pytest.raises(NotArchived):
        await archiver.get(ByName(KIND, "ns1", "nightly"))
    obstore.put(bucket.objects, RECORD, encode_record(BEFORE))  # as if the put of `moved` had died before its end
    obstore.put(bucket.objects, UID, RECORD.encode())
    await archiver.put(moved)
    assert keys(bucket) == [UID, record_key(moved.subject)]


async def test_a_copy_by_hand_is_reported_and_is_no_second_record(bucket: S3) -> None:
    archiver = bucket.archiver()
    await archiver.put(AFTER)
    copy = "batch.example.com_Report/ns1/copy/uid-ns1-nightly.json"
    obstore.put(bucket.objects, copy, encode_record(AFTER))
    page = await archiver.search(Query())
    assert page.records == (AFTER,)
    (error,) = page.corrupt
    assert error.record.endswith(copy)
    assert "which has another key" in error.problem
    with pytest.raises(ArchiveCorrupt):
        await archiver.get(ByName(KIND, "ns1", "copy"))


@pytest.mark.rule("sharding:B9")
async def test_uploads_that_were_given_up_and_foreign_objects_are_no_records(bucket: S3) -> None:
    archiver = bucket.archiver()
    upload = obstore.open_writer(bucket.objects, RECORD, buffer_size=5 << 20)
    upload.write(b"x" * (6 << 20))  # more than a part: an upload has begun, and nobody ends it
    for key in ("notes.txt", "batch.example.com_Report/ns1/nightly/notes.txt", "a/b/c/d/e.json"):
        obstore.put(bucket.objects, key, b"mine")
    assert await archiver.search(Query()) == Page()
    with pytest.raises(NotArchived):
        await archiver.get(AFTER.subject.key)
    await archiver.put(AFTER)
    assert await archiver.search(Query()) == Page((AFTER,))


def begun(bucket: S3, key: str) -> object:
    """An upload that nobody ends."""
    upload = obstore.open_writer(bucket.objects, key, buffer_size=5 << 20)
    upload.write(b"x" * (6 << 20))
    return upload


@pytest.mark.rule("sharding:B9")
async def test_uploads_that_others_abandoned_are_ended_and_no_other(bucket: S3, tmp_path: Path) -> None:
    other = S3(bucket.server, tmp_path)
    writers = [begun(bucket, RECORD), begun(bucket, "a key/with ü & +.bin"), begun(other, "theirs.bin")]
    settings = settings_of(bucket.url, {})
    uploads = Uploads(settings, keys_for(settings, {}), region_of(settings, {}), 30.0)
    now = datetime.now(UTC)
    await bucket.archiver().check()
    assert await uploads.sweep(now + ABANDONED - timedelta(minutes=5)) == 0, "they may still be under way"
    assert await uploads.sweep(now + ABANDONED + timedelta(minutes=5)) == 2
    assert await uploads.sweep(now + ABANDONED + timedelta(minutes=5)) == 0
    theirs = settings_of(other.url, {})
    assert await Uploads(theirs, keys_for(theirs, {}), REGION, 30.0).sweep(now + 2 * ABANDONED) == 1
    del writers


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, "<Error><Code>AccessDenied</Code></Error>"), (501, ""), (200, "<html>hello"), (200, "<a><Upload/></a>")],
)
async def test_where_uploads_cannot_be_swept_nobody_is_bothered(status: int, body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    async with serving(answer) as endpoint:
        settings = S3Settings("archive", "kept", endpoint)
        with pytest.raises(SweepUnsupported):
            await Uploads(settings, lambda: AccessKeys("a", "b"), REGION, 30.0).sweep(datetime.now(UTC))
        with pytest.raises(SweepUnsupported):
            await Uploads(settings, lambda: None, REGION, 30.0).sweep(datetime.now(UTC))


async def test_a_server_that_is_away_is_unavailable_to_a_sweep() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503)

    async with serving(answer) as endpoint:
        settings = S3Settings("archive", "", endpoint)
        with pytest.raises(ArchiveUnavailable):
            await Uploads(settings, lambda: AccessKeys("a", "b"), REGION, 30.0).sweep(datetime.now(UTC))


async def test_a_search_reads_only_what_keys_let_through(bucket: S3) -> None:
    straight = bucket.archiver()
    for namespace in ("ns1", "ns2"):
        for name in ("a", "b", "ab"):
            await straight.put(archived(report(name, namespace)))
    read: list[str] = []

    def listen(piece: bytes) -> bool:
        if found := re.match(rb"GET \S+/([^/]+/[^/]+)/[^/?]+\.json ", piece):
            read.append(found[1].decode())
        return False

    async with wire_to(bucket.server.port) as wire:
        archiver = through(wire, bucket)
        wire.cut = listen
        for query, want in (
            (Query(kind=KIND, namespaces=("ns2",), prefix="a"), ["ns2/a", "ns2/ab"]),
            (Query(names=("b",)), ["ns1/b", "ns2/b"]),
            (Query(uid="uid-ns1-ab"), ["ns1/ab"]),
            (Query(names=()), []),
        ):
            read.clear()
            assert len((await archiver.search(query)).records) == len(want)
            assert sorted(read) == want


@pytest.mark.rule("sharding:B9")
async def test_a_check_leaves_nothing_behind_and_others_probes_alone(bucket: S3) -> None:
    obstore.put(bucket.objects, ".checks/fresh.json", b"")
    await bucket.archiver().check()
    assert keys(bucket) == [".checks/fresh.json"], "somebody may be at it"


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def careless_server(obeyed: str) -> AsyncIterator[str]:
    """Keeps objects, and obeys only the one condition that is named."""
    kept: dict[str, bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        body = kept.get(request.path)
        tag = f'"{hash(body)}"'
        match request.method:
            case "PUT":
                if obeyed == "If-None-Match" and body is not None and "If-None-Match" in request.headers:
                    return web.Response(status=412)
                if obeyed == "If-Match" and request.headers.get("If-Match", tag) != tag:
                    return web.Response(status=412)
                kept[request.path] = await request.read()
                return web.Response(headers={"ETag": f'"{hash(kept[request.path])}"'})
            case "DELETE":
                kept.pop(request.path, None)
                return web.Response(status=204)
            case _ if body is None:
                return web.Response(status=404)
            case _:
                return web.Response(body=body, headers={"ETag": tag, "Last-Modified": "Sat, 31 Jan 2026 12:00:00 GMT"})

    async with serving(answer) as endpoint:
        yield endpoint
    assert not kept, "the probe is gone"


@pytest.mark.rule("sharding:S8")
@pytest.mark.parametrize(
    ("obeyed", "want"),
    [
        ("If-Match", "a put with If-None-Match replaces"),
        ("If-None-Match", "a put with If-Match replaces an object with another tag"),
    ],
)
async def test_a_server_without_conditional_puts_is_refused(bucket: S3, obeyed: str, want: str) -> None:
    async with careless_server(obeyed) as endpoint:
        url = bucket.url.replace(quote(bucket.server.endpoint), quote(endpoint))
        with pytest.raises(ArchiveRefused, match=f"{want}.*use a server that supports them"):
            await S3Archiver.from_url(url, {}).check()


async def test_what_is_refused_is_said_without_secrets(bucket: S3, tmp_path: Path) -> None:
    wrong, none = tmp_path / "wrong", tmp_path / "none"
    wrong.write_text(f"[default]\naws_access_key_id = situate\naws_secret_access_key = {SECRET_KEY}-wrong\n")
    good = quote(str(tmp_path / "credentials"))
    for url, want in (
        (bucket.url.replace(good, quote(str(wrong))), r"SignatureDoesNotMatch \(403\)"),
        (
            bucket.url.replace(good, quote(str(none))),
            r"none holds no credentials \(FileNotFoundError\), allowed: a sect",
        ),
        (bucket.url.replace("s3://archive/", "s3://nobucket/"), r"NoSuchBucket \(404\)"),
    ):
        archiver = S3Archiver.from_url(url, {})
        calls = (
            archiver.check(),
            archiver.put(AFTER),
            archiver.get(AFTER.subject.key),
            archiver.search(Query(kind=KIND)),
            archiver.delete(AFTER.subject.key),
        )
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert type(result) is ArchiveRefused, result
            assert re.search(want, str(result)), result
            assert SECRET_KEY not in f"{result!r}{result.__cause__!r}"
            assert "AWS4-HMAC" not in str(result)


async def test_a_record_that_is_too_large_is_refused_for_good(bucket: S3) -> None:
    archiver = bucket.archiver()
    with pytest.raises(ArchiveTooLarge, match=r"its record has 1677\d+ bytes, allowed: 16777216"):
        await archiver.put(archived(report(data="x" * (16 << 20))))
    obstore.put(bucket.objects, RECORD, b"x" * ((16 << 20) + 1))
    with pytest.raises(ArchiveCorrupt):
        await archiver.get(AFTER.subject.key)


SLOW_DOWN = "Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code>"


@pytest.mark.parametrize(
    ("error", "want", "said"),
    [
        (GenericError(SLOW_DOWN), ArchiveUnavailable, r"SlowDown \(503\)"),
        (GenericError("status code: 500 Internal"), ArchiveUnavailable, r"\(500\)"),
        (GenericError("status code: 429 Too Many"), ArchiveUnavailable, r"\(429\)"),
        (GenericError("HTTP error: operation timed out"), ArchiveUnavailable, "no answer"),
        (GenericError("status code: 400 Bad: <Code>EntityTooLarge</Code>"), ArchiveTooLarge, "EntityTooLarge"),
        (GenericError("status code: 400 Bad: <Code>KeyTooLongError</Code>"), ArchiveTooLarge, "KeyTooLongError"),
        (GenericError("status code: 400 Bad: <Code>InvalidBucketName</Code>"), ArchiveRefused, "InvalidBucketName"),
        (PermissionDeniedError("status code: 403: <Code>AccessDenied</Code>"), ArchiveRefused, "AccessDenied"),
        (NotFoundError("status code: 404: <Code>NoSuchBucket</Code>"), ArchiveRefused, "NoSuchBucket"),
        (OSError("no sockets"), ArchiveUnavailable, "no answer"),
    ],
)
def test_failures_say_whether_trying_again_helps(
    error: BaseError | OSError, want: type[ArchiveError], said: str
) -> None:
    told = _failure("s3://b: put k", error)
    assert type(told) is want
    assert re.match(f"s3://b: put k: {said}", str(told))
