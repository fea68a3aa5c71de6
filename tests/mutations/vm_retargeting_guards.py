"""The safety guards of targets that are lost or refuse: one new choice, before copying, with room that is reserved."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_RETARGETING = "tests/vm/ledger/migrations/test_retarget.py"

VM_RETARGETING_GUARDS = (
    Mutation(
        "vm-target-once",
        "another target is chosen once (B14)",
        "vm/ledger/migrations/retarget.py",
        "    final = move.pinned or move.choices > 1",
        "    final = move.pinned",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-target-pinned",
        "a migration that names its node itself is led nowhere else (B14, B49)",
        "vm/ledger/migrations/retarget.py",
        "    final = move.pinned or move.choices > 1",
        "    final = move.choices > 1",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-target-bound",
        "a pod that has its node goes nowhere else (B14)",
        "vm/model/migrations.py",
        "        return begun and not self.foreign and not self.target_counted and self.target_bound_at is None",
        "        return begun and not self.foreign",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-target-room",
        "another target has room for what was reserved, below its watermark (B13, I4, I13)",
        "vm/planning/retarget.py",
        "view.candidate(pod, move.source_node, move.amount, move.amount)",
        "view.candidate(pod, move.source_node, move.amount, move.amount - move.amount)",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-target-written",
        "another target is written until its migration shows it (B14, B43, F1)",
        "vm/ledger/observed/migration_from_event.py",
        "        return event.rechosen_at == move.rechosen_at",
        "        return True",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-target-read",
        "a restart knows that the second target was chosen, and when (B14, B43)",
        "vm/ledger/observed/migration_from_event.py",
        "        rechosen_at=event.rechosen_at,\n",
        "",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-node-sake-read",
        "a restart knows that a move is for its node's sake (B1, B43)",
        "vm/ledger/observed/migration_from_event.py",
        "        for_node=event.for_node,\n",
        "",
        (_RETARGETING,),
    ),
    Mutation(
        "vm-needs-node-recalled",
        "that a node is needed is taken back after a restart (B50, B43)",
        "vm/ledger/initial_listing.py",
        "            wait_queue.restore_needs_node(draft, pod)\n",
        "",
        (_RETARGETING,),
    ),
)
