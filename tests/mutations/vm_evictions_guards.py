"""The safety guards of evictions: no machine that can be moved is killed, and nothing else is held up."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_SERVER, _DECIDING = "tests/vm/server/test_eviction_handler.py", "tests/vm/ledger/migrations/test_eviction.py"

VM_EVICTIONS_GUARDS = (
    Mutation(
        "vm-eviction-refused",
        "the pod of a machine that may be moved is not evicted (B48)",
        "vm/server/eviction_handler.py",
        "allow_response(question) if found is None else refuse_response(question, found.message)",
        "allow_response(question)",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-others",
        "other pods are evicted as if nobody had been asked (B48)",
        "vm/ledger/migrations/eviction.py",
        "    if not machine.migratable:\n        return None\n",
        "",
        (_DECIDING, _SERVER),
    ),
    Mutation(
        "vm-eviction-tried",
        "nothing comes of an eviction that is only tried (B48)",
        "vm/server/eviction_handler.py",
        "        if found is None or question.dry_run:\n",
        "        if found is None:\n",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-tried-by-its-options",
        "nothing comes of an eviction whose own options say that it is only tried (B48)",
        "vm/protocol/eviction_review.py",
        "bool(request.dry_run) or _is_dry_run(request.object)",
        "bool(request.dry_run)",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-leader",
        "only the one that leads judges evictions (B44)",
        "vm/server/eviction_handler.py",
        "        if not self._desk.is_leading():\n",
        "        if False:\n",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-left",
        "a machine that has left its node is not moved on (B48)",
        "vm/api/eviction_request.py",
        "wish.node == node and abs",
        "abs",
        (_DECIDING,),
    ),
    Mutation(
        "vm-eviction-lapses",
        "nobody moves for an eviction that nobody asks for any more (B48, I5)",
        "vm/api/eviction_request.py",
        "wish.node == node and abs(now - wish.at) < REQUEST_LIFETIME_S",
        "wish.node == node",
        (_DECIDING,),
    ),
    Mutation(
        "vm-eviction-alone",
        "the others on its node stay (B48)",
        "vm/planning/drain.py",
        "Way.EVACUATION, lambda pod: must_leave(pod, node, now))",
        "Way.EVACUATION)",
        (_DECIDING,),
    ),
    Mutation(
        "vm-eviction-budget-while-moving",
        "neither of the two pods of a machine that moves may be evicted (B48)",
        "vm/protocol/eviction_webhook_objects.py",
        "MIN_AVAILABLE: Final = 2\n",
        "MIN_AVAILABLE: Final = 1\n",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-budget-goes",
        "a budget goes with the webhook, and outlives no installation (B48)",
        "vm/controller/budgets.py",
        "owners == {configuration.uid} and found",
        "found",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-budget-of-nobody",
        "a machine that is gone leaves no budget behind (B48)",
        "vm/controller/budgets.py",
        "        if self._is_ours(found) and found.metadata.deletion_timestamp is None:",
        "        if machine is not None and self._is_ours(found) and found.metadata.deletion_timestamp is None:",
        (_SERVER,),
    ),
    Mutation(
        "vm-eviction-strangers-budget",
        "budgets of others are left alone (B48)",
        "vm/controller/budgets.py",
        "        if self._is_ours(found) and found.metadata",
        "        if found.metadata",
        (_SERVER,),
    ),
    Mutation(
        "election-lapsed",
        "a term that was found to have lapsed stays so (B44, F14)",
        "kube/election/election.py",
        "        self._over = self._clock() >= self._valid_until or self._wall_clock() >= self._wall_valid_until\n"
        "        return not self._over\n",
        "        return self._clock() < self._valid_until and self._wall_clock() < self._wall_valid_until\n",
        ("tests/kube/election/test_election.py",),
    ),
    Mutation(
        "election-gives-way-after-its-work",
        "a leader that gives way keeps the lease until its work has ended (B44, spot P1)",
        "kube/election/election.py",
        "                lead.cancel()\n                await asyncio.wait([lead])\n",
        "                lead.cancel()\n",
        ("tests/kube/election/test_election.py",),
    ),
)
