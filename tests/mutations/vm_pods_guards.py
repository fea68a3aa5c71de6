"""The guards of plain pods that are resized in place, and of runner pods that grow with their machines."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_WISHES, _ACCOUNTS = "tests/vm/test_step_wishes.py", "tests/vm/test_step_accounts.py"
_RESIZING, _WRITES = "tests/vm/test_resizing.py", "tests/vm/test_writes.py"

VM_PODS_GUARDS = (
    Mutation(
        "vm-refused-wish-waits",
        "a wish that is not attempted is no demand (B36)",
        "vm/wishing.py",
        "        return replace(pod, requested=pod.reserved)\n    base",
        "        return replace(pod, requested=wish.wanted)\n    base",
        (_WISHES,),
    ),
    Mutation(
        "vm-final-refusal",
        "what the server refuses for good is not asked for again until the wish changes (B36)",
        "vm/wishing.py",
        "    until = None if seconds is None else draft.now + seconds",
        "    until = draft.now + (seconds or 1.0)",
        (_WISHES,),
    ),
    Mutation(
        "vm-larger-than-node",
        "a size above the node is not asked for (B36)",
        "vm/wishing.py",
        "    if any(wanted > max(counts, total)",
        "    if any(wanted > 2 * max(counts, total)",
        (_WISHES,),
    ),
    Mutation(
        "vm-class-of-service",
        "a wish that would change the class of service is not attempted (B36)",
        "vm/resizing.py",
        "    if before != after:",
        "    if False:",
        (_RESIZING,),
    ),
    Mutation(
        "vm-restart-needed",
        "no container is restarted by a resize unless that is allowed (B36)",
        "vm/resizing.py",
        ' == "RestartContainer" and not rules.resize_with_restart:',
        ' == "RestartContainer" and False:',
        (_RESIZING,),
    ),
    Mutation(
        "vm-resize-tests",
        "a resize tests the amounts that it is computed from (B36, B44)",
        "vm/writes.py",
        '                tests.append({"op": "test", "path": path, "value": str(amounts[name])})\n',
        "",
        (_WRITES,),
    ),
    Mutation(
        "vm-put-off-is-demand",
        "a resize that the kubelet has put off is demand (B35)",
        "vm/waiting.py",
        "    if pod.requested.within(pod.reserved) and not pod.deferred:",
        "    if pod.requested.within(pod.reserved):",
        (_WISHES,),
    ),
    Mutation(
        "vm-account-down-last",
        "what a machine gives back is free when its pod has given it back too (B47)",
        "vm/writing.py",
        "    if resize is not None:\n        known = draft.state.accounts.get(pod.uid)\n        told",
        "    if False:\n        known = draft.state.accounts.get(pod.uid)\n        told",
        (_ACCOUNTS,),
    ),
    Mutation(
        "vm-account-first",
        "the pod's requests rise before its machine may use more (B47, N8)",
        "vm/drafting.py",
        "        self._grow_account(pod, amount)\n        self.do(approval(pod, write))\n",
        "        self.do(approval(pod, write))\n        self._grow_account(pod, amount)\n",
        (_ACCOUNTS,),
    ),
)
