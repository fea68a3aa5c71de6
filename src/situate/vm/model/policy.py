"""The parameters of all decisions: the settings, and the abilities of the API server."""

from __future__ import annotations

from typing import Final, Self

from situate.objects.settings.section import matching_fields
from situate.vm.config.settings import VmSettings
from situate.vm.model.resource_amounts import RESOURCES

MIB: Final = 2**20
GIB: Final = 2**30
DENIED_RETRY_S: Final = 60.0
"""Pause before the retry of a resize that a quota or a LimitRange forbids (B36)."""


class Rules(VmSettings, frozen=True, kw_only=True):
    """All parameters of `situate.vm.ledger.step`."""

    server_resizes: bool = True
    """Whether the API server has `pods/resize`: from 1.33 on (B36)."""

    @classmethod
    def of(cls, settings: VmSettings) -> Self:
        return cls(**matching_fields(settings, cls))

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the accounted resources (B45)."""
        return (*RESOURCES, *self.further_resources)
