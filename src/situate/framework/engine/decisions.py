"""What comes out of a scheduling cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from situate.framework.cycle.cycle import PluginFailed, call
from situate.framework.engine.choose_node import Choice
from situate.framework.plugin_api.actions import Action, BindByExtender
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered, about_claims
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import Question
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A pod has a node, where it counts already; it is to be bound."""

    pod: WaitingPod
    node: str
    choice: Choice | None
    """None if the pod was held before, or placed in a run."""
    working: frozenset[str] | None = None
    """The PreBind plugins with something to do, if the pod was held; None: they are still to be asked."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRun:
    """Pods that were placed at once; `Placed` for each, without the objects."""

    pods: Sequence[WaitingPod]
    nodes: Indices
    """The node of each pod, as an index in `names`."""
    names: Sequence[str]

    def __iter__(self) -> Iterator[Placed]:
        for pod, index in zip(self.pods, self.nodes.tolist(), strict=True):
            yield Placed(pod, self.names[index], None)

    def __len__(self) -> int:
        return len(self.pods)


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A pod has a node, where it counts already; some plugins hold it until they allow it."""

    pod: WaitingPod
    node: str
    choice: Choice
    until: dict[str, float]
    """By plugin: when it rejects the pod if it has not allowed it."""


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """No node will do, or a plugin did not let the placement stand."""

    pod: WaitingPod
    diagnosis: Diagnosis
    post_filter: PostFiltered | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """What makes room for the pod."""
        return self.post_filter.actions if self.post_filter is not None else ()

    @property
    def nominate(self) -> str | None:
        """A node that is promised to the pod; empty takes an earlier promise back, as every end does in which no
        PostFilter plugin has had a say; None leaves it.
        """
        return self.post_filter.nominate if self.post_filter is not None else ""


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """Something broke; the pod is tried again after a while."""

    pod: WaitingPod
    error: str
    plugin: str = ""
    """Whose doing it was; empty if that is not known."""
    cause: Exception | None = None
    """What was raised where no plugin is known to have raised it."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """No decision yet: the cycle stands still, and no other begins, until extenders have answered (`Engine.resume`)."""

    pod: WaitingPod
    questions: tuple[Question, ...]
    """They may be asked at the same time."""


Decision: TypeAlias = Placed | Waiting | Refused | Failed


@dataclass(frozen=True, slots=True)
class Binding:
    """The steps of a binding cycle: each group only if all before it succeeded."""

    before: tuple[Action, ...]
    bind: tuple[Action, ...]
    after: tuple[Action, ...]
    """Whose failure changes nothing."""
    expected: bool
    """Whether a PreBind plugin has something to do: until that is done the pod is not bound, and others should know
    where it will be (KEP-5278).
    """

    @classmethod
    def of(
        cls,
        profile: Profile,
        pod: PodInfo,
        node: str,
        snapshot: Snapshot,
        binder: Extender | None = None,
        working: frozenset[str] | None = None,
    ) -> Binding:
        """PreBind of those with something to do, Bind of the first that takes it, PostBind.

        `binder`: the extender that binds instead of plugins; these come after one that may be ignored. `working`: as
        `working_before_binding` has told; None asks.

        `PluginFailed` if one of them cannot say.
        """
        if working is None:
            working = working_before_binding(profile, pod, node, snapshot)
        before = [
            action
            for plugin in profile.pre_bind
            if plugin.name in working
            for action in call(plugin, "PreBind", plugin.pre_bind, pod, node, snapshot)
        ]
        after = [
            action for teller in profile.post_bind for action in call(teller, "PostBind", teller.post_bind, pod, node)
        ]
        return cls(tuple(before), _bind(profile, pod, node, binder), tuple(after), bool(working))


def working_before_binding(profile: Profile, pod: PodInfo, node: str, snapshot: Snapshot) -> frozenset[str]:
    """The PreBind plugins with something to do (upstream runtime/framework.go RunPreBindPreFlights).

    `PluginFailed` if one of them cannot say.
    """
    working = set()
    for plugin in profile.pre_bind:
        if not pod.has_claims and about_claims(plugin):
            continue
        found = call(plugin, "PreBindPreFlight", plugin.pre_bind_preflight, pod, node, snapshot)
        if found.code is Code.SUCCESS:
            working.add(plugin.name)
        elif found.code is not Code.SKIP:
            raise PluginFailed(plugin.name, "PreBindPreFlight", found.message or found.code.title)
    return frozenset(working)


def _bind(profile: Profile, pod: PodInfo, node: str, extender: Extender | None) -> tuple[Action, ...]:
    if extender is not None:
        otherwise = _bind(profile, pod, node, None) if extender.ignorable else ()
        return (BindByExtender(pod.key, pod.uid, node, extender, otherwise),)
    for plugin in profile.bind:
        bind: tuple[Action, ...] | None = call(plugin, "Bind", plugin.bind, pod, node)
        if bind is not None:
            return tuple(bind)
    raise PluginFailed(profile.bind[-1].name, "Bind", "no plugin binds the pod")
