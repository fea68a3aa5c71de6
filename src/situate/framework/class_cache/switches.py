"""Ways to the same decision in less time, and their switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Ways to the same answer in less time; each can be switched off."""

    classes: bool = True
    """Keep what is known per class of equal pods, and ask again only about nodes that changed."""
    batches: bool = True
    """Place a run of equal pods at once; needs `classes`, and ties that go to the first node."""
    stretches: bool = True
    """Decide in one go about pods that need no more than a node; needs `classes`."""
    gauges: bool = True
    """Read what amounts on a node say off columns that follow the pods, and ask meters; needs `classes`."""


NO_SHORTCUTS: Final = Shortcuts(classes=False, batches=False, stretches=False, gauges=False)
"""The plain path: every plugin is asked about every node for every pod."""
