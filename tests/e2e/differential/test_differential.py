"""500 pods beside the real kube-scheduler, and findings from many more that need no control plane to be shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

import pytest

from tests.conftest import PlaneFactory
from tests.e2e.differential.comparing import differences, rarely, table
from tests.e2e.differential.findings import FINDINGS, Finding
from tests.e2e.differential.ours import Ours
from tests.e2e.differential.play import Case, play
from tests.e2e.differential.theirs import OPTIONS, KubeScheduler, Theirs

SEEDS = (1, 3, 4, 7, 11, 19, 21, 28, 29, 32)
"""Between them each plugin has its say often enough; those from 100 on come after."""
PODS = 500
AT_MOST = 1000
"""Where chance had it that something was rare: among equally good nodes kube-scheduler takes any."""


@pytest.fixture(scope="module")
def kube_scheduler(start_control_plane: PlaneFactory) -> Iterator[KubeScheduler]:
    scheduler = KubeScheduler(start_control_plane(OPTIONS))
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


def _each_finding(test: Callable[..., None]) -> Callable[..., None]:
    decorated: Callable[..., None] = pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: each.name)(test)
    return decorated


@_each_finding
def test_what_was_found_stays_mended(finding: Finding) -> None:
    ours = Ours(finding.cluster)
    ours.set_pod(finding.pod)
    assert differences(finding.theirs, ours.answer(finding.pod["metadata"]["uid"])) == []


@_each_finding
def test_another_answer_is_a_difference(finding: Finding) -> None:
    ours = Ours(finding.cluster)
    ours.set_pod(finding.pod)
    answer = ours.answer(finding.pod["metadata"]["uid"])
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
