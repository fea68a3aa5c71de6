"""500 pods beside the real kube-scheduler, and findings from many more that need no control plane to be shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

import pytest

from situate.testing.histories.play import HistoryTotals as VPodTotals
from tests.conftest import PlaneFactory
from tests.e2e.differential.__main__ import PREFIX, Totals
from tests.e2e.differential.cases import Case, Played
from tests.e2e.differential.comparing import HEARD_LATE, MOST_HEARD_LATE, differences, rarely, table
from tests.e2e.differential.extenders import ExtenderServer
from tests.e2e.differential.findings import FINDINGS, Finding
from tests.e2e.differential.ours import Ours
from tests.e2e.differential.play import play
from tests.e2e.differential.theirs import KubeScheduler, Theirs, options

SEEDS = (1, 8, 26, 33, 51, 53, 67, 72, 85, 88, 95, 98)
"""Between them each plugin has its say often enough, and room is made for every reason; from 100 on come others."""
PODS = 500
AT_MOST = 1500
"""Where chance had it that something was rare: among equally good nodes kube-scheduler takes any."""


@pytest.fixture(scope="module")
def extenders() -> Iterator[ExtenderServer]:
    with ExtenderServer() as server:
        yield server


@pytest.fixture(scope="module")
def kube_scheduler(start_control_plane: PlaneFactory, extenders: ExtenderServer) -> Iterator[KubeScheduler]:
    scheduler = KubeScheduler(start_control_plane(options(extenders)), extenders)
    yield scheduler
    scheduler.close()


@pytest.mark.slow
@pytest.mark.realcluster
@pytest.mark.xdist_group("differential")
def test_the_engine_answers_as_the_real_kube_scheduler(
    kube_scheduler: KubeScheduler, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    counts: Counter[str] = Counter()
    cases: list[Case] = []
    seeds = chain(SEEDS, count(100))
    clusters = 0
    while not cases and (counts["pods"] < PODS or (rarely(counts) and counts["pods"] < AT_MOST)):
        played = play(next(seeds), kube_scheduler)
        counts += played.counts
        cases += played.cases
        clusters += 1
    heading = f"{counts['pods']} pods of {clusters} clusters beside the real kube-scheduler, {len(cases)} differences:"
    record_property("table", "\n".join((heading, *table(counts))))
    for case in cases:
        file = tmp_path / f"kube-scheduler-{case.seed}-{case.pod['metadata']['name']}.json"
        file.write_text(json.dumps(case.as_json(), indent=1))
        print("\n".join((*case.differences, f"python -m tests.e2e.differential replay {file}")))
    assert not cases
    assert not rarely(counts)
    assert counts[HEARD_LATE] <= MOST_HEARD_LATE


def _each_finding(test: Callable[..., None]) -> Callable[..., None]:
    decorated: Callable[..., None] = pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: each.name)(test)
    return decorated


@_each_finding
def test_what_was_found_stays_mended(finding: Finding, extenders: ExtenderServer) -> None:
    answer = Ours(finding.cluster, extenders.url).told_about(finding.pod)
    assert differences(finding.theirs, answer) == []


@_each_finding
def test_another_answer_is_a_difference(finding: Finding, extenders: ExtenderServer) -> None:
    answer = Ours(finding.cluster, extenders.url).told_about(finding.pod)
    theirs = finding.theirs
    others = (
        Theirs("elsewhere", ""),
        Theirs("", theirs.message + " really"),
        *([] if theirs.node else [Theirs("", theirs.message, finding.nodes[0]["metadata"]["name"])]),
    )
    assert all(differences(other, answer) for other in others)


@_each_finding
@pytest.mark.realcluster
@pytest.mark.xdist_group("differential")
def test_what_was_found_is_what_kube_scheduler_says(finding: Finding, kube_scheduler: KubeScheduler) -> None:
    assert kube_scheduler.ask(finding.cluster, finding.pod) == finding.theirs


def test_what_has_been_compared_is_kept_for_a_commit(tmp_path: Path) -> None:
    totals = Totals.load("abc", PREFIX, tmp_path)
    assert (totals.pods, totals.next_seed) == (0, 0)
    totals.add(6, Played(Counter({"pods": 50, "placed": 20})))
    totals.add(7, Played(Counter({"pods": 48, "refused": 9})))
    totals.save(PREFIX, tmp_path)
    again = Totals.load("abc", PREFIX, tmp_path)
    assert again == totals
    assert (again.pods, again.next_seed, again.counts["refused"]) == (98, 8, 9)
    assert VPodTotals.load("abc", "", tmp_path).next_seed == 0, "other runs keep theirs apart"
