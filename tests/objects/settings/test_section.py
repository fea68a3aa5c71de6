from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.settings.section import Duration, Mistake, ObjectName, SignedDuration, format_value, parse_section


class Shrink(Enum):
    AUTO = "auto"
    ORDINAL = "ordinal"


class Drain(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod is emptied."""

    enabled: bool = True
    settle_time: Duration = 10.0


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One StatefulSet."""

    stateful_set_name: ObjectName
    pod_capacity: Annotated[int, msgspec.Meta(ge=1)]
    policy: Literal["spread", "pack"] = "spread"
    shrink: Shrink = Shrink.AUTO
    drain: Drain = Drain()
    refresh: SignedDuration = 100.0
    max_replicas: Annotated[int, msgspec.Meta(ge=1)] | None = None
    share: float | Annotated[str, msgspec.Meta(pattern="^[0-9]+%$")] = 1.0
    labels: dict[str, str] = {}  # msgspec copies an empty default
    zones: tuple[str, ...] = ()
    low: int = 0
    high: int = 9

    def mistakes(self) -> Iterable[Mistake]:
        if self.low > self.high:
            yield Mistake("low", str(self.low), f"at most high ({self.high})")


GOOD: dict[str, Any] = {"statefulSetName": "web", "podCapacity": 20}


def mistakes(data: object) -> list[str]:
    value, found = parse_section(data, list[Entry], "vpod")
    assert (value is None) == bool(found)
    return [str(each) for each in found]


def test_reads_every_kind_of_field() -> None:
    data = GOOD | {
        "policy": "pack",
        "shrink": "ordinal",
        "drain": {"settleTime": "1m30s"},
        "refresh": -5,
        "maxReplicas": 7.0,
        "share": "5%",
        "labels": {"a": "b"},
        "zones": ["x", "y"],
    }
    entry = Entry(
        stateful_set_name="web",
        pod_capacity=20,
        policy="pack",
        shrink=Shrink.ORDINAL,
        drain=Drain(settle_time=90.0),
        refresh=-5.0,
        max_replicas=7,
        share="5%",
        labels={"a": "b"},
        zones=("x", "y"),
    )
    assert parse_section([data], list[Entry], "vpod") == ([entry], ())


def test_null_is_the_default_as_in_kubernetes() -> None:
    value, found = parse_section(GOOD | {"policy": None, "drain": None, "maxReplicas": None}, Entry)
    assert not found
    assert value == Entry("web", 20)


def test_null_is_kept_where_it_is_a_value_of_its_own() -> None:
    class Server(msgspec.Struct, frozen=True):
        address: str | None = ":8080"
        most: Annotated[int | None, msgspec.Meta(description="Most connections. `null`: no limit.")] = 10

    assert parse_section({"address": None, "most": None}, Server) == (Server(None, None), ())
    assert parse_section({}, Server) == (Server(":8080", 10), ())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"podCapacity": 0}, "vpod[0].podCapacity: found 0, allowed: an integer of at least 1"),
        (
            {"podCapacity": "20"},
            'vpod[0].podCapacity: found "20", allowed: an integer of at least 1; write the value without quotes',
        ),
        ({"podCapacity": "many"}, 'vpod[0].podCapacity: found "many", allowed: an integer of at least 1'),
        ({"podCapacity": True}, "vpod[0].podCapacity: found true, allowed: an integer of at least 1"),
        ({"podCapacity": 1.5}, "vpod[0].podCapacity: found 1.5, allowed: an integer of at least 1"),
        ({"podCapacity": None}, "vpod[0].podCapacity: found null, allowed: an integer of at least 1"),
        ({"podCapacity": float("nan")}, "vpod[0].podCapacity: found NaN, allowed: an integer of at least 1"),
        (
            {"policy": "Sprea"},
            'vpod[0].policy: found "Sprea", allowed: one of pack, spread; did you mean spread?',
        ),
        ({"policy": True}, "YAML reads on, off, yes and no as booleans, so quote the value"),
        ({"shrink": "ordinl"}, "allowed: one of auto, ordinal; did you mean ordinal?"),
        (
            {"refresh": 100_000_000_000},
            "vpod[0].refresh: found 100000000000, allowed: a duration such as",
        ),
        ({"refresh": 100_000_000_000}, "the number is a Go duration in nanoseconds; write 100s"),
        ({"drain": {"settleTime": "-5s"}}, 'vpod[0].drain.settleTime: found "-5s", allowed: a duration such as'),
        ({"drain": 5}, "vpod[0].drain: found 5, allowed: a mapping with the keys enabled, settleTime"),
        ({"drain": {"settletime": "5s"}}, 'vpod[0].drain.settletime: found "5s", allowed: only the keys'),
        ({"drain": {"settletime": "5s"}}, "did you mean settleTime?"),
        ({"drain": {True: 1}}, "vpod[0].drain.true: found 1, allowed: only the keys"),
        ({"podcapacity": 3}, "did you mean podCapacity?"),
        ({"maxReplicas": 0}, "vpod[0].maxReplicas: found 0, allowed: an integer of at least 1"),
        ({"share": "many"}, 'vpod[0].share: found "many", allowed: a number or text that matches ^[0-9]+%$'),
        ({"labels": {"a": 1}}, 'vpod[0].labels.a: found 1, allowed: text; to write text, quote the value: "1"'),
        ({"labels": {1: "a"}}, "vpod[0].labels.1: found 1, allowed: text; quote the key"),
        ({"labels": {"a.b/c": 1}}, 'vpod[0].labels["a.b/c"]: found 1'),
        ({"zones": {"a": 1}}, "begin each entry with '- '"),
        ({"zones": ["a", 2]}, "vpod[0].zones[1]: found 2, allowed: text"),
        ({"statefulSetName": "Web_1"}, 'vpod[0].statefulSetName: found "Web_1", allowed: a DNS subdomain'),
        ({"low": 5, "high": 3}, "vpod[0].low: found 5, allowed: at most high (3)"),
    ],
)
def test_names_path_value_and_what_is_allowed(change: dict[Any, Any], sentence: str) -> None:
    (only,) = mistakes([GOOD | change])
    assert sentence in only


def test_reports_every_mistake_at_once() -> None:
    found = mistakes([{"podCapacity": 0, "drain": {"enabled": "yes", "x": 1}}, 7, GOOD, {}])
    assert [each.split(":")[0] for each in found] == [
        "vpod[0].podCapacity",
        "vpod[0].drain.enabled",
        "vpod[0].drain.x",
        "vpod[0].statefulSetName",
        "vpod[1]",
        "vpod[3].statefulSetName",
        "vpod[3].podCapacity",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("abs019.-%", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.", max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from([each.encode_name for each in msgspec.structs.fields(Entry)])


@given(st.dictionaries(KEYS, JSON))
def test_no_data_gives_anything_but_a_value_or_mistakes_with_a_path(data: dict[str, Any]) -> None:
    value, found = parse_section(data, Entry, "entry")
    assert (value is None) == bool(found)
    assert all(each.path.startswith("entry.") and each.allowed for each in found)
    if value is not None:
        assert value.pod_capacity >= 1


def test_a_value_nested_deeply_is_shown_as_far_as_it_goes() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert format_value(nested) == "[" * 57 + "..."


def test_no_more_of_a_value_is_written_out_than_is_shown() -> None:
    """What aliases made is small in memory, and would be 10^30 characters as text."""
    many: object = "x"
    for _ in range(30):
        many = [many] * 10
    assert format_value(many) == "[" * 30 + '"x", "x", "x", "x", "x", "x...'
    assert format_value({(1, 2): many}).startswith("{(1, 2): [[[")
    assert format_value({"a": [1, None, "ä"]}) == '{"a": [1, null, "ä"]}'


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("postgresql://u:hunter2@h/db", '"postgresql://…@h/db"'),
        ({"uri": "mongodb://u:hun/t?er2@h"}, '{"uri": "mongodb://…@h"}'),
        (f"s3://u:hunter2{'x' * 100}@h", '"s3://…@h"'),
        ("https://h/x?sslpassword=hunter2&a=b", '"https://h/x?sslpassword=…&a=b"'),
        ({"at": "https://h:80/x", "to": "me@h"}, '{"at": "https://h:80/x", "to": "me@h"}'),
    ],
)
def test_of_a_url_under_a_wrong_key_the_password_is_not_shown(value: object, told: str) -> None:
    assert format_value(value) == told
