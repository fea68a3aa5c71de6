from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.testing.vpod.builders import options
from situate.vpod.model.options import PolicyName, Shrink
from situate.vpod.placement.shrink import remove_from_fullest, remove_from_highest

HELD = st.dictionaries(st.integers(0, 9), st.integers(1, 9), max_size=8)


@given(HELD, st.integers(0, 80))
@pytest.mark.rule("vpod:B9", "vpod:D14")
def test_from_the_fullest_as_the_plain_twin_says(own: dict[int, int], surplus: int) -> None:
    left = dict(own)
    for _ in range(min(surplus, sum(own.values()))):
        fullest = max(left, key=lambda ordinal: (left[ordinal], ordinal))
        left[fullest] -= 1
    after = remove_from_fullest(own, surplus)
    assert after == {ordinal: held for ordinal, held in left.items() if held}
    spread = [after.get(ordinal, 0) for ordinal in own]
    if own:
        assert max(spread) - min(spread) <= max(1, max(own.values()) - min(own.values()))


@given(HELD, st.integers(0, 80))
@pytest.mark.rule("vpod:D14")
def test_from_the_highest_takes_exactly_the_surplus(own: dict[int, int], surplus: int) -> None:
    after = remove_from_highest(own, surplus)
    assert sum(after.values()) == max(0, sum(own.values()) - surplus)
    cut = [ordinal for ordinal in own if after.get(ordinal, 0) < own[ordinal]]
    assert all(after.get(ordinal, 0) == 0 for ordinal in own if cut and ordinal > min(cut))


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, False, id="auto without minReplicas"),
        pytest.param({"min_replicas": 2}, True, id="auto with minReplicas"),
        pytest.param({"min_replicas": 2, "policy": PolicyName.PACK}, False, id="packing keeps low ordinals full"),
        pytest.param({"shrink": Shrink.SPREAD}, True, id="spread"),
        pytest.param({"shrink": Shrink.ORDINAL, "min_replicas": 2}, False, id="ordinal"),
    ],
)
def test_which_way_options_choose(changes: dict[str, object], want: bool) -> None:
    assert options(10, **changes).shrinks_evenly is want
