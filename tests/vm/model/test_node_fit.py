"""Filter and Score, for one node at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.config.settings import Scoring
from situate.vm.model.node_fit import fit, largest_total, score, usage_score
from situate.vm.model.resource_amounts import Amounts
from tests.vm.entries import amounts, node, pod


@pytest.mark.rule("vm:C19")
def test_known_pods_keep_what_is_known_of_them() -> None:
    entry = node(10, [pod("a", 6), pod("gone", 3)])
    tried = fit(entry, [pod("a", 2), pod("new", 1)], pod("c", 3))
    assert tried.fits
    assert tried.node.reserved == amounts(10)
    assert (tried.local_not_proposed, tried.proposed_not_local) == (("gone",), ("new",))
    assert not fit(entry, [pod("a", 2), pod("new", 1)], pod("c", 3.25)).fits


@pytest.mark.rule("vm:C19", "vm:C28")
def test_pods_of_ignored_namespaces_count_where_a_pod_is_to_fit() -> None:
    pause = pod("pause", 5, ignored=True)
    assert not fit(node(10, [pod("a", 4)]), [pod("a", 4), pause], pod("c", 2)).fits


@pytest.mark.rule("vm:C19")
def test_the_watermark_plays_no_part_and_every_resource_does() -> None:
    entry = node(10, [pod("a", 8)], watermark=0.1)
    assert fit(entry, entry.pods.values(), pod("c", 2)).fits
    short = replace(pod("c"), reserved=Amounts.from_values(0, amounts(2).memory + 1))
    assert not fit(entry, entry.pods.values(), short).fits


@pytest.mark.rule("vm:B4", "vm:I4")
def test_room_that_is_kept_for_others_is_no_room() -> None:
    entry = node(10, [pod("a", 4)])
    assert fit(entry, entry.pods.values(), pod("c", 4), kept=amounts(2)).fits
    assert not fit(entry, entry.pods.values(), pod("c", 4), kept=amounts(2.25)).fits
    assert score(entry, pod("c", 4), amounts(10), Scoring(), kept=amounts(2.25)).points == 0


@pytest.mark.rule("vm:C20")
@pytest.mark.parametrize(
    ("x", "low", "high", "peak", "wanted"),
    [
        (0.0, 0.5, 0.0, 0.8, 0.5),
        (0.4, 0.5, 0.0, 0.8, 0.75),
        (0.8, 0.5, 0.0, 0.8, 1.0),
        (0.9, 0.5, 0.0, 0.8, 0.5),
        (1.0, 0.5, 0.25, 0.8, 0.25),
        (0.0, 0.5, 0.25, 0.0, 1.0),
        (1.0, 0.5, 0.25, 1.0, 1.0),
    ],
)
def test_nodes_are_best_at_the_peak(x: float, low: float, high: float, peak: float, wanted: float) -> None:
    scoring = Scoring(min_usage_score=low, max_usage_score=high, score_peak=peak)
    assert usage_score(x, scoring) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.rule("vm:C20")
def test_the_worst_resource_and_the_node_s_size_count() -> None:
    entry = node(10, [replace(pod("a", 7), reserved=Amounts.from_values(7000, 0))])
    made = score(entry, pod("c", 1), amounts(20), Scoring())
    assert made.fractions == pytest.approx((0.5, 0.5625 * 0.5), abs=1e-9)
    assert made.points == 28
    assert score(entry, pod("c", 4), amounts(20), Scoring()) == type(made)(0, None)


@pytest.mark.rule("vm:B45", "vm:C20")
def test_a_resource_of_which_a_node_has_none_says_nothing_about_it() -> None:
    entry = node(10)
    wide = Amounts((*entry.total, 0))
    zero = Amounts.zero(3)
    entry = replace(entry, total=wide, watermark=wide, reserved=zero, committed=zero, migrating=zero)
    plain = replace(pod("c", 8), reserved=Amounts((*amounts(8), 0)), overcommit=Amounts.from_values(1000, 1000, 1000))
    assert score(entry, plain, Amounts((*amounts(10), 64)), Scoring()).points == 100
    greedy = replace(plain, reserved=Amounts((*amounts(8), 1)))
    assert score(entry, greedy, Amounts((*amounts(10), 64)), Scoring()).points == 0


@pytest.mark.rule("vm:D17")
def test_the_largest_total_falls_with_the_node_that_had_it() -> None:
    small, big = node(10), replace(node(40), total=Amounts.from_values(40_000, 1))
    assert largest_total([small, big]) == Amounts.from_values(40_000, small.total.memory)
    assert largest_total([small]) == small.total
