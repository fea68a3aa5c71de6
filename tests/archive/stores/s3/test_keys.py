"""Keys alone: what they tell of records, and which ones a query can mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.archive.records.query import Query, matches
from situate.archive.records.record import GroupKind
from situate.archive.stores.s3.keys import candidate_keys, pointer_target, record_key, uid_key
from tests.archive.reports import KIND, archived, report

FOLDER = "batch.example.com_Report"
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6)


def test_the_key_is_the_place_and_the_uid() -> None:
    assert record_key(archived(report("nightly", "ns1", "u-1")).subject) == f"{FOLDER}/ns1/nightly/u-1.json"
    assert record_key(archived(report("../x", "", "U")).subject) == f"{FOLDER}/_/%2E.%2Fx/%55.json"
    assert uid_key(KIND, "u-1") == f".uids/{FOLDER}/u-1.json"


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(f"{FOLDER}/ns1/a/u-1.json", f"{FOLDER}/ns1/a/u-1.json", id="as written"),
        pytest.param(f"{FOLDER}/ns1/a/u-2.json", None, id="another object"),
        pytest.param("other_Report/ns1/a/u-1.json", None, id="another kind"),
        pytest.param(f"{FOLDER}/u-1.json", None, id="no record"),
        pytest.param("", None, id="empty"),
        pytest.param("é", None, id="not ours"),
    ],
)
def test_what_leads_elsewhere_is_not_followed(content: str, want: str | None) -> None:
    assert pointer_target(content.encode(), KIND, "u-1") == want


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param(Query(), ("",), id="everything"),
        pytest.param(Query(kind=KIND), (FOLDER,), id="a kind"),
        pytest.param(Query(namespaces=("a",)), ("",), id="of any kind, a namespace is no beginning"),
        pytest.param(
            Query(kind=KIND, namespaces=("b", "a", "")), (f"{FOLDER}/_", f"{FOLDER}/a", f"{FOLDER}/b"), id="ns"
        ),
        pytest.param(
            Query(kind=KIND, namespaces=("a",), names=("x", "y")), (f"{FOLDER}/a/x", f"{FOLDER}/a/y"), id="names"
        ),
        pytest.param(
            Query(kind=KIND, namespaces=("a",), names=tuple(map(str, range(65)))), (f"{FOLDER}/a",), id="many"
        ),
        pytest.param(Query(kind=KIND, namespaces=()), (), id="none"),
        pytest.param(Query(names=()), (), id="no name"),
    ],
)
def test_listings(query: Query, want: tuple[str, ...]) -> None:
    assert candidate_keys(query).prefixes == want


@given(
    name=TEXTS,
    namespace=TEXTS | st.just(""),
    query=st.builds(
        Query,
        kind=st.sampled_from([None, KIND, GroupKind("", "Pod")]),
        namespaces=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
        names=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
        substring=st.text("ab.*", max_size=1),
        prefix=st.text("ab.*", max_size=1),
        suffix=st.text("ab.*", max_size=1),
    ),
)
def test_no_record_that_matches_is_left_out(name: str, namespace: str, query: Query) -> None:
    record = archived(report(name, namespace, "u"))
    key, which = record_key(record.subject), candidate_keys(query)
    found = which.wanted(key) and any(not prefix or key.startswith(f"{prefix}/") for prefix in which.prefixes)
    assert found or not matches(record, query)
