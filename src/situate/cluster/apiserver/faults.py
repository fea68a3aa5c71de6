"""Faults on order: requests that are delayed, refused or answered by silence, watches cut, a log compacted, a pause.

The server asks `Faults.of(request)` before it answers and obeys; nothing here waits or sends. Rules are tried in the
order in which they were added; the first that applies is used up by one. Set from code, or over HTTP at
`/situate/faults`, which no client of Kubernetes ever calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from situate.cluster.storage.effects import Identity
from situate.objects.messages import Request


class Kind(Enum):
    DELAY = "delay"
    """The request is answered `delay_s` later."""
    REFUSE = "refuse"
    """The request is not carried out; the answer has `status` and, if given, Retry-After."""
    DROP_REQUEST = "dropRequest"
    """The request is not carried out and the connection is cut."""
    DROP_ANSWER = "dropAnswer"
    """The request is carried out and the connection is cut."""


class Rule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which requests, and what happens to them. Empty conditions hold for every request."""

    fault: Kind
    methods: tuple[str, ...] = ()
    """Upper case."""
    path: str = "*"
    """Shell pattern on the path; `*` crosses slashes."""
    users: tuple[str, ...] = ()
    """Names of users."""
    watches: bool | None = None
    """Only watches, or only other requests; None for both."""
    skip: int = 0
    """So many matching requests go unharmed first."""
    times: int | None = 1
    """How many are harmed; None for all."""
    delay_s: float = 0.0
    status: int = 503
    retry_after_s: int | None = None
    message: str = "refused on purpose: a fault was ordered at /situate/faults"

    def applies(self, request: Request, identity: Identity) -> bool:
        """Whether the conditions hold."""
        if self.methods and request.method not in self.methods:
            return False
        if self.users and identity.user not in self.users:
            return False
        watching = request.parameter("watch") in ("1", "true")
        if self.watches is not None and self.watches is not watching:
            return False
        return fnmatchcase(request.path, self.path)


@dataclass(slots=True)
class Ordered:
    """A rule and how far it has got."""

    rule: Rule
    seen: int = 0
    done: int = 0


@dataclass(slots=True)
class Faults:
    """The rules in force."""

    ordered: list[Ordered] = field(default_factory=list)
    paused: bool = False
    """Nothing is answered until resumed; the shell waits."""

    def add(self, rule: Rule) -> None:
        """Puts the rule behind those in force."""
        self.ordered.append(Ordered(rule))

    def clear(self) -> None:
        """No faults from now on."""
        self.ordered.clear()
        self.paused = False

    def of(self, request: Request, identity: Identity) -> Rule | None:
        """The rule for this request, counted as used; None if it goes unharmed."""
        for entry in self.ordered:
            if not entry.rule.applies(request, identity):
                continue
            entry.seen += 1
            if entry.seen <= entry.rule.skip:
                continue
            entry.done += 1
            if entry.rule.times is not None and entry.done >= entry.rule.times:
                self.ordered.remove(entry)
            return entry.rule
        return None

    def report(self) -> Mapping[str, Any]:
        """What is in force and how often each rule was used, as JSON."""
        return {
            "paused": self.paused,
            "rules": [
                {**msgspec.to_builtins(entry.rule), "seen": entry.seen, "done": entry.done} for entry in self.ordered
            ],
        }
