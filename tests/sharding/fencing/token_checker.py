"""A model of an outside system that checks the token of each call."""

from __future__ import annotations

import re

from situate.sharding.fencing.admit import NUMBER


class TokenChecker:
    """An outside system that refuses earlier holders by `work.token`: it remembers the highest epoch."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def accepts(self, token: str) -> bool:
        """Return whether the token (`UID:EPOCH`) is well-formed and has the highest epoch so far of its object."""
        uid, _, text = token.rpartition(":")
        epoch = int(text) if re.fullmatch(NUMBER, text) else -1
        if not uid or epoch < 0 or epoch < self._highest.get(uid, 0):
            return False
        self._highest[uid] = epoch
        return True

    def highest(self, uid: str) -> str:
        """Return the token of the latest holder; epoch 0 if no holder has called."""
        return f"{uid}:{self._highest.get(uid, 0)}"
