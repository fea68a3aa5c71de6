"""The safety guards of vm's plugin and of what carries out its decisions."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_PLUGIN, _CONTROLLER = "tests/vm/test_plugin.py", "tests/vm/controller/test_controller.py"
_POINTS = "tests/vm/test_plugin_points.py"
_WRITES, _PERFORMING = "tests/vm/test_writes.py", "tests/vm/controller/test_performing.py"

VM_SHELL_GUARDS = (
    Mutation(
        "vm-reserved-node",
        "a target is offered the reserved node alone (B14)",
        "vm/plugin.py",
        "        if not move.target_node:\n",
        "        if True:\n",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-not-the-source",
        "a target never goes to its source's node (I12)",
        "vm/plugin.py",
        "only=~_where(snapshot, move.source_node))",
        "only=None)",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-held-room",
        "Filter gives nobody the room that is held for others (B4, I4)",
        "vm/plugin.py",
        "        taken = sums.booked + kept + booking > total\n",
        "        taken = sums.booked + booking > total\n",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-ledger-counts",
        "what the ledger alone knows of a pod counts in Filter at once (C19)",
        "vm/columns.py",
        "            if entries[row] is not entry:",
        "            if entries[row] is _UNCOUNTED:",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-lease-before-binding",
        "a process that lost the lease binds nothing (N25, B44)",
        "vm/plugin.py",
        "        if not self._ledger.may_write():",
        "        if False:",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-targets-first",
        "where that is wished a target goes before other pods of its priority (N16)",
        "vm/queue_order.py",
        "self._system.migration_of(pod.pod) is None",
        "True",
        (_POINTS,),
    ),
    Mutation(
        "vm-timed-from-binding",
        "a target that is only reserved is not timed as one that is bound (N27, B15)",
        "vm/moving.py",
        "    bound_at = None if pod.tentative else move.target_bound_at or draft.now\n",
        "    bound_at = move.target_bound_at or draft.now\n",
        (_POINTS,),
    ),
    Mutation(
        "vm-lease-before-write",
        "a write about a machine leaves only from the leader (B44)",
        "scheduler/controller.py",
        "self._beside.serve(self._client, self._actuator)",
        "self._beside.serve(self.watched.pods._client, Actuator(lambda: None))",
        (_CONTROLLER,),
    ),
    Mutation(
        "vm-approval-tests",
        "an approval tests what it was decided on (C26)",
        "vm/writes.py",
        "        tests[key] = text\n",
        "",
        (_WRITES,),
    ),
    Mutation(
        "vm-approval-of-its-pod",
        "what one pod is granted never counts for the next pod of its machine (I1)",
        "vm/writes.py",
        "    if runs_in and runs_in != action.pod.name:",
        "    if False:",
        (_WRITES,),
    ),
    Mutation(
        "vm-write-uid",
        "a write reaches no other object of the same name (B44)",
        "vm/writes.py",
        'operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]',
        "operations: list[dict[str, Any]] = []",
        (_WRITES,),
    ),
    Mutation(
        "vm-claim-in-create",
        "no move without its claim: both in one call (B2)",
        "vm/backends.py",
        "    if claim is not None:\n        annotations",
        "    if False:\n        annotations",
        (_WRITES, _CONTROLLER),
    ),
    Mutation(
        "vm-nothing-before-listed",
        "nothing is granted before migrations and their claims are listed (C30, B43)",
        "scheduler/watched.py",
        "            if reflector in self.further:\n                await _seen_or_not_served(reflector)\n"
        "            else:",
        "            if reflector not in self.further:",
        (_CONTROLLER,),
    ),
    Mutation(
        "vm-ledger-of-what-if",
        "a what-if books nothing into the ledger at work (C10)",
        "vm/plugin.py",
        "VirtualMachines(self._ledger.apart(),",
        "VirtualMachines(self._ledger,",
        (_PLUGIN,),
    ),
    Mutation(
        "vm-backoff",
        "what is put off is tried again ever more slowly (C24)",
        "vm/controller/performing.py",
        "        self._backoffs[key] = backoff\n",
        "",
        (_PERFORMING,),
    ),
    Mutation(
        "vm-wake",
        "pods that wait are tried when the ledger has room for them (D16)",
        "vm/controller/controller.py",
        "if waiting.place is not Place.ACTIVE and NAME in waiting.rejectors and self._has_room(node, waiting.info)",
        "if not node",
        (_PERFORMING,),
    ),
    Mutation(
        "vm-filters-of-the-profile",
        "a target is chosen by all filters that the pod will meet there (B12)",
        "vm/controller/controller.py",
        "        self.ledger.planner = planner_with(Fitting(engine, self.ledger, self._system))\n",
        "",
        (_CONTROLLER,),
    ),
)
