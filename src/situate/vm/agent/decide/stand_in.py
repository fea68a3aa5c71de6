"""Answers in place of a monitor, for VMs without a guest, as without a hypervisor (`monitor.kind: standIn`)."""

from __future__ import annotations

from typing import Final

from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.protocol.monitor_protocol import DownscaleResult
from situate.vm.model.resource_amounts import Amounts

MAX_MEMORY_SHARE: Final = 0.9
"""Share of memory that may be used after a downscale."""


def downscale_result(target: Amounts, system: SystemMetrics | None) -> DownscaleResult:
    """Return whether the memory in use, if known, still fits."""
    if system is None:
        return DownscaleResult(False, "the memory in use is not known")
    most = target.memory * MAX_MEMORY_SHARE
    if system.memory_used > most:
        return DownscaleResult(
            False, f"{system.memory_used:.0f} bytes are in use, more than the {most:.0f} that the target allows"
        )
    return DownscaleResult(True, "")
