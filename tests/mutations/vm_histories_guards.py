"""The safety guards of vm that histories of its processes have asked for."""

from __future__ import annotations

from tests.mutations.patch import Mutation

VM_HISTORIES_GUARDS = (
    Mutation(
        "vm-target-grows-not",
        "a target is granted nothing before its machine runs there (I1, I14)",
        "vm/model.py",
        "(self.machine.role is not Role.IDLE or self.machine.phase is Phase.FROZEN)",
        "(self.migrating or self.machine.phase is Phase.FROZEN)",
        ("tests/vm/test_step_moves.py",),
    ),
)
