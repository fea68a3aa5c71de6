"""Amounts as annotations hold them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.api.parse_errors import ParseError, Place
from situate.vm.api.quantities import (
    MAX_CACHED_TEXT,
    Bounds,
    ContainerResizeRequest,
    amounts_text,
    read_amounts,
    read_bounds,
    read_guest,
    read_overcommit,
    read_resize,
    read_unit,
    read_usage,
)
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import GUEST

GIB = 2**30
HERE = Place.annotation("pod default/web", "x")
FURTHER = ("cpu", "memory", "hugepages-2Mi")
AMOUNTS = st.builds(Amounts.from_values, st.integers(0, 2**53), st.integers(0, 2**53))


@pytest.mark.rule("vm:C4")
@pytest.mark.parametrize(
    ("cpu", "memory", "text"),
    [
        pytest.param(250, GIB, '{"vCPUs":"250m","mem":"1Gi"}', id="the reference's example"),
        pytest.param(2000, 4608 * 2**20, '{"vCPUs":2,"mem":"4608Mi"}', id="whole CPUs are an integer"),
        pytest.param(1500, GIB + 1, '{"vCPUs":"1500m","mem":"1073741825"}', id="not even a kibibyte, yet text"),
        pytest.param(0, 1023, '{"vCPUs":0,"mem":1023}', id="below 1024 memory is an integer"),
        pytest.param(1, 1024, '{"vCPUs":"1m","mem":"1Ki"}', id="from 1024 on it is text"),
    ],
)
def test_amounts_are_written_in_one_way_only(cpu: int, memory: int, text: str) -> None:
    assert amounts_text(Amounts.from_values(cpu, memory)) == text


@pytest.mark.rule("vm:C4")
@given(AMOUNTS)
def test_what_was_written_is_read_back(amounts: Amounts) -> None:
    assert read_amounts(amounts_text(amounts), HERE) == amounts


@pytest.mark.rule("vm:C4")
@pytest.mark.parametrize(
    ("text", "cpu", "memory"),
    [
        ('{"mem":"0.5Gi","vCPUs":"1e-1"}', 100, GIB // 2),
        ('{ "vCPUs": 0.25, "mem": 1073741824, "more": [] }', 250, GIB),
        ('{"vCPUs":"1.0001","mem":"1k"}', 1001, 1000),
    ],
)
def test_any_quantity_is_read(text: str, cpu: int, memory: int) -> None:
    assert read_amounts(text, HERE) == Amounts.from_values(cpu, memory)


@pytest.mark.rule("vm:B45")
def test_further_resources_have_their_own_names() -> None:
    amounts = Amounts.from_values(1000, GIB, 4 * 2**20)
    text = amounts_text(amounts, FURTHER)
    assert text == '{"vCPUs":1,"mem":"1Gi","hugepages-2Mi":"4Mi"}'
    assert read_amounts(text, HERE, FURTHER) == amounts
    assert amounts_text(Amounts.from_values(1000, GIB, 0), FURTHER) == '{"vCPUs":1,"mem":"1Gi"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'metadata.annotations["x"]: found "", allowed: JSON'),
        ("{", 'metadata.annotations["x"]: found "{", allowed: JSON'),
        ("[]", "found [], allowed: a mapping"),
        ("null", "found null, allowed: a mapping"),
        ("[" * 100_000, "the JSON is nested too deeply"),
        ('"\ud800"', "allowed: JSON"),
        ('{"vCPUs":1}', '["x"].mem: missing, allowed: a Kubernetes quantity'),
        ('{"vCPUs":true,"mem":1}', '["x"].vCPUs: found true, allowed: a Kubernetes quantity'),
        ('{"vCPUs":"-1","mem":1}', '["x"].vCPUs: found "-1", allowed: a quantity from 0 to 9007199254740992m'),
        ('{"vCPUs":1,"mem":"1e99"}', '["x"].mem: found "1e99", allowed: a quantity from 0 to 9007199254740992'),
        ('{"vCPUs":1,"mem":"one"}', "'one' is not a quantity; write a number"),
        ('{"vCPUs":1,"mem":{}}', '["x"].mem: found {}, allowed'),
    ],
)
def test_hostile_amounts_are_named(text: str, said: str) -> None:
    read = read_amounts(text, HERE)
    assert isinstance(read, ParseError)
    assert str(read).startswith("pod default/web: metadata.annotations")
    assert said in str(read)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("1Gi"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["vCPUs", "mem", "cpus", "memorySlots", "use", "min", "max", "cpu"]), inner)
    ),
    max_leaves=6,
)


@given(st.text(max_size=30) | JUNK.map(json.dumps))
def test_no_text_gives_a_traceback(text: str) -> None:
    for read in (read_amounts, read_unit, read_guest, read_usage, read_overcommit):
        read(text, HERE)
    read_bounds(text, HERE, GIB)
    read_resize(text, HERE)


@pytest.mark.rule("vm:C14")
@pytest.mark.parametrize("text", ['{"vCPUs":0,"mem":"1Gi"}', '{"vCPUs":1,"mem":0}'])
def test_a_unit_has_no_zero(text: str) -> None:
    assert isinstance(read_unit(text, HERE), ParseError)
    assert isinstance(read_amounts(text, HERE), Amounts)


def test_the_machine_s_resources() -> None:
    guest = read_guest(GUEST, HERE)
    assert not isinstance(guest, ParseError)
    assert guest.minimum == Amounts.from_values(500, GIB)
    assert guest.use == Amounts.from_values(1000, 2 * GIB)
    assert guest.maximum == Amounts.from_values(1500, 3 * GIB)
    assert guest.slot_size == GIB


def test_usage_and_overcommit_may_name_one_of_two() -> None:
    assert read_usage('{"cpu":"250m"}', HERE) == Amounts.from_values(250, 0)
    assert read_overcommit('{"memory":"1.5"}', HERE) == Amounts.from_values(1000, 1500)
    refused = read_overcommit('{"cpu":0}', HERE)
    assert isinstance(refused, ParseError)
    assert refused.field.endswith(".cpu")


@pytest.mark.rule("vm:C5")
def test_bounds_are_read() -> None:
    text = '{"min":{"cpu":"50m","mem":"1Gi"},"max":{"cpu":512,"mem":"4Gi"}}'
    assert read_bounds(text, HERE, GIB) == Bounds(Amounts.from_values(50, GIB), Amounts.from_values(512_000, 4 * GIB))


@pytest.mark.rule("vm:C5")
def test_everything_that_is_wrong_with_bounds_is_named() -> None:
    text = '{"min":{"cpu":"49m","mem":"5Gi"},"max":{"cpu":"513","mem":"1536Mi"}}'
    wrong = read_bounds(text, HERE, GIB)
    assert isinstance(wrong, tuple)
    assert [(each.field[-8:], each.found, each.allowed) for each in wrong] == [
        (".min.cpu", '"49m"', "from 50m to 512"),
        (".max.cpu", '"513"', "from 50m to 512"),
        (".max.mem", '"1536Mi"', "a multiple of the memory slot size, 1Gi"),
    ]


@pytest.mark.rule("vm:C5")
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"min":{"cpu":2,"mem":"1Gi"},"max":{"cpu":1,"mem":"1Gi"}}', "min.cpu"),
        ('{"min":{"cpu":1,"mem":"2Gi"},"max":{"cpu":1,"mem":"1Gi"}}', "min.mem"),
        ('{"min":{"cpu":1,"mem":0},"max":{"cpu":1,"mem":"1Gi"}}', "min.mem"),
        ('{"min":{"cpu":1,"mem":"1Gi"}}', "max.cpu"),
        ('{"min":7,"max":{"cpu":1,"mem":"1Gi"}}', "min"),
    ],
)
def test_bounds_are_ordered_and_whole(text: str, field: str) -> None:
    wrong = read_bounds(text, HERE, GIB)
    assert isinstance(wrong, tuple)
    assert wrong[0].field.endswith(field)
    assert len(set(wrong)) == len(wrong), "each is said once"


@pytest.mark.rule("vm:B34")
def test_a_plain_pod_s_wish() -> None:
    assert read_resize('{"container":"main","cpu":"2"}', HERE) == ContainerResizeRequest("main", 2000, None)
    assert isinstance(read_resize('{"container":"main"}', HERE), ParseError)


def test_short_texts_are_remembered_and_long_ones_take_no_memory() -> None:
    short, long = (f'{{"container":"{"x" * length}","cpu":1}}' for length in (8, 2 * MAX_CACHED_TEXT))
    assert read_resize(short, HERE) is read_resize(short, HERE)
    assert read_resize(long, HERE) == read_resize(long, HERE)
    assert read_resize(long, HERE) is not read_resize(long, HERE)
