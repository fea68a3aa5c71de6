"""Tells objects of a kind that nobody schedules that this is so, instead of leaving them to wait in silence."""

from __future__ import annotations

from collections.abc import Container

from situate.kube.errors import NotFound
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.vpod.controller.notify import Reporter
from situate.vpod.controller.sources import Found, Sources
from situate.vpod.controller.writer import Writing
from situate.vpod.model.vpod import Key
from situate.vpod.sources.adapters import nobodys
from situate.vpod.sources.status_patch import Verdict, condition_status

UNCLAIMED_S = 10.0
"""So long an object of an unknown kind may wait for a scheduler of its own before it is told that there is none."""


class Unclaimed:
    """`served`: the kinds that somebody schedules; ConsumerGroups of any other are told so. None: not by us."""

    def __init__(self, sources: Sources, writing: Writing, reporter: Reporter, served: Container[str] | None) -> None:
        self._sources = sources
        self._writing = writing
        self._reporter = reporter
        self._served = served
        self._since: dict[Key, float] = {}  # when it was first seen that nobody schedules it

    def why(self, found: Found) -> str:
        """Why nobody schedules an object; empty if somebody does, or it is not for us to say."""
        if self._served is None or found.object.metadata.deletion_timestamp is not None:
            return ""
        return nobodys(found.source.settings, found.object, self._served)

    async def tell(self, key: Key, now: float) -> Result:
        """An object that is no vpod of ours, or gone. Told only where nobody has written the condition for a while.

        So an installation that we know nothing of, and that knows the kind, has the word.
        """
        for found in self._sources.named(key):
            why, condition = self.why(found), found.source.settings.condition
            if not why or condition_status(found.object.content, condition) != "Unknown":
                continue
            due = self._since.setdefault(key, now) + UNCLAIMED_S
            if now < due:
                return Result(requeue_after=due - now)
            try:
                await self._writing.condition(
                    found, Verdict(condition, scheduled=False, reason="Schedule", message=why)
                )
            except NotFound:
                continue
            self._reporter.nobodys(found.reference, key, why)
        self.forget(key)
        return DONE

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)
