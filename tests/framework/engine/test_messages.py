from __future__ import annotations

import numpy as np

from situate.framework.engine.decisions import Refused
from situate.framework.engine.messages import no_node_message, refusal
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered
from situate.framework.queue.queued_pod import WaitingPod
from situate.framework.results.status import Code, Status, unresolvable_status, unschedulable_status
from situate.framework.results.verdict import refusals
from situate.framework.snapshot.node_table import node_row, node_table
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from tests.framework.pods import VOCABULARY, pod_info


def snapshot(count: int) -> Snapshot:
    names = [Node(ObjectMeta(name=f"n{number}")) for number in range(count)]
    return Snapshot(node_table(VOCABULARY, [node_row(each, VOCABULARY) for each in names]))


def mask(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.bool_)


def test_each_reason_is_counted_and_they_are_sorted_as_text() -> None:
    found = refusals(
        3,
        (mask(1, 1, 0), "Insufficient memory", Code.UNSCHEDULABLE),
        (mask(0, 1, 0), "Insufficient cpu", Code.UNSCHEDULABLE),
    )
    tainted = refusals(3, (mask(1, 1, 1), "node(s) had a taint", Code.UNRESOLVABLE))
    diagnosis = Diagnosis(
        snapshot(3), (("NodeResourcesFit", found, mask(1, 1, 0)), ("TaintToleration", tainted, mask(0, 0, 1)))
    )
    text = "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had a taint, 2 Insufficient memory."
    assert no_node_message(diagnosis) == text
    assert diagnosis.codes().tolist() == [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE, Code.UNRESOLVABLE]
    assert diagnosis.rejectors == {"NodeResourcesFit", "TaintToleration"}


def test_a_rejection_as_a_whole_is_said_as_it_is() -> None:
    status = Status(Code.UNRESOLVABLE, ('persistentvolumeclaim "data" not found',), "VolumeBinding")
    diagnosis = Diagnosis(snapshot(2), status=status)
    assert no_node_message(diagnosis) == '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    assert no_node_message(
        Diagnosis(snapshot(0), status=unresolvable_status("no nodes available to schedule pods"))
    ) == ("no nodes available to schedule pods")


def test_what_post_filter_says_comes_last() -> None:
    diagnosis = Diagnosis(snapshot(1), (("X", refusals(1, (mask(1), "no", Code.UNSCHEDULABLE)), mask(1)),))
    waiting = WaitingPod(pod_info("p"), 0, 0)
    result = PostFiltered(unschedulable_status("preemption: 0/1 nodes are available: 1 No preemption victims found."))
    assert refusal(Refused(waiting, diagnosis, result)) == (
        "0/1 nodes are available: 1 no. preemption: 0/1 nodes are available: 1 No preemption victims found."
    )
