"""What users say about objects in code of their own, which may fail without stopping anything but that object."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from situate.sharding.model.errors import RuleFailed
from situate.sharding.model.object_view import ObjectView


def weighing(weight_of: Callable[[ObjectView], int]) -> Callable[[ObjectView], int]:
    """As the user's; what that cannot weigh counts 1."""
    log = structlog.get_logger()

    def weigh(view: ObjectView) -> int:
        try:
            return max(1, int(weight_of(view)))
        except Exception as problem:  # a user's code may raise anything, and must not stop other objects
            log.error(
                "an object cannot be weighed, so it counts 1", key=f"{view.namespace}/{view.name}", error=repr(problem)
            )
            return 1

    return weigh


def asking(name: str, rule: Callable[[ObjectView], bool]) -> Callable[[ObjectView], bool]:
    """As the user's rule; raises `RuleFailed` where that raises."""

    def ask(view: ObjectView) -> bool:
        try:
            return bool(rule(view))
        except Exception as problem:  # a user's code may raise anything, and must not stop other objects
            raise RuleFailed(f"the rule {name} has failed: {problem!r:.500}") from problem

    return ask
