"""What a plugin may implement (upstream pkg/scheduler/framework interface.go, KEP-624).

A plugin is an object with a `name` and any of the methods below; having a method is being registered at that extension
point. It answers for all nodes of the snapshot at once, keeps nothing between calls, and performs nothing: what has to
be done is returned as actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.actions import Action
from situate.framework.plugin_api.compact_scores import Grades
from situate.framework.plugin_api.events import EventHint
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SKIP, SUCCESS, Code, Status
from situate.framework.results.verdict import Mask, Refusals, Verdict
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.storage import Reservation

Scores: TypeAlias = NDArray[np.int64]
"""(nodes of the snapshot that was given,)"""


class Reads(Enum):
    """What a plugin's Filter and Score look at beside the pod; tells which of their answers stay true how long.

    Of a plugin that does not read the whole cluster, NormalizeScore looks at nothing but a node's raw score and the
    lowest and the highest among those that it is given.
    """

    NODE = "node"
    """Labels, taints, names and images alone: true until somebody changes a node."""
    LOAD = "load"
    """Also what is on the node itself: true until a pod comes to that node or leaves it."""
    CLUSTER = "cluster"
    """Anything: true for one decision. What a plugin reads that does not say."""


def reads(plugin: object) -> Reads:
    """What the plugin's answers depend on; one that does not say may look at everything.

    Scores that change with every pod on a node and relate to those of all others are true for one decision only.
    """
    said: Reads = getattr(plugin, "reads", Reads.CLUSTER)
    if said is Reads.LOAD and hasattr(plugin, "score") and hasattr(plugin, "normalize"):
        return Reads.CLUSTER
    return said


def heeds_requests(plugin: object) -> bool:
    """Whether the plugin may look at what pods request; by an attribute it says that it does not, and so answers alike
    for templates that differ in nothing else (`PodTemplate.kin`).
    """
    return getattr(plugin, "heeds_requests", True)


def about_claims(plugin: object) -> bool:
    """Whether the plugin skips every pod that has neither volumes nor resource claims; it says so by an attribute."""
    return getattr(plugin, "about_claims", False)


class PreFiltered(msgspec.Struct, frozen=True, eq=False):
    """The answer of PreFilter; a dataclass would take five times as long, and so with the answers of other points."""

    status: Status = SUCCESS
    state: Any = None
    """What this plugin's later calls in the cycle are given; never changed, only replaced."""
    only: Mask | None = None
    """(nodes,): the only nodes that can do; None is all."""
    elsewhere: frozenset[str] = frozenset()
    """Names of nodes that could do as well, if there were such nodes; with `only`."""


SKIPPED: Final = PreFiltered(SKIP)
PASSED: Final = PreFiltered()


class PreScored(msgspec.Struct, frozen=True, eq=False):
    """The answer of PreScore."""

    code: Code = Code.SUCCESS
    """`SKIP` drops the plugin's Score; it has to hold for equal pods behind this one too, once this one is placed."""
    state: Any = None


@lru_cache(maxsize=1024)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """Equal sets as one object: a hundred thousand pods may wait for the same plugins."""
    return names


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Why no node will do."""

    snapshot: Snapshot
    refused: tuple[tuple[str, Refusals, Mask], ...] = ()
    """Each filter's plugin and refusals, with the nodes that belong to it: those that no earlier one refused."""
    status: Status | None = None
    """Set when PreFilter refused the pod as a whole; it then holds for every node."""

    def codes(self) -> NDArray[np.uint8]:
        """(nodes,)"""
        if self.status is not None:
            return np.full(self.snapshot.count, self.status.code, dtype=np.uint8)
        codes = np.zeros(self.snapshot.count, dtype=np.uint8)
        for _, refusals, where in self.refused:
            codes[where] = refusals.code[where]
        return codes

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins that later events are asked about on behalf of this pod."""
        names = {plugin for plugin, _, where in self.refused if where.any()}
        if self.status is not None and self.status.plugin:
            names.add(self.status.plugin)
        return _shared(frozenset(names))


@dataclass(frozen=True, slots=True)
class PostFiltered:
    """The answer of PostFilter."""

    status: Status
    nominate: str | None = None
    """A node for the pod; empty clears an earlier nomination; None leaves it."""
    actions: tuple[Action, ...] = ()


P = TypeVar("P")


def implements(plugin: object, point: Callable[..., P]) -> TypeGuard[P]:
    """Whether a plugin is called at an extension point, one of the protocols below.

    What `isinstance` says, at a tenth of its price: Python 3.11 finds a protocol's methods anew each time.
    """
    return all(getattr(plugin, name, None) is not None for name in _methods(point))


@cache
def _methods(point: type) -> tuple[str, ...]:
    return tuple(name for each in point.__mro__ for name in vars(each) if not name.startswith("_"))


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """Of its class; the one that profiles and messages use."""
        ...


@runtime_checkable
class ConcernPlugin(Plugin, Protocol):
    """One that can tell at little cost that a pod is none of its business, as most pods are for most plugins."""

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """False only where its PreFilter and its PreScore would both skip the pod, whatever nodes are feasible.

        It has to hold for equal pods behind this one too, once this one is placed.
        """
        ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Anything but success gates the pod: it waits, without back-off, until this plugin lets it go."""
        ...


@runtime_checkable
class EnqueuePlugin(Plugin, Protocol):
    def events(self) -> Sequence[EventHint]:
        """Which events may make a pod schedulable that this plugin rejected."""
        ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """A total order; the smallest is next."""
        ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered: ...


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    def add_pod(self, state: Any, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> Any:
        """The state as if `other` were on the node too; `node` is an index of the whole table."""
        ...

    def remove_pod(self, state: Any, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> Any:
        """The state as if `other` were not on the node."""
        ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """For every node of the snapshot, which may be a part of all. An exception ends the cycle with an error."""
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """An amount that has to be free on a node."""

    column: int | None
    """The resource's; None is a place among the node's pods."""
    asked: int
    reason: str
    """What the filter says where it is not."""


@runtime_checkable
class NeedsPlugin(Plugin, Protocol):
    """A filter that compares amounts alone: it passes exactly the nodes where all needs are met."""

    def needs(self, pod: PodInfo, snapshot: Snapshot) -> tuple[Need, ...]:
        """In the order of the reasons."""
        ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: Any) -> PostFiltered:
        """`cycle` is a `situate.framework.preemption.post_filter.Cycle`: what it takes to filter again, on changed
        snapshots.
        """
        ...


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:
        """`state` is PreFilter's; the snapshot holds the feasible nodes alone."""
        ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """Raw integers, one a node; `state` is PreScore's, or PreFilter's where there is no PreScore."""
        ...


@runtime_checkable
class NormalizePlugin(Plugin, Protocol):
    def normalize(self, state: Any, pod: PodInfo, raw: Scores) -> Scores:
        """To 0..100, the better the higher. Without it the raw scores must be in that range."""
        ...


@runtime_checkable
class GradingPlugin(NormalizePlugin, Protocol):
    """One whose NormalizeScore looks at nothing but a node's raw score and the lowest and the highest."""

    def grades(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Grades:
        """What Score says, each of the scores once if few of them differ."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Reserved:
    """The answer of Reserve."""

    status: Status = SUCCESS
    storage: Reservation = Reservation()  # noqa: RUF009  # frozen
    """What the pod is promised; it counts in all snapshots until the pod is confirmed, or not bound after all."""


RESERVED: Final = Reserved()


@runtime_checkable
class AnnotationsPlugin(Plugin, Protocol):
    """One to which annotations of a pod to place make a difference: equal pods are equal in these too."""

    @property
    def annotations(self) -> Sequence[str]:
        """Their keys; `PodTemplate.annotations` has the values."""
        ...


@runtime_checkable
class AllotPlugin(Plugin, Protocol):
    """One that says which units of a node a pod gets there, such as which of its GPUs
    (`situate.framework.snapshot.device_allocations`).

    There is no such point upstream, where a Reserve plugin keeps this to itself.
    """

    @property
    def allotments(self) -> Sequence[str]:
        """Keys of the annotations that `allot` gives."""
        ...

    def allot(self, pod: PodInfo, node: Snapshot) -> Mapping[str, str]:
        """Annotations that say what the pod gets of this node, the only one of the snapshot, before it is there.

        The pod counts with them from now on, and later calls are given the pod as it is then; writing them to the API
        is PreBind's part. Empty if the pod needs no units. The first plugin with an answer decides.
        """
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
        """The pod counts in the snapshot already."""
        ...

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Cannot fail, may be called twice, and when `reserve` was not."""
        ...


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        """Success, a rejection, or `WAIT` with a time-out in seconds."""
        ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        """`SKIP` where there is nothing to do."""
        ...

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        """What has to be done before the pod is bound; all of it must succeed."""
        ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    def bind(self, pod: PodInfo, node: str) -> tuple[Action, ...] | None:
        """What binds the pod; None leaves it to the next plugin."""
        ...


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    def post_bind(self, pod: PodInfo, node: str) -> tuple[Action, ...]:
        """What to tell others; its failure changes nothing."""
        ...


HIGHEST: Final = 100
"""The highest score of a plugin before its weight."""
