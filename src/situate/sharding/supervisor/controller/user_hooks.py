"""Call the users' functions about objects, so that a failure affects only the object it is about."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from situate.sharding.model.errors import RuleFailed
from situate.sharding.model.object_view import ObjectView


def guard_weight(weight_of: Callable[[ObjectView], int]) -> Callable[[ObjectView], int]:
    """Wrap the user's weight function; an object on which it fails counts 1."""
    log = structlog.get_logger()

    def weigh(view: ObjectView) -> int:
        try:
            return max(1, int(weight_of(view)))
        except Exception as problem:  # user code may raise any exception; it must not affect other objects
            log.error(
                "weight of an object unknown, counted as 1", key=f"{view.namespace}/{view.name}", error=repr(problem)
            )
            return 1

    return weigh


def guard_rule(name: str, rule: Callable[[ObjectView], bool]) -> Callable[[ObjectView], bool]:
    """Wrap the user's rule; if the rule raises, the wrapper raises `RuleFailed`."""

    def ask(view: ObjectView) -> bool:
        try:
            return bool(rule(view))
        except Exception as problem:  # user code may raise any exception; it must not affect other objects
            raise RuleFailed(f"the rule {name} failed: {problem!r:.500}") from problem

    return ask
