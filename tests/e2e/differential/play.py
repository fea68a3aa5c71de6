"""A seed's cluster and its pods, which come one at a time: each is decided before the next is posted."""

from __future__ import annotations

from tests.e2e.differential.api import Object
from tests.e2e.differential.cases import Played
from tests.e2e.differential.clusters import changed_nodes, claims_of, draw_cluster
from tests.e2e.differential.drawing import Draw
from tests.e2e.differential.life import Life
from tests.e2e.differential.pods import INCOMING, Theme, draw_pod
from tests.e2e.differential.theirs import KubeScheduler

PODS_EACH = 50
_EVERY = 4
"""One cluster in so many changes half-way."""


def play(seed: int, scheduler: KubeScheduler, pods: int = PODS_EACH) -> Played:
    """One cluster and so many pods. It goes on after a difference: each pod is compared on its own."""
    draw = Draw(seed)
    cluster = draw_cluster(draw)
    life = Life(seed, scheduler, cluster)
    gated: Object | None = None
    for number in range(pods):
        if number == pods // 2 and seed % _EVERY == 0 and gated is None and not life.promised:
            life.change_nodes(changed_nodes(draw, cluster))
        theme = draw.one(INCOMING)
        pod = draw_pod(draw, f"pod-{number}", theme, claims_of(cluster))
        if theme is Theme.GATES:
            gated = gated or life.hold(pod)
            continue
        if life.promised:
            life.decide_in_between(pod)
        else:
            life.decide(life.post(pod))
        if life.over:
            break
        if gated is not None and not life.promised:
            life.decide(life.let_go(gated))
            gated = None
    return life.played
