"""Live and archived objects as one: each UID once, live wins, selectors and paging over both."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.archive.operations.object_reader import SKEW, FoundObject, LivePage, ObjectPage, ReadThrough, Selection
from situate.archive.protocol import ArchiveUnavailable, NotArchived
from situate.archive.records.query import BadQuery, Page, Query
from situate.archive.records.record import ByName, ByUid, Record
from situate.archive.stores.memory import MemoryArchiver
from situate.objects.selection.field_selectors import field_text, parse_field_selector
from situate.objects.selection.label_selectors import NOTHING, parse_selector
from tests.archive.reports import KIND, NOON, archived, report

pytestmark = pytest.mark.rule("sharding:X18")


class Live:
    """As an API server lists: the pages of one list are of one moment."""

    def __init__(self, *contents: dict[str, Any]) -> None:
        self.objects = {_key(content): content for content in contents}
        self.lists = 0
        self._moments: list[list[dict[str, Any]]] = []

    async def get(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.objects.get((namespace, name))

    async def list(self, selection: Selection, limit: int | None, continue_: str) -> LivePage:
        if continue_:
            moment, start = map(int, continue_.split("/"))
        else:
            moment, start = len(self._moments), 0
            self._moments.append([self.objects[key] for key in sorted(self.objects) if self._is_in(key, selection)])
        found = self._moments[moment]
        end = len(found) if limit is None else start + limit
        return LivePage(tuple(found[start:end]), f"{moment}/{end}" if end < len(found) else "", "77")

    def _is_in(self, key: tuple[str, str], selection: Selection) -> bool:
        content = self.objects[key]
        fields = {each.field: field_text(content, each.field) for each in selection.fields.requirements}
        return (
            selection.namespace in (None, key[0])
            and selection.fields.matches(fields)
            and selection.labels.matches(content["metadata"].get("labels") or {})
        )

    def delete(self, name: str) -> None:
        del self.objects["ns1", name]


class Down(MemoryArchiver):
    async def get(self, key: ByUid | ByName) -> Record:
        raise ArchiveUnavailable("down")

    async def search(self, query: Query) -> Page:
        raise ArchiveUnavailable("down")


def _key(content: dict[str, Any]) -> tuple[str, str]:
    return content["metadata"]["namespace"], content["metadata"]["name"]


async def archive_of(*records: Record) -> MemoryArchiver:
    archiver = MemoryArchiver()
    for record in records:
        await archiver.put(record)
    return archiver


def through(live: Live, archiver: MemoryArchiver | None, now: datetime = NOON) -> ReadThrough:
    return ReadThrough(KIND, live, archiver, lambda: now)


def shown(items: tuple[FoundObject, ...]) -> list[str]:
    """UIDs; archived ones in brackets."""
    uids = ((found.content["metadata"]["uid"], found.record is None) for found in items)
    return [uid if live else f"[{uid}]" for uid, live in uids]


async def whole(reader: ReadThrough, limit: int | None, selection: Selection | None = None) -> list[str]:
    found: list[str] = []
    page = ObjectPage((), "", "")
    while True:
        page = await reader.list(selection or Selection(), limit, page.continue_)
        assert limit is None or len(page.items) <= limit
        found += shown(page.items)
        if not page.continue_:
            return found


async def test_a_live_object_first_then_the_newest_archived_one() -> None:
    live, old = report("a", uid="2"), archived(report("a", uid="1"), at_s=1)
    reader = through(Live(live), await archive_of(old, archived(report("b", uid="3")), archived(live, at_s=9)))
    assert await reader.get("ns1", "a") == FoundObject(live, None)
    assert await reader.get("ns1", "a", uid="1") == FoundObject(old.object, old)
    assert shown((await reader.get("ns1", "b"),)) == ["[3]"]


async def test_what_is_nowhere_is_not_a_failure_and_a_failure_is_not_nowhere() -> None:
    for archiver in (None, await archive_of()):
        for uid in ("", "9"):
            with pytest.raises(NotArchived):
                await through(Live(), archiver).get("ns1", "a", uid)
    with pytest.raises(ArchiveUnavailable):
        await through(Live(), Down()).get("ns1", "a")
    with pytest.raises(ArchiveUnavailable):
        await through(Live(), Down()).list(Selection())
    assert shown((await through(Live(report("a", uid="1")), Down()).get("ns1", "a"),)) == ["1"]


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 4, 5, 100])
async def test_a_list_is_the_union_by_uid_where_live_wins(limit: int | None) -> None:
    live = Live(report("a", uid="1"), report("b", uid="2"))
    archiver = await archive_of(
        archived(report("b", uid="2"), at_s=-3),
        archived(report("c", uid="3"), at_s=-2),
        archived(report("a", uid="0"), at_s=-1),
    )
    assert await whole(through(live, archiver), limit) == ["1", "2", "[0]", "[3]"]
    assert await whole(through(live, None), limit) == ["1", "2"]


@pytest.mark.parametrize("limit", [None, 1, 3])
@pytest.mark.parametrize(
    ("selection", "want"),
    [
        pytest.param(Selection(namespace="ns2"), ["4", "[5]"], id="namespace"),
        pytest.param(Selection(fields=parse_field_selector("metadata.name=a")), ["1", "[6]"], id="name"),
        pytest.param(
            Selection(fields=parse_field_selector("metadata.name=a,metadata.name=b")), [], id="two names at once"
        ),
        pytest.param(
            Selection(fields=parse_field_selector("metadata.name!=a,metadata.namespace=ns2")), ["4", "[5]"], id="not"
        ),
        pytest.param(Selection(fields=parse_field_selector("spec.pages=7")), ["2", "[3]"], id="a field"),
        pytest.param(Selection("ns1", parse_selector("app"), parse_field_selector("spec.pages!=7")), ["1", "[6]"]),
        pytest.param(Selection(labels=parse_selector("app=x")), ["1", "[3]"], id="equal"),
        pytest.param(Selection(labels=parse_selector("app!=x,n")), ["4", "[5]"], id="not equal"),
        pytest.param(Selection(labels=parse_selector("n>4")), ["[5]"], id="numbers, which no archive compares"),
        pytest.param(Selection(labels=NOTHING), [], id="nothing"),
    ],
)
async def test_selectors_hold_for_both(selection: Selection, want: list[str], limit: int | None) -> None:
    live = Live(
        report("a", uid="1", labels={"app": "x"}),
        report("b", uid="2", pages=7),
        report("b", "ns2", "4", labels={"n": "4"}),
    )
    archiver = await archive_of(
        archived(report("c", uid="3", labels={"app": "x"}, pages=7), at_s=-3),
        archived(report("c", "ns2", "5", labels={"n": "5"}), at_s=-4),
        archived(report("a", uid="6", labels={"app": "y"}), at_s=-5),
        archived(report("a", uid="7", kind="Other", labels={"app": "x", "n": "9"}), at_s=-6),
    )
    assert await whole(through(live, archiver), limit, selection) == want


async def test_what_is_archived_between_two_pages_comes_once() -> None:
    contents = [report(f"n{n}", uid=f"u{n}") for n in range(6)]
    live, archiver = Live(*contents), await archive_of(archived(report("old", uid="old"), at_s=-99))
    reader = through(live, archiver)
    first = await reader.list(Selection(), 2)
    for name, content in (("n1", contents[1]), ("n4", contents[4])):
        await archiver.put(archived(content, at_s=SKEW.total_seconds() + 1))
        live.delete(name)
    found, token = shown(first.items), first.continue_
    while token:
        page = await reader.list(Selection(), 2, token)
        found, token = found + shown(page.items), page.continue_
    assert found == ["u0", "u1", "u2", "u3", "u4", "u5", "[old]"]


async def test_a_clock_ahead_hides_nothing_that_was_archived_before() -> None:
    archiver = await archive_of(archived(report("a", uid="1"), at_s=4.0), archived(report("b", uid="2"), at_s=3600.0))
    assert await whole(through(Live(), archiver), None) == ["[2]", "[1]"]
    assert await whole(through(Live(), archiver), 1) == ["[1]"], "an hour ahead is taken for archived meanwhile"


@pytest.mark.parametrize("token", ["x", "e30", "!!", "WzJd"])
async def test_tokens_of_somebody_else_are_refused(token: str) -> None:
    with pytest.raises(BadQuery, match="continue: found"):
        await through(Live(), await archive_of()).list(Selection(), 1, token)
    live = Live(report("a", uid="1"), report("b", uid="2"))
    page = await through(live, None).list(Selection(), 1)
    with pytest.raises(BadQuery, match="of the same list"):
        await through(live, None).list(Selection(namespace="ns1"), 1, page.continue_)
    with pytest.raises(BadQuery, match="limit: found 0"):
        await through(live, None).list(Selection(), 0)


NAMES = st.sampled_from("abcdefgh")


@given(
    live=st.dictionaries(NAMES, st.integers(0, 9), max_size=6),
    gone=st.lists(st.tuples(NAMES, st.integers(0, 19), st.integers(-9, 0)), max_size=12),
    limit=st.none() | st.integers(1, 4),
)
async def test_any_mixture_is_the_union(
    live: dict[str, int], gone: list[tuple[str, int, int]], limit: int | None
) -> None:
    objects = {uid: report(name, uid=f"u{uid}") for name, uid in live.items()}
    here = Live(*objects.values())
    records = {uid: archived(objects.get(uid) or report(name, uid=f"u{uid}"), at_s=at) for name, uid, at in gone}
    found = await whole(through(here, await archive_of(*records.values())), limit)
    uids = {content["metadata"]["uid"] for content in here.objects.values()}
    assert len(found) == len({uid.strip("[]") for uid in found})
    assert set(found) == uids | {f"[u{uid}]" for uid in records if f"u{uid}" not in uids}


async def test_conditions_that_no_archive_knows_are_looked_for_in_few_questions() -> None:
    asked: list[int | None] = []

    class Counting(MemoryArchiver):
        async def search(self, query: Query) -> Page:
            asked.append(query.limit)
            return await super().search(query)

    archiver = Counting()
    for number in range(300):
        await archiver.put(archived(report(f"n{number}", uid=f"u{number:03}", pages=number % 100), at_s=-number))
    selection = Selection(fields=parse_field_selector("spec.pages=7"))
    reader = through(Live(), archiver)
    assert await whole(reader, 1, selection) == ["[u007]", "[u107]", "[u207]"]
    assert len(asked) <= 5
    asked.clear()
    assert await whole(reader, 2, Selection(fields=parse_field_selector("metadata.name=n7"))) == ["[u007]"]
    assert asked == [2], "the archive itself knows names"
