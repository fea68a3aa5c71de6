"""Faults for tests: requests delayed, refused or dropped, watches cut, the log compacted, a pause.

The server asks `Faults.of(request)` before it answers, and applies the result; this module neither waits nor sends.
Rules are tried in the order in which they were added. The first that applies is used once. Rules are set from code, or
over HTTP at `/situate/faults`, a path that no Kubernetes client calls.
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


class FaultKind(Enum):
    DELAY = "delay"
    """The request is answered `delay_s` later."""
    REFUSE = "refuse"
    """The request is not executed. The answer has `status` and, if given, Retry-After."""
    DROP_REQUEST = "dropRequest"
    """The request is not executed and the connection is cut."""
    DROP_ANSWER = "dropAnswer"
    """The request is executed and the connection is cut."""


class FaultRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A fault and the requests that it affects. Empty conditions match every request."""

    fault: FaultKind
    methods: tuple[str, ...] = ()
    """HTTP methods in upper case."""
    path: str = "*"
    """Shell pattern for the path; `*` matches slashes too."""
    users: tuple[str, ...] = ()
    """Names of users."""
    watches: bool | None = None
    """True: only watches. False: only other requests. None: both."""
    skip: int = 0
    """Number of matching requests to leave unaffected first."""
    times: int | None = 1
    """Number of requests to affect; None for all."""
    delay_s: float = 0.0
    status: int = 503
    retry_after_s: int | None = None
    message: str = "refused on purpose: a fault was ordered at /situate/faults"

    def applies(self, request: Request, identity: Identity) -> bool:
        """Return whether all conditions match."""
        if self.methods and request.method not in self.methods:
            return False
        if self.users and identity.user not in self.users:
            return False
        watching = request.parameter("watch") in ("1", "true")
        if self.watches is not None and self.watches is not watching:
            return False
        return fnmatchcase(request.path, self.path)


@dataclass(slots=True)
class ActiveFault:
    """A rule and its counters."""

    rule: FaultRule
    seen: int = 0
    done: int = 0


@dataclass(slots=True)
class Faults:
    """The active rules."""

    active: list[ActiveFault] = field(default_factory=list)
    paused: bool = False
    """While true, no request is answered; the shell waits."""

    def add(self, rule: FaultRule) -> None:
        """Add the rule after the active ones."""
        self.active.append(ActiveFault(rule))

    def clear(self) -> None:
        """Remove all faults and end the pause."""
        self.active.clear()
        self.paused = False

    def take_rule(self, request: Request, identity: Identity) -> FaultRule | None:
        """Return the rule for this request and count its use; None if the request is unaffected."""
        for entry in self.active:
            if not entry.rule.applies(request, identity):
                continue
            entry.seen += 1
            if entry.seen <= entry.rule.skip:
                continue
            entry.done += 1
            if entry.rule.times is not None and entry.done >= entry.rule.times:
                self.active.remove(entry)
            return entry.rule
        return None

    def report(self) -> Mapping[str, Any]:
        """Return the active rules and their counters as JSON."""
        return {
            "paused": self.paused,
            "rules": [
                {**msgspec.to_builtins(entry.rule), "seen": entry.seen, "done": entry.done} for entry in self.active
            ],
        }
