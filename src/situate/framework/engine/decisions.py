"""The results of a scheduling cycle."""

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
from situate.framework.preemption.extenders import ExtenderQuestion
from situate.framework.profile.profile import Profile
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A Pod that has a node, where it counts already, and is ready to be bound."""

    pod: WaitingPod
    node: str
    choice: Choice | None
    """None if the Pod waited for Permit, or was placed in a run."""
    working: frozenset[str] | None = None
    """The PreBind plugins with work, if the Pod waited for Permit; None if they are not known yet."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRun:
    """Pods that were placed at once: a compact form of one `Placed` each."""

    pods: Sequence[WaitingPod]
    nodes: Indices
    """The node of each Pod, as an index in `names`."""
    names: Sequence[str]

    def __iter__(self) -> Iterator[Placed]:
        for pod, index in zip(self.pods, self.nodes.tolist(), strict=True):
            yield Placed(pod, self.names[index], None)

    def __len__(self) -> int:
        return len(self.pods)


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A Pod that has a node, where it counts already, and waits until its Permit plugins allow it."""

    pod: WaitingPod
    node: str
    choice: Choice
    until: dict[str, float]
    """By plugin: the time at which the Pod is rejected unless the plugin has allowed it."""


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """A Pod without a feasible node, or whose placement a plugin rejected."""

    pod: WaitingPod
    diagnosis: Diagnosis
    post_filter: PostFiltered | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that free capacity for the Pod."""
        return self.post_filter.actions if self.post_filter is not None else ()

    @property
    def nominate(self) -> str | None:
        """The node to nominate; empty clears an earlier nomination; None leaves it.

        Without a PostFilter result the value is empty.
        """
        return self.post_filter.nominate if self.post_filter is not None else ""


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """A Pod whose cycle ended with an error. It is tried again after backoff."""

    pod: WaitingPod
    error: str
    plugin: str = ""
    """The plugin that failed; empty if it is unknown."""
    cause: Exception | None = None
    """The exception, if the plugin that raised it is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """An open cycle that waits for replies of extenders (`Engine.resume`). No other cycle starts before."""

    pod: WaitingPod
    questions: tuple[ExtenderQuestion, ...]
    """These may be asked at the same time."""


Decision: TypeAlias = Placed | Waiting | Refused | Failed


@dataclass(frozen=True, slots=True)
class Binding:
    """The steps of a binding cycle. Each group runs only if all earlier groups succeeded."""

    before: tuple[Action, ...]
    bind: tuple[Action, ...]
    after: tuple[Action, ...]
    """Actions whose failure changes nothing."""
    expected: bool
    """Whether a PreBind plugin has work.

    The Pod is then bound only after this work, and its expected node should be visible before that (KEP-5278).
    """

    @classmethod
    def for_pod(
        cls,
        profile: Profile,
        pod: PodInfo,
        node: str,
        snapshot: Snapshot,
        binder: Extender | None = None,
        working: frozenset[str] | None = None,
    ) -> Binding:
        """Collect the actions that bind the Pod.

        They come from the PreBind plugins with work, the first Bind plugin that accepts the Pod, and the PostBind
        plugins.

        `binder` is the extender that binds in place of plugins. If it is ignorable, the plugins bind after its failure.
        `working` is the result of `active_pre_bind_plugins`; None computes it.

        `PluginFailed` if a plugin fails.
        """
        if working is None:
            working = active_pre_bind_plugins(profile, pod, node, snapshot)
        before = [
            action
            for plugin in profile.pre_bind
            if plugin.name in working
            for action in call(plugin, "PreBind", plugin.pre_bind, pod, node, snapshot)
        ]
        after = [
            action for teller in profile.post_bind for action in call(teller, "PostBind", teller.post_bind, pod, node)
        ]
        return cls(tuple(before), _bind_actions(profile, pod, node, binder), tuple(after), bool(working))


def active_pre_bind_plugins(profile: Profile, pod: PodInfo, node: str, snapshot: Snapshot) -> frozenset[str]:
    """Return the PreBind plugins with work (upstream runtime/framework.go RunPreBindPreFlights).

    `PluginFailed` if a plugin fails.
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


def _bind_actions(profile: Profile, pod: PodInfo, node: str, extender: Extender | None) -> tuple[Action, ...]:
    if extender is not None:
        otherwise = _bind_actions(profile, pod, node, None) if extender.ignorable else ()
        return (BindByExtender(pod.key, pod.uid, node, extender, otherwise),)
    for plugin in profile.bind:
        bind: tuple[Action, ...] | None = call(plugin, "Bind", plugin.bind, pod, node)
        if bind is not None:
            return tuple(bind)
    raise PluginFailed(profile.bind[-1].name, "Bind", "no plugin binds the pod")
