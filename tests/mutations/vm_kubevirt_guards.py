"""The safety guards of KubeVirt as a system of machines."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_PODS, _MIGRATIONS = "tests/vm/backends/test_kubevirt_pods.py", "tests/vm/backends/test_kubevirt_migrations.py"
_CONTROLLER = "tests/vm/backends/test_kubevirt_controller.py"

VM_KUBEVIRT_GUARDS = (
    Mutation(
        "kubevirt-live-migratable",
        "what KubeVirt cannot move is no candidate (B49)",
        "vm/backends/kubevirt_pods.py",
        "movable = seen is not None and seen.live_migratable and wanted",
        "movable = seen is not None and wanted",
        (_PODS,),
    ),
    Mutation(
        "kubevirt-no-attachment",
        "a pod that attaches volumes is no machine (B49)",
        "vm/backends/kubevirt_pods.py",
        "    if pod.metadata.labels.get(APP_LABEL) != LAUNCHER:\n        return None\n",
        "",
        (_PODS,),
    ),
    Mutation(
        "kubevirt-left-behind",
        "a pod that its machine has left is no candidate for another move (C9)",
        "vm/backends/kubevirt_pods.py",
        "    return Role.SOURCE if seen.node and pod.spec.node_name else Role.IDLE",
        "    return Role.IDLE",
        (_PODS,),
    ),
    Mutation(
        "kubevirt-way-back",
        "a target is one also on the node that its machine came from (B14)",
        "vm/backends/kubevirt_pods.py",
        "        return last.source_pod == pod.metadata.name\n",
        "        return True\n",
        (_PODS,),
    ),
    Mutation(
        "kubevirt-reserved-node",
        "a target is offered the reserved node alone, pinned or not (B14)",
        "vm/backends/kubevirt_pods.py",
        "    if not uid or instance_of(pod) is None:\n        return None\n",
        "    if True:\n        return None\n",
        (_CONTROLLER,),
    ),
    Mutation(
        "kubevirt-next-target",
        "a machine that was moved can be moved again: the last move's node binds nobody (B12)",
        "vm/backends/kubevirt_pods.py",
        "    if migration_of_target(pod) is None:\n        return pod\n",
        "    if True:\n        return pod\n",
        (_CONTROLLER,),
    ),
    Mutation(
        "kubevirt-no-progress",
        "a move is not given up because its system tells no progress (B15)",
        "vm/ledger/deadlines.py",
        "    if move.reports_progress:\n",
        "    if True:\n",
        (_CONTROLLER,),
    ),
    Mutation(
        "kubevirt-delete-uid",
        "no other migration of the same name is deleted (B44)",
        "vm/backends/kubevirt_migrations.py",
        "    def cancel(self, namespace: str, name: str, uid: str) -> DeleteObject:\n"
        "        return DeleteObject(self.resource, namespace, name, uid)",
        "    def cancel(self, namespace: str, name: str, uid: str) -> DeleteObject:\n"
        '        return DeleteObject(self.resource, namespace, name, "")',
        (_MIGRATIONS,),
    ),
)
