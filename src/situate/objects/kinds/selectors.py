"""Label selectors as fields of an object."""

from __future__ import annotations

from collections.abc import Mapping

from situate.objects.kinds.meta import NO_LABELS
from situate.objects.model import Model


class LabelSelectorRequirement(Model, frozen=True):
    """One condition on a label."""

    key: str = ""
    operator: str = ""
    """`In`, `NotIn`, `Exists` or `DoesNotExist`."""
    values: tuple[str, ...] = ()


class LabelSelector(Model, frozen=True):
    """A label selector: all its conditions must hold; an empty selector matches everything."""

    match_labels: Mapping[str, str] = NO_LABELS
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
