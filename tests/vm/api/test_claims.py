"""Claims, hand-overs and moves in annotations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.api.claims import (
    claim_text,
    handover_text,
    migration_times_text,
    read_claim,
    read_handover,
    read_migration_times,
)
from situate.vm.api.parse_errors import ParseError, Place
from situate.vm.model.events import WrittenClaim, WrittenHandOver
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts

HERE = Place.annotation("VirtualMachineMigration default/m", "vm.situate.dev/claim")
NAMES = st.text(min_size=1, max_size=10)
AMOUNTS = st.builds(Amounts.from_values, st.integers(0, 10**6), st.integers(0, 2**50))
REFS = st.builds(Ref, NAMES, NAMES, st.text(max_size=5))
TIMES = st.integers(0, 4 * 10**9).map(float)
CLAIMS = st.builds(
    WrittenClaim,
    id=NAMES,
    plan=st.text(max_size=5),
    node=NAMES,
    beneficiary=st.builds(Beneficiary, st.sampled_from(BeneficiaryKind), REFS),
    source_uid=NAMES,
    amount=AMOUNTS,
    deadline=TIMES,
)
CLAIM = WrittenClaim(
    id="c1",
    plan="p1",
    node="n1",
    beneficiary=Beneficiary(BeneficiaryKind.VM, Ref("default", "a-xyz", "uid-a")),
    source_uid="uid-b",
    amount=Amounts.from_values(1500, 3 * 2**30),
    deadline=1_767_225_600.25,
)
TEXT = (
    '{"id":"c1","plan":"p1","node":"n1","beneficiary":{"kind":"VM","namespace":"default","name":"a-xyz","uid":"uid-a"},'
    '"source":{"podUID":"uid-b"},"amount":{"cpu":"1500m","mem":"3Gi"},"deadline":"2026-01-01T00:00:00.250000Z"}'
)


@pytest.mark.rule("vm:B1")
def test_a_claim_is_canonical_text() -> None:
    assert claim_text(CLAIM) == TEXT


@pytest.mark.rule("vm:B1", "vm:B2")
@given(CLAIMS)
def test_a_claim_survives_its_annotation(claim: WrittenClaim) -> None:
    assert read_claim(claim_text(claim), HERE) == claim


@pytest.mark.rule("vm:B2")
@pytest.mark.parametrize(
    ("old", "new", "field", "allowed"),
    [
        ('"VM"', '"Vm"', ".beneficiary.kind", "one of VM, Pod, Target"),
        ('"c1"', '""', ".id", "non-empty text"),
        ('"uid-b"', "7", ".source.podUID", "text"),
        ("2026-01-01T00", "soon", ".deadline", "a time such as 2024-01-31T12:00:00Z"),
        ('"3Gi"', '"-3Gi"', ".amount.mem", "a quantity from 0 to 9007199254740992"),
        (TEXT, "[]", '"]', "a mapping"),
        (TEXT, "{}", ".beneficiary.kind", "one of VM, Pod, Target"),
    ],
)
def test_a_broken_claim_is_named(old: str, new: str, field: str, allowed: str) -> None:
    read = read_claim(TEXT.replace(old, new), HERE)
    assert isinstance(read, ParseError)
    assert read.field.endswith(field)
    assert read.allowed == allowed
    assert str(read).startswith("VirtualMachineMigration default/m: ")


@pytest.mark.rule("vm:B10")
@given(st.builds(WrittenHandOver, REFS, REFS, AMOUNTS))
def test_a_handover_survives_its_annotation(handover: WrittenHandOver) -> None:
    assert read_handover(handover_text(handover), HERE) == handover


@pytest.mark.rule("vm:B10")
def test_a_handover_is_canonical_text_and_a_broken_one_is_named() -> None:
    handover = WrittenHandOver(
        Ref("default", "b", "uid-b"), Ref("default", "a", "uid-a"), Amounts.from_values(1000, 2**30)
    )
    assert handover_text(handover) == (
        '{"source":{"namespace":"default","name":"b","uid":"uid-b"},'
        '"beneficiary":{"namespace":"default","name":"a","uid":"uid-a"},"amount":{"cpu":1,"mem":"1Gi"}}'
    )
    read = read_handover('{"source":{"namespace":"default"}}', HERE)
    assert isinstance(read, ParseError)
    assert read.field.endswith(".source.name")


@pytest.mark.rule("vm:B25")
@given(st.lists(TIMES, max_size=4))
def test_moves_are_kept_oldest_first(at: list[float]) -> None:
    assert read_migration_times(migration_times_text(at), HERE) == tuple(sorted(at))


@given(st.text(max_size=40))
def test_no_text_gives_a_traceback(text: str) -> None:
    for read in (read_claim, read_handover, read_migration_times):
        read(text, HERE)
