"""Guards of the stand-in for a hypervisor: that no machine is lost, frozen for good or in two places."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_MACHINE, _MIGRATOR = "tests/vm/emulator/test_machine.py", "tests/vm/emulator/test_migration.py"
_ENDING = "tests/vm/emulator/test_migration_end.py"
_SHIPPED = "tests/vm/emulator/controller/test_controller.py"

VM_MACHINES_GUARDS = (
    Mutation(
        "machines-unfrozen",
        "a frozen machine that nobody moves runs again (D9, I6)",
        "vm/emulator/machine.py",
        "    if phase in object_fields.FROZEN and not object_fields.is_held(machine, sight.migrations):\n",
        "    if False:\n",
        (_MACHINE,),
    ),
    Mutation(
        "machines-held-by-one-that-waits",
        "a migration that has not begun copies nothing, and holds no machine that is said to be copied (D9)",
        "vm/emulator/object_fields.py",
        'ONGOING if phase(machine) == "PreMigrating" else ONGOING - {""}',
        "ONGOING",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-held-back",
        "a migration that others hold back while it is deleted holds no machine (D9)",
        "vm/emulator/view.py",
        " and not object_fields.is_released(each)",
        "",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-given-back",
        "a migration that is over gives its machine back (D10)",
        "vm/emulator/migration_end.py",
        "    looked = _unfreeze_machine(sight)\n",
        "    looked = None\n",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-busy",
        "a machine moves once at a time (D11)",
        "vm/emulator/migration.py",
        "    if ahead is not None and not",
        "    if False and not",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-target-first",
        "nothing is copied before the target is at work (N5)",
        "vm/emulator/migration.py",
        '    if object_fields.phase(target) != "Running":\n        return wait\n',
        "",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-other-host",
        "a target beside its source is refused, whoever bound it there (I12)",
        "vm/emulator/migration.py",
        "    if _is_same_host(sight):\n",
        "    if False:\n",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-copied-is-finished",
        "a move whose memory is copied is not cancelled any more",
        "vm/emulator/migration.py",
        '_progress(sight, now).status == "completed"\n        ):\n            return _arrive',
        '_progress(sight, now).status == "never"\n        ):\n            return _arrive',
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-completion-timeout",
        "a move ends with its completionTimeout (D12)",
        "vm/emulator/migration.py",
        "    if now >= object_fields.parse_moment(",
        "    if now < 0 * object_fields.parse_moment(",
        (_MIGRATOR,),
    ),
    Mutation(
        "machines-node-constraints",
        "node constraints of a move are required beside the machine's own (D12)",
        "vm/emulator/runner_pods.py",
        "[_merged_terms(a, b) for a in alternatives for b in each]",
        "[*alternatives, *each]",
        ("tests/vm/emulator/test_runner_pods.py",),
    ),
    Mutation(
        "machines-hand-over-awaited",
        "the source of a move with a claim waits for the hand-over (B10)",
        "vm/emulator/migration_end.py",
        "    if CLAIM in said and HANDOVER not in said and",
        "    if False and",
        (_ENDING,),
    ),
    Mutation(
        "machines-one-pod",
        "the pod that has ended is gone before another one begins",
        "vm/emulator/machine.py",
        "        return (\n            NOTHING_TO_DO if object_fields.is_deleting(pod) else "
        "ReconcileResult(object_fields.deletion(Kind.POD, pod))\n        )\n",
        "        pass\n",
        (_MACHINE,),
    ),
    Mutation(
        "machines-strays",
        "a pod that a late write made for nobody is taken away (F1, F4)",
        "vm/emulator/machine.py",
        "    if sight.strays:\n",
        "    if False:\n",
        (_MACHINE,),
    ),
    Mutation(
        "machines-old-sight",
        "a status is written only to the object that was seen (F4)",
        "vm/emulator/object_fields.py",
        '    metadata = {"uid": uid(obj), "resourceVersion": obj["metadata"].get("resourceVersion", "")}\n'
        "    return Patch(kind, namespace(obj), name(obj), {",
        '    metadata = {"uid": uid(obj)}\n    return Patch(kind, namespace(obj), name(obj), {',
        (_MACHINE,),
    ),
    Mutation(
        "machines-leader",
        "a process writes only while its Lease lasts (F4)",
        "runtime/leadership/leader.py",
        "    if leadership is None or not leadership.is_valid():\n",
        "    if leadership is None:\n",
        (_SHIPPED,),
    ),
)
