"""The scheduler without I/O: events go in, decisions come out.

`Engine` joins cache, queue and plugins. Whoever drives it tells it what happens and what time it is, asks for
decisions, has them performed, and tells it how that went. The live scheduler, the simulator, what-if questions and the
benchmarks drive the same engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from situate.framework.actions import Action
from situate.framework.cache import Cache
from situate.framework.choosing import Choice, Chooser
from situate.framework.cycle import NO_NODES, PluginFailed
from situate.framework.nominations import Nominations
from situate.framework.plugin import Diagnosis, PostFiltered, Scores
from situate.framework.profile import Profile
from situate.framework.queue.scheduling import QueueSettings, SchedulingQueue
from situate.framework.queue.waiting import WaitingPod
from situate.framework.visiting import best, best_at_random


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Ways to the same answer in less time; each can be switched off."""

    classes: bool = True
    """Keep what is known per class of equal pods, and ask again only about nodes that changed."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A pod has a node; it counts there already."""

    pod: WaitingPod
    node: str
    choice: Choice


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """No node will do."""

    pod: WaitingPod
    diagnosis: Diagnosis
    post_filter: PostFiltered | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        return self.post_filter.actions if self.post_filter is not None else ()


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """Something broke; the pod is tried again."""

    pod: WaitingPod
    error: str
    plugin: str = ""


Decision: TypeAlias = Placed | Refused | Failed


class Engine:
    """Mutable, of one scheduler."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        queue: QueueSettings = QueueSettings(),  # noqa: B008  # frozen
        shortcuts: Shortcuts = Shortcuts(),  # frozen
        seed: int | None = None,
    ) -> None:
        """`seed` draws among equally good nodes; None takes the first of them."""
        by_name = {profile.scheduler_name: profile for profile in profiles}
        self.cache = Cache()
        self.queue = SchedulingQueue(by_name, queue)
        self.nominations = Nominations()
        self._choosers = {name: Chooser(profile, by_class=shortcuts.classes) for name, profile in by_name.items()}
        self._random = None if seed is None else np.random.default_rng(seed)

    def schedule(self, now: float) -> Decision | None:
        """Takes the next pod through its scheduling cycle; None when no pod's turn has come."""
        waiting = self.queue.pop()
        if waiting is None:
            return None
        try:
            return self._decide(waiting, now)
        except PluginFailed as failed:
            self.queue.put_back(waiting, now)
            return Failed(waiting, str(failed), failed.plugin)

    def _decide(self, waiting: WaitingPod, now: float) -> Decision:
        info = waiting.info
        snapshot = self.cache.snapshot()
        if not snapshot.count:
            return self._refuse(waiting, Diagnosis(snapshot, status=NO_NODES), now)
        index = snapshot.nodes.index
        found = self._choosers[info.pod.spec.scheduler_name].choose(
            info,
            snapshot,
            self.nominations.against(info, index) if self.nominations else {},
            index.get(info.nominated) if info.nominated else None,
            self._tie,
        )
        if not isinstance(found, Choice):
            return self._refuse(waiting, found.diagnosis(), now)
        node = snapshot.nodes.names[found.index]
        self.cache.assume(info, node)
        self.nominations.remove(info.uid)
        self.queue.done(info.uid)
        return Placed(waiting, node, found)

    def _tie(self, totals: Scores) -> int:
        if self._random is None:
            return best(totals)
        return best_at_random(totals, self._random)

    def _refuse(self, waiting: WaitingPod, diagnosis: Diagnosis, now: float) -> Refused:
        self.queue.put_back(waiting, now, diagnosis.rejectors)
        return Refused(waiting, diagnosis)
