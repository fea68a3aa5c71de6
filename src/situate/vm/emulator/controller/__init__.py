"""The shell of the emulator: runs it beside an API server, in processes of which one leads.

`informers` watches, the package above decides, and `apply` writes. `controller` connects them.
"""

from __future__ import annotations

from situate.vm.emulator.controller.controller import MachinesController

__all__ = ["MachinesController"]
