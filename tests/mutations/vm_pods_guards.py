"""The guards of plain pods that are resized in place, and of runner pods that grow with their machines."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_WISHES, _ACCOUNTS = "tests/vm/test_step_wishes.py", "tests/vm/test_step_accounts.py"
_RESIZING, _WRITES = "tests/vm/test_resizing.py", "tests/vm/test_writes.py"

_AHEAD = "tests/vm/test_resizing_ahead.py"

VM_PODS_GUARDS = (
    Mutation(
        "vm-late-resize",
        "a resize that comes after its wish was withdrawn changes nothing: others may have its room (F1, I1)",
        "vm/writes.py",
        '        tests.append({"op": "test", "path": _path(RESIZE_REQUESTED), "value": action.wish})',
        "        pass",
        (_WISHES,),
    ),
    Mutation(
        "vm-resize-unknown",
        "what is booked for a resize of unknown outcome stays when its wish is refused (F1, B9, I1)",
        "vm/wishing.py",
        "(write.retry_at is None or not write.refused)",
        "write.retry_at is None",
        (_WISHES,),
    ),
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
        "    if pod.wish.within(pod.reserved) and not pod.deferred:",
        "    if pod.wish.within(pod.reserved):",
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
    Mutation(
        "vm-ahead-of-the-hand-over",
        "the source goes when the pod has asked for its room, so that nobody else takes it between (B37)",
        "vm/handing_over.py",
        "    if not at_once and resizing_ahead.begun(draft, move):\n        return\n",
        "    if not at_once:\n        resizing_ahead.begun(draft, move)\n",
        (_AHEAD,),
    ),
    Mutation(
        "vm-ahead-when-copied",
        "nothing is asked for ahead while the machine may still run where it was (B37)",
        "vm/resizing_ahead.py",
        "    if move.stage is not Stage.DONE or claim",
        "    if claim",
        (_AHEAD,),
    ),
    Mutation(
        "vm-ahead-alone",
        "beside another claim nothing is asked for ahead: the kubelet knows of no claims (B37, I4)",
        "vm/resizing_ahead.py",
        "    if not alone or pod.uid in state.writes:",
        "    if pod.uid in state.writes:",
        (_AHEAD,),
    ),
    Mutation(
        "vm-ahead-unanswered",
        "what a kubelet has not looked at is not taken for allocated, and the claim for it stays open (B35, B37)",
        "vm/reading_pods.py",
        "    return 0 < pod.status.observed_generation < pod.metadata.generation",
        "    return False",
        (_AHEAD,),
    ),
    Mutation(
        "vm-refused-left-over",
        "what an earlier leader refused is not left standing on a pod that wishes something else (B36)",
        "vm/wishing.py",
        "    if refusal == told and not left_over:",
        "    if refusal == told:",
        (_WISHES,),
    ),
    Mutation(
        "vm-resize-others",
        "no part of a request is passed over: of what cannot be resized nothing is (B36)",
        "vm/resize_requests.py",
        " or of_other_resources(request.wish)",
        "",
        ("tests/vm/test_resize_requests.py",),
    ),
)
