"""Shortcuts to the same decision, and their switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Faster paths to the same decision; each can be switched off."""

    classes: bool = True
    """Cache results per class of equal Pods, and evaluate only nodes that changed."""
    batches: bool = True
    """Place a run of equal Pods at once. Needs `classes`, and ties that go to the first node."""
    stretches: bool = True
    """Decide about Pods together that depend only on their own node; needs `classes`."""
    evaluators: bool = True
    """Evaluate load from columns that are updated per Pod, and use scorers; needs `classes`."""


NO_SHORTCUTS: Final = Shortcuts(classes=False, batches=False, stretches=False, evaluators=False)
"""The plain path: every plugin evaluates every node for every Pod."""
