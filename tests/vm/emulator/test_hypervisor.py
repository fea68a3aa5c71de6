"""The model of copying, and what machines say about their hypervisors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.api.parse_errors import ParseError
from situate.vm.emulator.hypervisor import Behaviour, Terms, amount, progress, read_behaviour, terms

GIB = 2**30
behaviours = st.builds(
    Behaviour,
    used=st.none() | st.integers(0, 4 * GIB),
    dirty_rate=st.integers(0, 2 * GIB),
    bandwidth=st.none() | st.integers(1, 2 * GIB),
    setup_s=st.sampled_from([0.0, 0.5]),
    downtime_s=st.sampled_from([0.0, 0.039, 2.0]),
    stall_at=st.none() | st.sampled_from([0.0, 0.4, 1.0]),
    fail_at=st.none() | st.sampled_from([0.0, 0.4, 0.99, 1.0]),
)
all_terms = st.builds(
    Terms,
    memory=st.integers(0, 2 * GIB),
    max_bandwidth=st.integers(1, GIB),
    auto_converge=st.booleans(),
    post_copy=st.booleans(),
)


@pytest.mark.rule("vm:F7")
@pytest.mark.parametrize(
    ("behaviour", "given_terms", "elapsed_s", "status", "remaining"),
    [
        pytest.param(Behaviour(), Terms(2 * GIB), 1.5, "active", GIB // 2, id="copies at the cap"),
        pytest.param(Behaviour(), Terms(2 * GIB), 2.02, "active", 0, id="downtime"),
        pytest.param(Behaviour(), Terms(2 * GIB), 2.04, "completed", 0, id="done"),
        pytest.param(Behaviour(used=GIB), Terms(2 * GIB), 1.04, "completed", 0, id="only what holds something"),
        pytest.param(Behaviour(bandwidth=GIB // 4), Terms(GIB), 1.0, "active", 3 * GIB // 4, id="a slow link"),
        pytest.param(Behaviour(dirty_rate=GIB // 2), Terms(GIB), 1.0, "active", GIB // 2, id="dirtied again"),
        pytest.param(
            Behaviour(dirty_rate=9 * GIB), Terms(10 * GIB), 10.0, "active", 9 * GIB, id="slowed down, slowly done"
        ),
        pytest.param(
            Behaviour(dirty_rate=GIB), Terms(GIB, auto_converge=False), 1e6, "active", GIB, id="never converges"
        ),
        pytest.param(
            Behaviour(dirty_rate=GIB),
            Terms(GIB, auto_converge=False, post_copy=True),
            1.5,
            "postcopy-active",
            GIB // 2,
            id="post-copy after a pass",
        ),
        pytest.param(
            Behaviour(dirty_rate=GIB),
            Terms(GIB, auto_converge=False, post_copy=True),
            2.04,
            "completed",
            0,
            id="post-copy ends",
        ),
        pytest.param(Behaviour(stall_at=0.5), Terms(GIB), 1e6, "active", GIB // 2, id="stalls"),
        pytest.param(Behaviour(fail_at=0.5), Terms(GIB), 0.4, "active", None, id="does not fail before"),
        pytest.param(Behaviour(fail_at=0.5), Terms(GIB), 0.6, "failed", GIB // 2, id="fails on its way"),
        pytest.param(
            Behaviour(fail_at=0.9, stall_at=0.5), Terms(GIB), 9, "active", GIB // 2, id="stalls before it fails"
        ),
        pytest.param(Behaviour(setup_s=1.0), Terms(GIB), 0.5, "setup", GIB, id="setup"),
        pytest.param(Behaviour(), Terms(0), 0.1, "completed", 0, id="an empty machine"),
    ],
)
def test_copying(
    behaviour: Behaviour, given_terms: Terms, elapsed_s: float, status: str, remaining: int | None
) -> None:
    told = progress(behaviour, given_terms, elapsed_s)
    assert told.status == status
    if remaining is not None:
        assert abs(told.remaining - remaining) <= 1000, "to the rounding of floats"


def test_what_is_told_at_the_end() -> None:
    told = progress(Behaviour(setup_s=0.1), Terms(2 * GIB), 60.0)
    assert told.info() == {
        "status": "completed",
        "totalTimeMs": 2139,
        "setupTimeMs": 100,
        "downtimeMs": 39,
        "ram": {"transferred": 2 * GIB, "remaining": 0, "total": 2 * GIB},
        "compression": {"compressedSize": 0, "compressionRate": 0},
    }


@given(behaviours, all_terms, st.lists(st.floats(0, 1e5), min_size=2, max_size=6))
def test_time_only_helps(behaviour: Behaviour, given_terms: Terms, moments: list[float]) -> None:
    """What remains never grows, an end is an end, and it comes when it was told."""
    before = None
    for elapsed_s in sorted(moments):
        told = progress(behaviour, given_terms, elapsed_s)
        assert 0 <= told.remaining <= told.total
        if before is not None:
            assert told.remaining <= before.remaining
            assert told.transferred >= before.transferred
            if before.status in ("completed", "failed"):
                assert told == before
        if told.ends_in_s is not None and told.ends_in_s < 1e8:
            later = progress(behaviour, given_terms, elapsed_s + told.ends_in_s + 1e-3)
            assert later.status != "setup" if told.status == "setup" else later.status in ("completed", "failed")
        before = told


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "annotations"),
        ("[]", "annotations"),
        ('{"usedMemory": "lots"}', "usedMemory"),
        ('{"dirtyRate": -1}', "dirtyRate"),
        ('{"bandwidth": 0}', "bandwidth"),
        ('{"failAtPercent": 101}', "failAtPercent"),
        ('{"stallAtPercent": 0.5}', "stallAtPercent"),
        ('{"refuseStart": true}', "refuseStart"),
        ('{"scaleMs": "1s"}', "scaleMs"),
        ('{"stallAt": 40}', "stallAt: found 40, allowed: only the keys usedMemory, "),
    ],
)
def test_what_cannot_be_read_is_named(text: str, field: str) -> None:
    found = read_behaviour(text, "VirtualMachine a/b")
    assert isinstance(found, ParseError)
    assert str(found).startswith("VirtualMachine a/b: ")
    assert field in str(found)


def test_what_a_machine_says() -> None:
    text = '{"usedMemory": "1Gi", "dirtyRate": "1Mi", "setupMs": 5, "downtimeMs": 7, "failAtPercent": 99, "scaleMs": 0}'
    assert read_behaviour(text, "") == Behaviour(GIB, 2**20, None, 0.005, 0.007, None, 0.99, "", 0.0)
    assert read_behaviour(None, "") == read_behaviour("{}", "") == Behaviour()


def test_terms_of_a_move() -> None:
    assert terms({}, GIB) == Terms(GIB)
    spec = {"maxBandwidth": "10Mi", "autoConverge": False, "allowPostCopy": True}
    assert terms(spec, 1) == Terms(1, 10 * 2**20, auto_converge=False, post_copy=True)
    assert (amount("1Ki", 7), amount("x", 7), amount(None, 7)) == (1024, 7, 7)
