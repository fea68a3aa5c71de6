"""SHELL: runs the stand-in for a hypervisor beside an API server, as one process of which one leads.

`informers` sees, the package above decides, `apply` writes; `controller` ties them together.
"""

from __future__ import annotations

from situate.vm.emulator.controller.controller import MachinesController

__all__ = ["MachinesController"]
