"""Arguments of VolumeBinding (upstream apis/config/v1 VolumeBindingArgs)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from situate.objects.settings.section import Mistake
from situate.plugins.node_resources_fit import CapacityRatio, ShapePoint


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of VolumeBinding. A shape enables scoring; upstream needs the feature gate StorageCapacityScoring."""

    bind_timeout_seconds: Annotated[int, msgspec.Meta(ge=0)] = 600
    """0 means no wait: if storage is not ready at once, binding fails."""
    shape: tuple[ShapePoint, ...] | None = None
    """The score of a node by the share of its storage in use; None means no score."""

    def mistakes(self) -> Iterable[Mistake]:
        return () if self.shape is None else CapacityRatio(self.shape).mistakes()
