"""What every store of records promises; each test runs on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from situate.archive.protocol import ArchiveConflict, ArchiveCorrupt, Archiver, NotArchived
from situate.archive.records.query import Page, Query, page_of
from situate.archive.records.record import ByName, ByUid, GroupKind, Record
from situate.objects.kinds.selectors import LabelSelectorRequirement
from tests.archive.reports import KIND, NOON, archived, report
from tests.archive.store_fixtures import Store

pytestmark = pytest.mark.rule("sharding:K16")

HOSTILE = (
    "plain",
    "..",
    ".",
    "../../../etc/passwd",
    "/absolute",
    "a/b",
    ".hidden",
    ".partial",
    "_",
    "%2e%2e",
    "%",
    "%~",
    "a_c",
    "abc",
    "a%c",
    "ABC",
    "a\\c",
    "a'c",
    'a"c',
    "a\nc",
    "a\x01c\x7f",
    "'; DROP TABLE situate_archive; --",
    "$where",
    "{'$gt': ''}",
    ".*",
    "[a-z]*",
    "a?c",
    "caf\u00e9",
    "cafe\u0301",
    "\u0130stanbul",
    "\U0001f600",
    "\uffff",
    "\u202egnp.exe",
    " ",
    "nul",
    "a.json",
    "n" * 253,
    "n" * 252 + "m",
    "\u00fc" * 126,
    "\u00fc" * 125 + "\u00f6",
)
"""Names that lead elsewhere, mean something in some language, or look like one another."""


async def all_of(archiver: Archiver, query: Query | None = None) -> list[Record]:
    page = await archiver.search(Query() if query is None else query)
    assert not page.continue_
    return list(page.records)


@pytest.mark.rule("sharding:S8", "sharding:X10")
async def test_what_is_put_is_got_by_uid_and_by_name(archiver: Archiver, opened: Callable[[], Archiver]) -> None:
    record = archived(report("nightly", "ns1", "u1", labels={"app": "x"}, text="ä\0\u2028", n=[1, 1.0, -0.0, 1e300]))
    await archiver.check()
    await archiver.put(record)
    await archiver.put(record)
    for each in (archiver, opened()):
        assert await each.get(record.subject.key) == record
        assert await each.get(ByUid(KIND, "u1")) == record
        assert await each.get(ByName(KIND, "ns1", "nightly")) == record
        assert await all_of(each) == [record]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(archived(completed_s=None, successful=None), id="deleted before completion"),
        pytest.param(archived(successful=False, reason="a\0b\\0c\\ 'd' %s"), id="any text in the reason"),
        pytest.param(archived(report(namespace="")), id="of the cluster"),
        pytest.param(archived(completed_s=-0.000001, at_s=0.999999), id="to the microsecond"),
        pytest.param(archived(completed_s=-(NOON.timestamp() + 62135596800)), id="in the first year"),
        pytest.param(archived(completed_s=251_000_000_000), id="in the last years"),
        pytest.param(archived(report(version="opaque")), id="a version that is no integer"),
        pytest.param(archived(report(version="9" * 30)), id="a version beyond all integers"),
        pytest.param(archived(term=(1 << 63) - 1), id="the largest term"),
        pytest.param(archived(report(labels={"p" * 253 + "/" + "k" * 63: "v" * 63, "e": ""})), id="long labels"),
        pytest.param(archived(report(data="ü" * (1 << 19))), id="a mebibyte"),
        pytest.param(archived(report(deep=eval("[" * 90 + "]" * 90))), id="nested"),
        pytest.param(archived({**report(), "apiVersion": "v1"}), id="of the core group"),
    ],
)
async def test_records_of_every_sort_come_back_equal(archiver: Archiver, record: Record) -> None:
    await archiver.put(record)
    assert await archiver.get(record.subject.key) == record
    assert await all_of(archiver) == [record]


async def test_what_is_not_there_is_an_answer_of_its_own(archiver: Archiver) -> None:
    for _ in range(2):
        for key in (
            ByUid(KIND, "nobody"),
            ByUid(KIND, "nobody", ("ns1", "nightly")),
            ByUid(KIND, "uid-ns1-nightly", ("ns2", "nightly")),
            ByUid(GroupKind("", "Report"), "uid-ns1-nightly"),
            ByName(KIND, "ns1", "nightl"),
            ByName(KIND, "", "nightly"),
            ByName(GroupKind("batch.example.com", "report"), "ns1", "nightly"),
        ):
            with pytest.raises(NotArchived) as caught:
                await archiver.get(key)
            assert caught.value.key == key
        await archiver.put(archived())  # and so beside a record that is there


async def test_names_of_any_text_stay_apart_and_lead_nowhere(archiver: Archiver) -> None:
    records = [
        archived(report(name, HOSTILE[-1 - number], f"{number}{name}"[:100]), at_s=number)
        for number, name in enumerate(HOSTILE)
    ]
    for record in records:
        await archiver.put(record)
    for record in records:
        subject = record.subject
        assert await archiver.get(subject.key) == record
        assert await archiver.get(ByName(KIND, subject.namespace, subject.name)) == record
    for number, name in enumerate(HOSTILE):
        others = (
            Query(substring=name),
            Query(prefix=name),
            Query(suffix=name),
            Query(namespaces=(name,)),
            Query(owner_uid=name),
            Query(reason=name),
            Query(kind=GroupKind(name, "Report")),
            Query(kind=GroupKind(KIND.group, name)),
        )
        exact = Query(names=(name,), namespaces=(HOSTILE[-1 - number],), uid=f"{number}{name}"[:100])
        for query in (exact, others[number % len(others)]):  # all ways with some texts: below
            assert await archiver.search(query) == page_of(records, query), query
    for record in records[::2]:
        await archiver.delete(record.subject.key)
    assert await archiver.search(Query()) == page_of(records[1::2], Query())


@pytest.mark.rule("sharding:X10", "sharding:S8")
async def test_equal_names_of_two_objects_are_two_records(archiver: Archiver) -> None:
    older, newer = archived(report(uid="u2"), at_s=0), archived(report(uid="u1"), at_s=1)
    await archiver.put(newer)
    await archiver.put(older)
    assert await archiver.get(ByName(KIND, "ns1", "nightly")) == newer
    assert await archiver.get(ByUid(KIND, "u2")) == older
    await archiver.put(archived(report(uid="u0"), at_s=1))
    assert (await archiver.get(ByName(KIND, "ns1", "nightly"))).subject.uid == "u0", "equal times go by UID"
    assert [r.subject.uid for r in await all_of(archiver)] == ["u0", "u1", "u2"]


@pytest.mark.rule("sharding:S8")
async def test_one_record_for_each_kind_and_uid(archiver: Archiver) -> None:
    one, other = archived(report(uid="u1")), archived(report(uid="u1", kind="Other"))
    await archiver.put(one)
    await archiver.put(other)
    assert await archiver.get(one.subject.key) == one
    await archiver.delete(one.subject.key)
    assert await all_of(archiver) == [other]


@pytest.mark.rule("sharding:X9", "sharding:S8")
async def test_a_newer_version_replaces_and_an_older_never_does(archiver: Archiver) -> None:
    first = archived(report(version=9, labels={"old": "x"}), at_s=0)
    second = archived(report(version=10, labels={"new": "x"}), at_s=1)
    await archiver.put(first)
    await archiver.put(second)
    with pytest.raises(ArchiveConflict, match=r"uid-ns1-nightly: the archive holds a newer version than 9"):
        await archiver.put(first)
    assert await all_of(archiver) == [second]
    assert await all_of(archiver, Query(match_labels={"new": "x"})) == [second]
    assert await all_of(archiver, Query(match_labels={"old": "x"})) == []
    again = archived(report(version=10, labels={"new": "x"}), at_s=2)
    await archiver.put(again)
    assert await all_of(archiver) == [again]


@pytest.mark.rule("sharding:S8")
async def test_puts_of_one_object_at_once_leave_one_whole_record(
    archiver: Archiver, opened: Callable[[], Archiver]
) -> None:
    both = (archiver, opened())
    records = [archived(report(version=10, labels={f"l{n}": "x"}, n=n), at_s=n) for n in range(8)]
    await asyncio.gather(*(both[n % 2].put(record) for n, record in enumerate(records)))
    (found,) = await all_of(archiver)
    assert found in records
    for n, record in enumerate(records):
        assert await all_of(archiver, Query(match_labels={f"l{n}": "x"})) == ([record] if record == found else [])


@pytest.mark.rule("sharding:S8")
async def test_of_versions_put_at_once_the_newest_stays(archiver: Archiver, opened: Callable[[], Archiver]) -> None:
    both = (archiver, opened())
    records = [archived(report(version=version)) for version in (3, 12, 7, 11, 1, 10)]

    async def put(n: int, record: Record) -> None:
        try:
            await both[n % 2].put(record)
        except ArchiveConflict:
            assert record != records[1]

    await asyncio.gather(*(put(n, record) for n, record in enumerate(records)))
    assert await all_of(archiver) == [records[1]]


async def test_a_deleted_record_is_gone_and_only_that(archiver: Archiver) -> None:
    records = [archived(report(uid=f"u{n}", labels={"a": "b"})) for n in range(3)]
    for record in records:
        await archiver.put(record)
    await archiver.delete(records[1].subject.key)
    await archiver.delete(ByUid(KIND, "u0"))
    await archiver.delete(records[1].subject.key)
    await archiver.delete(ByUid(KIND, "nobody"))
    assert await all_of(archiver) == [records[2]]
    assert await all_of(archiver, Query(match_labels={"a": "b"})) == [records[2]]
    await archiver.put(records[1])
    assert await archiver.get(ByUid(KIND, "u1")) == records[1]


async def test_puts_deletes_and_searches_at_once_disturb_nobody(archiver: Archiver) -> None:
    async def life(n: int) -> None:
        record = archived(report("shared", uid=f"u{n}", labels={"a": "b"}), at_s=n)
        for _ in range(3):
            await archiver.put(record)
            assert record in await all_of(archiver, Query(match_labels={"a": "b"}))
            await archiver.delete(record.subject.key)

    await asyncio.gather(*(life(n) for n in range(6)))
    assert await all_of(archiver) == []


async def pages(archiver: Archiver, limit: int, meanwhile: list[Record]) -> list[list[str]]:
    found = []
    query = Query(limit=limit)
    while True:
        page = await archiver.search(query)
        found.append([record.subject.uid for record in page.records])
        if not page.continue_:
            return found
        query = Query(limit=limit, continue_=page.continue_)
        if meanwhile:
            await archiver.put(meanwhile.pop())


async def test_pages_hold_each_record_once_though_others_come(archiver: Archiver) -> None:
    for n in range(7):
        await archiver.put(archived(report(f"n{n}", uid=f"u{n}"), at_s=n // 3))
    newer = [archived(report(f"new{n}", uid=f"a{n}"), at_s=99 + n) for n in range(9)]
    assert await pages(archiver, 2, newer) == [["u6", "u3"], ["u4", "u5"], ["u0", "u1"], ["u2"]]
    (all_at_once,) = await pages(archiver, 1 << 70, [])
    assert all_at_once == ["a8", "a7", "a6", "u6", "u3", "u4", "u5", "u0", "u1", "u2"]


async def test_a_deleted_record_shifts_no_page(archiver: Archiver) -> None:
    records = [archived(report(uid=f"u{n}"), at_s=-n) for n in range(5)]
    for record in records:
        await archiver.put(record)
    first = await archiver.search(Query(limit=2))
    for record in records[:3]:
        await archiver.delete(record.subject.key)
    rest = await archiver.search(Query(limit=2, continue_=first.continue_))
    assert ([r.subject.uid for r in rest.records], rest.continue_) == (["u3", "u4"], "")


@pytest.mark.rule("sharding:S7")
async def test_a_record_edited_by_hand_is_found_and_keeps_nobody_from_the_rest(
    archiver: Archiver, store: Store
) -> None:
    spoilt = archived(report("a", uid="u1", text="written"), at_s=1)
    whole = archived(report("b", uid="u2", text="written"), at_s=0)
    for record in (spoilt, whole):
        await archiver.put(record)
    await store.edit(spoilt)
    for key in (spoilt.subject.key, ByUid(KIND, "u1"), ByName(KIND, "ns1", "a")):
        with pytest.raises(ArchiveCorrupt, match="digest: found") as caught:
            await archiver.get(key)
        assert caught.value.path == "digest"
    page = await archiver.search(Query())
    assert page.records == (whole,)
    assert [(error.path, "u1" in error.record) for error in page.corrupt] == [("digest", True)]


@pytest.mark.rule("sharding:S7")
async def test_what_is_no_record_is_reported_until_it_is_replaced_or_deleted(archiver: Archiver, store: Store) -> None:
    records = [archived(report(name, uid=f"u-{name}"), at_s=n) for n, name in enumerate("abc")]
    for record in records:
        await archiver.put(record)
    await store.spoil(records[0])
    await store.spoil(records[1])
    with pytest.raises(ArchiveCorrupt, match="restore it from a copy, or delete it"):
        await archiver.get(records[0].subject.key)
    page = await archiver.search(Query())
    assert page.records == (records[2],)
    assert len(page.corrupt) == 2
    await archiver.put(records[0])
    await archiver.delete(records[1].subject.key)
    assert await archiver.search(Query()) == Page((records[2], records[0]))


async def test_a_cancelled_put_leaves_a_whole_record_or_none(archiver: Archiver) -> None:
    record = archived(report(data="x" * 100_000))
    await archiver.check()
    for ticks in range(12):
        task = asyncio.ensure_future(archiver.put(record))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert await all_of(archiver) in ([], [record])
    await archiver.put(record)
    assert await archiver.get(record.subject.key) == record


TEXTS = st.sampled_from(["a", "b", "ab", "ba", "aab", "A", "a.b", "a%b", "a_b", "a\\b", "a'b", "ä", "", "\U0001f600a"])
NAMES = TEXTS.filter(bool)
KEYS = st.sampled_from(["app", "tier", "example.com/App"])
VALUES = st.sampled_from(["", "a", "b", "A", "a.b"])
MOMENTS = st.integers(-3, 3)
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
REASONS = st.sampled_from(["", "Done", "done", "\0", "\\0", "\\"])
EXPRESSIONS = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
KINDS = st.sampled_from(["Report", "report", "Other"])
MAYBE_TIME = st.none() | MOMENTS.map(lambda n: NOON + timedelta(microseconds=n))


@st.composite
def contents(draw: st.DrawFn) -> list[Record]:
    records: dict[tuple[str, str], Record] = {}
    for _ in range(draw(st.integers(0, 8))):
        completed = draw(st.none() | MOMENTS)
        content = report(draw(NAMES), draw(TEXTS), draw(NAMES), 1, draw(LABELS), draw(st.just("") | NAMES), draw(KINDS))
        record = archived(
            content,
            at_s=draw(MOMENTS) / 1e6,
            completed_s=None if completed is None else completed / 1e6,
            successful=None if completed is None else draw(st.booleans()),
            reason=draw(REASONS),
        )
        records.setdefault((record.subject.kind, record.subject.uid), record)
    return list(records.values())


NEVER = st.none()
QUERIES = st.builds(
    Query,
    kind=NEVER | st.builds(GroupKind, st.sampled_from(["batch.example.com", ""]), KINDS),
    namespaces=NEVER | st.lists(TEXTS, max_size=3).map(tuple),
    names=NEVER | st.lists(NAMES, max_size=3).map(tuple),
    substring=st.just("") | TEXTS,
    prefix=st.just("") | TEXTS,
    suffix=st.just("") | TEXTS,
    match_labels=st.dictionaries(KEYS, VALUES, max_size=1),
    match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple),
    uid=NEVER | TEXTS,
    owner_uid=NEVER | TEXTS,
    successful=NEVER | st.booleans(),
    reason=NEVER | REASONS,
    completed_since=MAYBE_TIME,
    completed_before=MAYBE_TIME,
    archived_since=MAYBE_TIME,
    archived_before=MAYBE_TIME,
    limit=NEVER | st.integers(1, 4),
)


@pytest.mark.rule("sharding:X12")
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(records=contents(), queries=st.lists(QUERIES, min_size=1, max_size=12))
async def test_any_query_of_any_content_finds_what_its_plain_twin_finds(
    archiver: Archiver, records: list[Record], queries: list[Query]
) -> None:
    for record in await all_of(archiver):
        await archiver.delete(record.subject.key)
    for record in records:
        await archiver.put(record)
    for query in queries:
        while True:
            page = await archiver.search(query)
            assert page == page_of(records, query), query
            if not page.continue_:
                break
            query = _continued(query, page.continue_)


def _continued(query: Query, token: str) -> Query:
    names = [name for name in query.__dataclass_fields__ if name not in ("selector", "after", "continue_")]
    return Query(**{name: getattr(query, name) for name in names}, continue_=token)


async def test_thousands_of_names_are_one_question(archiver: Archiver) -> None:
    record = archived()
    await archiver.put(record)
    many = tuple(f"name-{n}" for n in range(70_000))
    assert await all_of(archiver, Query(names=(*many, "nightly"), namespaces=("ns1",))) == [record]


def test_an_archiver_never_says_where_it_is_with_a_password(archiver: Archiver) -> None:
    assert "password" not in repr(archiver).lower()
