"""The extension points of plugins (upstream pkg/scheduler/framework interface.go, KEP-624).

A plugin is an object with a `name` and any of the methods below. A method registers the plugin at that extension point.
The plugin answers for all nodes of the snapshot at once, keeps no state between calls, and performs no writes. It
returns the necessary writes as actions.
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
"""(nodes of the given snapshot,)"""


class Reads(Enum):
    """The data that a plugin's Filter and Score read besides the Pod; it decides how long their answers stay valid.

    The NormalizeScore of a plugin that does not read the whole cluster has only two inputs: a node's raw score, and the
    lowest and highest score that it receives.
    """

    NODE = "node"
    """Only labels, taints, names and images: valid until a Node changes."""
    LOAD = "load"
    """Also the load of the node itself: valid until a Pod joins or leaves that node."""
    CLUSTER = "cluster"
    """Any data: valid for one decision. The default of a plugin without a declaration."""


def reads(plugin: object) -> Reads:
    """Return the data that the plugin's answers depend on; without a declaration, the whole cluster.

    Normalized scores that change with every Pod on a node are valid for one decision only, because they depend on all
    nodes.
    """
    said: Reads = getattr(plugin, "reads", Reads.CLUSTER)
    if said is Reads.LOAD and hasattr(plugin, "score") and hasattr(plugin, "normalize"):
        return Reads.CLUSTER
    return said


def heeds_requests(plugin: object) -> bool:
    """Return whether the plugin may read the requests of Pods.

    A plugin declares by an attribute that it does not. It then answers alike for templates that differ only in their
    requests (`PodTemplate.kin`).
    """
    return getattr(plugin, "heeds_requests", True)


def about_claims(plugin: object) -> bool:
    """Return whether the plugin declares by an attribute that it skips Pods without volumes and resource claims."""
    return getattr(plugin, "about_claims", False)


class PreFiltered(msgspec.Struct, frozen=True, eq=False):
    """The answer of PreFilter. A dataclass would take five times as long here and at other points."""

    status: Status = SUCCESS
    state: Any = None
    """State for the plugin's later calls in the cycle; never changed, only replaced."""
    only: Mask | None = None
    """(nodes,): the only nodes that can be feasible; None means all."""
    elsewhere: frozenset[str] = frozenset()
    """With `only`: names that the plugin also admits, but that are not in the snapshot."""


SKIPPED: Final = PreFiltered(SKIP)
PASSED: Final = PreFiltered()


class PreScored(msgspec.Struct, frozen=True, eq=False):
    """The answer of PreScore."""

    code: Code = Code.SUCCESS
    """`SKIP` drops the plugin's Score. It must also hold for equal Pods that follow once this Pod is placed."""
    state: Any = None


@lru_cache(maxsize=1024)
def _share_names(names: frozenset[str]) -> frozenset[str]:
    """Return equal sets as one object: 100,000 Pods may wait for the same plugins."""
    return names


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """The reasons why no node is feasible."""

    snapshot: Snapshot
    refused: tuple[tuple[str, Refusals, Mask], ...] = ()
    """Each filter's plugin and refusals, with the nodes that it owns: those that no earlier filter refused."""
    status: Status | None = None
    """Set if PreFilter refused the Pod as a whole; the status then applies to every node."""

    def codes(self) -> NDArray[np.uint8]:
        """Return (nodes,): the code of each node."""
        if self.status is not None:
            return np.full(self.snapshot.count, self.status.code, dtype=np.uint8)
        codes = np.zeros(self.snapshot.count, dtype=np.uint8)
        for _, refusals, where in self.refused:
            codes[where] = refusals.code[where]
        return codes

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose hints evaluate later events for this Pod."""
        names = {plugin for plugin, _, where in self.refused if where.any()}
        if self.status is not None and self.status.plugin:
            names.add(self.status.plugin)
        return _share_names(frozenset(names))


@dataclass(frozen=True, slots=True)
class PostFiltered:
    """The answer of PostFilter."""

    status: Status
    nominate: str | None = None
    """The node to nominate; empty clears an earlier nomination; None leaves it unchanged."""
    actions: tuple[Action, ...] = ()


P = TypeVar("P")


def implements(plugin: object, point: Callable[..., P]) -> TypeGuard[P]:
    """Return whether a plugin implements an extension point, one of the protocols below.

    The result is that of `isinstance` in a tenth of the time: Python 3.11 collects a protocol's methods for each call.
    """
    return all(getattr(plugin, name, None) is not None for name in _methods(point))


@cache
def _methods(point: type) -> tuple[str, ...]:
    return tuple(name for each in point.__mro__ for name in vars(each) if not name.startswith("_"))


class Plugin(Protocol):
    """The common part of all plugins."""

    @property
    def name(self) -> str:
        """The name of the plugin's class, used in profiles and messages."""
        ...


@runtime_checkable
class ConcernPlugin(Plugin, Protocol):
    """A plugin with a cheap check for Pods that do not concern it. Most Pods do not concern most plugins."""

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Return False only if PreFilter and PreScore would both skip the Pod with any set of feasible nodes.

        The answer must also hold for equal Pods that follow once this Pod is placed.
        """
        ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a status. Any but success gates the Pod: it waits, without backoff, until this plugin releases it."""
        ...


@runtime_checkable
class EnqueuePlugin(Plugin, Protocol):
    def events(self) -> Sequence[EventHint]:
        """Return the events that may make a Pod schedulable that this plugin rejected."""
        ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Return a key with a total order; the Pod with the smallest key is next."""
        ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered: ...


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    def add_pod(self, state: Any, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> Any:
        """Return the state as if `other` were on the node too; `node` is an index of the whole table."""
        ...

    def remove_pod(self, state: Any, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> Any:
        """Return the state as if `other` were not on the node."""
        ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """Answer for every node of the snapshot, which may be a subset. An exception ends the cycle with an error."""
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """An amount that must be free on a node."""

    column: int | None
    """The column of the resource; None means one of the node's allowed Pods."""
    asked: int
    reason: str
    """The filter's reason if the amount is not free."""


@runtime_checkable
class NeedsPlugin(Plugin, Protocol):
    """A filter that compares only amounts: it passes exactly the nodes that meet all needs."""

    def needs(self, pod: PodInfo, snapshot: Snapshot) -> tuple[Need, ...]:
        """Return the needs in the order of the reasons."""
        ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(self, pod: PodInfo, diagnosis: Diagnosis, cycle: Any) -> PostFiltered:
        """Answer for a Pod without feasible nodes.

        `cycle` is a `situate.framework.preemption.post_filter.Cycle`, with which the plugin can filter changed
        snapshots.
        """
        ...


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:
        """Prepare the score. `state` is that of PreFilter; the snapshot has only the feasible nodes."""
        ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """Return raw integers, one per node. `state` is that of PreScore, or that of PreFilter without PreScore."""
        ...


@runtime_checkable
class NormalizePlugin(Plugin, Protocol):
    def normalize(self, state: Any, pod: PodInfo, raw: Scores) -> Scores:
        """Normalize to 0..100; higher is better. Without this method the raw scores must be in that range."""
        ...


@runtime_checkable
class GradingPlugin(NormalizePlugin, Protocol):
    """A plugin whose NormalizeScore depends only on a node's raw score and on the lowest and the highest."""

    def grades(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Grades:
        """Return the scores of Score, each distinct value once if there are few."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Reserved:
    """The answer of Reserve."""

    status: Status = SUCCESS
    storage: Reservation = Reservation()  # noqa: RUF009  # frozen
    """The storage reserved for the Pod. It counts in all snapshots until the Pod is confirmed or its binding fails."""


RESERVED: Final = Reserved()


@runtime_checkable
class AnnotationsPlugin(Plugin, Protocol):
    """A plugin that reads annotations of a Pod to place. Equal Pods are then equal in these annotations too."""

    @property
    def annotations(self) -> Sequence[str]:
        """The keys of the annotations; `PodTemplate.annotations` has the values."""
        ...


@runtime_checkable
class AllotPlugin(Plugin, Protocol):
    """A plugin that allocates specific units of a node to a Pod, such as one of its GPUs.

    Upstream has no such point; a Reserve plugin there does this internally. See
    `situate.framework.snapshot.device_allocations`.
    """

    @property
    def allotments(self) -> Sequence[str]:
        """Keys of the annotations that `allot` returns."""
        ...

    def allot(self, pod: PodInfo, node: Snapshot) -> Mapping[str, str]:
        """Return annotations that name the units of this node for the Pod, before the Pod counts there.

        The node is the only one of the snapshot. The Pod counts with the annotations from now on, and later calls get
        the annotated Pod. PreBind writes them to the API. Empty if the Pod needs no units. The first non-empty answer
        decides.
        """
        ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Reserved:
        """Reserve for the Pod, which already counts in the snapshot."""
        ...

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Revert `reserve`. It cannot fail, and may be called twice or without `reserve`."""
        ...


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, pod: PodInfo, node: str, now: float) -> tuple[Status, float]:
        """Return success, a rejection, or `WAIT` with a timeout in seconds."""
        ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind_preflight(self, pod: PodInfo, node: str, snapshot: Snapshot) -> Status:
        """Return `SKIP` if there is nothing to do."""
        ...

    def pre_bind(self, pod: PodInfo, node: str, snapshot: Snapshot) -> tuple[Action, ...]:
        """Return the actions that must succeed before the Pod is bound."""
        ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    def bind(self, pod: PodInfo, node: str) -> tuple[Action, ...] | None:
        """Return the actions that bind the Pod; None leaves binding to the next plugin."""
        ...


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    def post_bind(self, pod: PodInfo, node: str) -> tuple[Action, ...]:
        """Return informational actions; their failure changes nothing."""
        ...


HIGHEST: Final = 100
"""The highest score of a plugin, without its weight."""
