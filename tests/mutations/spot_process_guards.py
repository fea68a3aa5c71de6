"""The guards of spot that the reference names (section 6), taken out under the shipped process.

Stories and bursts on virtual time must notice, which know nothing of the functions that are changed.
"""

from __future__ import annotations

from tests.mutations.patch import Mutation

_STORIES = "tests/testing/spot/test_stories.py"
_BURSTS = "tests/testing/spot/test_bursts.py"

SPOT_PROCESS_GUARDS = (
    Mutation(
        "spot-process-anded",
        "under the process: our expression is no ORed term (D8, I9)",
        "spot/admission/patch.py",
        '            operations.append({"op": "add", "path": f"{path}/-", "value": wire})',
        '            own = {"matchExpressions": [wire]}\n'
        '            operations.append({"op": "add", "path": f"{base}/nodeSelectorTerms/-", "value": own})',
        (f"{_STORIES}::test_what_a_user_asks_of_nodes_still_holds",),
    ),
    Mutation(
        "spot-process-placement",
        "under the process: counted is by where pods are, not by their label (P13, D7)",
        "spot/model/counts.py",
        "    return None if node.ending else node.capacity",
        "    return pod.pod_class or Capacity.UNKNOWN",
        (f"{_STORIES}::test_pods_that_found_no_room_on_spot_count_where_they_are_and_go_back",),
    ),
    Mutation(
        "spot-process-reserved",
        "under the process: an answer is reserved until its pod is seen (P17, D1)",
        "spot/admission/admit.py",
        "    return answer, ledger.with_reservation(demand.slot, entry)",
        "    return answer, ledger",
        (f"{_BURSTS}::test_twenty_of_twenty_bursts_are_exact[5]",),
    ),
    Mutation(
        "spot-process-unlabelled",
        "under the process: a node without a label is never on demand (P12, D6, I10)",
        "spot/nodes/node_signals.py",
        "    return Capacity.ON_DEMAND if claims else Capacity.UNKNOWN",
        "    return Capacity.ON_DEMAND",
        (f"{_STORIES}::test_pods_on_a_node_that_loses_its_label_are_not_on_demand_any_more",),
    ),
    Mutation(
        "spot-process-per-revision",
        "under the process: each revision is counted for itself (D13, B15)",
        "spot/admission/classify.py",
        "        return [pod for pod in self.pods if pod.revision == self.revision]",
        "        return list(self.pods)",
        (f"{_STORIES}::test_rollouts_keep_the_floor_at_every_moment_and_end_exact",),
    ),
    Mutation(
        "spot-process-one-answerer",
        "a process answers only while nobody else can lead, however long it slept (P1, I11)",
        "runtime/leadership/leader.py",
        "        return self.leadership is not None and self.leadership.is_valid()",
        "        return self.leadership is not None",
        (f"{_STORIES}::test_a_leader_that_slept_gives_no_answer_to_what_was_asked_meanwhile",),
    ),
    Mutation(
        "spot-process-pending",
        "under the process: nothing is moved while a pod is missing, waits or does not serve (I4, I5)",
        "spot/model/misplaced_pods.py",
        "    if any(not pod.node for pod in live):\n"
        "        return BlockReason.PENDING\n"
        "    if len(live) < owner.replicas or any(not pod.ready for pod in live):\n"
        "        return BlockReason.NOT_READY\n",
        "",
        (f"{_STORIES}::test_nothing_is_moved_while_a_pod_is_missing_or_does_not_serve",),
    ),
    Mutation(
        "spot-abrupt-end",
        "from the end of a term on nothing is answered, also what was asked before (P1, I11)",
        "runtime/serving/listener.py",
        "        for connection in handled.connections if self._abrupt else ():",
        "        for connection in ():",
        ("tests/spot/server/test_listener.py",),
    ),
)
