"""VolumeBinding's arguments (upstream apis/config/v1 VolumeBindingArgs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from situate.objects.settings.section import Mistake
from situate.plugins.node_resources_fit import CapacityRatio, ShapePoint


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel"):
    """With a shape nodes are scored by it; upstream does so behind the feature gate StorageCapacityScoring."""

    bind_timeout_seconds: Annotated[int, msgspec.Meta(ge=0)] = 600
    """0 does not wait: storage that is not ready at once fails the binding."""
    shape: tuple[ShapePoint, ...] | None = None
    """How good a node is by the share of its storage that would be used; None scores nothing."""

    def mistakes(self) -> Iterable[Mistake]:
        return () if self.shape is None else CapacityRatio(self.shape).mistakes()
