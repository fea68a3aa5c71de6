"""Log refused callers, each refusal rarely: a refused agent asks again every few seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from situate.runtime.serving.status_answers import Declined

_REPEAT_AFTER_S: Final = 600.0
_MAX_REFUSALS: Final = 256
"""Number of remembered refusals. Above it, the oldest are dropped."""


class RefusalLog:
    """Recently logged refusals of one process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds."""
        self._clock = clock
        self._logged: dict[tuple[str, str, str], float] = {}
        """Log time of each refusal, the oldest first."""
        self._log = structlog.get_logger()

    def log_refusal(self, path: str, peer: str, declined: Declined) -> None:
        """Log a refusal, unless the same one of that address was logged in the last ten minutes.

        Only 401 and 403 are logged: other errors do not concern the identity of the caller.
        """
        if declined.code not in (401, 403):
            return
        key, now = (path, peer, str(declined)), self._clock()
        if now - self._logged.get(key, -_REPEAT_AFTER_S) < _REPEAT_AFTER_S:
            return
        self._logged.pop(key, None)
        if len(self._logged) >= _MAX_REFUSALS:
            del self._logged[next(iter(self._logged))]
        self._logged[key] = now
        self._log.warning("caller refused", path=path, address=peer, status=declined.code, why=str(declined))
