from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vpod.policy.clusters import cluster, placements, vpod
from tests.vpod.policy.evenspread import SpreadOver, even_spread


@pytest.mark.parametrize(
    ("zones", "wanted", "placed", "over", "result", "left"),
    [
        pytest.param("abca", 7, {0: 4, 1: 3, 2: 4, 3: 3}, SpreadOver.ZONES, {0: 2, 1: 2, 2: 3}, 0, id="down to floors"),
        pytest.param("abc", 15, {}, SpreadOver.ZONES, {0: 5, 1: 5, 2: 5}, 0, id="evenly up"),
        pytest.param("aab", 9, {0: 1}, SpreadOver.ZONES, {0: 5, 2: 4}, 0, id="own pods first"),
        pytest.param("ba", 3, {}, SpreadOver.ZONES, {0: 2, 1: 1}, 0, id="new pods by ordinal, whatever their domain"),
        pytest.param("abc", 32, {}, SpreadOver.NODES, {0: 10, 1: 10, 2: 10}, 2, id="no room for all"),
        pytest.param("", 1, {}, SpreadOver.ZONES, {}, 1, id="no domain at all"),
    ],
)
def test_even_spread(
    zones: str, wanted: int, placed: dict[int, int], over: SpreadOver, result: dict[int, int], left: int
) -> None:
    assert even_spread(cluster(zones), vpod(wanted, placed), over, {}) == (placements(result), left)


@given(st.text("abc", min_size=1, max_size=8), st.integers(0, 40))
def test_from_nothing_no_zone_exceeds_its_share(zones: str, wanted: int) -> None:
    found, left = even_spread(cluster(zones), vpod(wanted), SpreadOver.ZONES, {})
    by_zone: dict[str, int] = {}
    for placement in found:
        zone = zones[int(placement.pod_name[2:])]
        by_zone[zone] = by_zone.get(zone, 0) + placement.vreplicas
    assert sum(by_zone.values()) + left == wanted
    assert all(total <= -(-wanted // len(set(zones))) for total in by_zone.values())


@given(st.text("abc", min_size=1, max_size=8), st.data())
def test_going_down_keeps_each_zones_floor(zones: str, data: st.DataObject) -> None:
    placed = {o: data.draw(st.integers(1, 9)) for o in range(len(zones))}
    wanted = data.draw(st.integers(0, sum(placed.values())))
    found, left = even_spread(cluster(zones), vpod(wanted, placed), SpreadOver.ZONES, {})
    assert left == 0
    assert sum(placement.vreplicas for placement in found) == wanted
    floor = wanted // len(set(zones))
    for zone in set(zones):
        before = sum(n for o, n in placed.items() if zones[o] == zone)
        after = sum(p.vreplicas for p in found if zones[int(p.pod_name[2:])] == zone)
        assert after >= min(before, floor)
