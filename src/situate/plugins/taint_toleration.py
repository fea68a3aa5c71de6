"""TaintToleration: excludes nodes with taints that a Pod does not tolerate (upstream plugins/tainttoleration)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.results.verdict import Mask, Verdict, refusals
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node, Taint
from situate.objects.kinds.pods import Toleration
from situate.plugins.normalization import default_normalize

_REFUSING: Final = ("NoSchedule", "NoExecute")
_AVOIDING: Final = "PreferNoSchedule"


class TaintToleration:
    """A Filter plugin for untolerated NoSchedule and NoExecute taints, and a Score plugin for PreferNoSchedule."""

    name = "TaintToleration"
    reads = Reads.NODE
    heeds_requests = False

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        """Refuse nodes with untolerated taints; unresolvable, because preemption removes no taint."""
        tolerations = pod.template.tolerations

        def refused(nodes: NodeTable) -> Mask:
            return nodes.where_taints(lambda taints: untolerated_taint(taints, tolerations) is not None)

        where = snapshot.static((self.name, "filter", tolerations), refused)
        return Verdict(
            ~where, lambda: refusals(snapshot.count, (where, "node(s) had untolerated taint(s)", Code.UNRESOLVABLE))
        )

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Select the tolerations of PreferNoSchedule or of any effect."""
        return PreScored(state=tuple(each for each in pod.template.tolerations if each.effect in ("", _AVOIDING)))

    def score(self, state: tuple[Toleration, ...], pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        """Return the number of untolerated PreferNoSchedule taints."""

        def counted(nodes: NodeTable) -> Scores:
            return nodes.map_taints(
                lambda taints: sum(taint.effect == _AVOIDING and not is_tolerated(taint, state) for taint in taints)
            )

        return snapshot.static((self.name, "score", state), counted)

    def normalize(self, state: Any, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        return default_normalize(raw, reverse=True)

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for a node that is new or loses a taint and is now tolerated, and for more tolerations."""
        return (
            EventHint(Subject.NODE, Change.ADD | Change.TAINTS, _hint_after_node),
            EventHint(Subject.POD, Change.TOLERATIONS),
        )


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    tolerations = pod.template.tolerations
    now = untolerated_taint(new.spec.taints, tolerations) is None
    before = old is not None and untolerated_taint(old.spec.taints, tolerations) is None
    return Hint.QUEUE if now and not before else Hint.SKIP


def untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that excludes the Pod; None if there is none."""
    return next((taint for taint in taints if taint.effect in _REFUSING and not is_tolerated(taint, tolerations)), None)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether one of the tolerations covers the taint."""
    return any(covers(toleration, taint) for toleration in tolerations)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration covers a taint (component-helpers ToleratesTaint).

    An empty effect covers every effect, an empty key every key. Operator Exists ignores the value.
    """
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
