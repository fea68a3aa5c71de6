"""Messages about a Pod that could not be placed, in kube-scheduler's words (upstream framework/types.go)."""

from __future__ import annotations

from situate.framework.engine.decisions import Refused
from situate.framework.plugin_api.plugin import Diagnosis
from situate.framework.results.verdict import count_reasons


def refusal(refused: Refused) -> str:
    """Return the whole message of condition and Event."""
    text = no_node_message(refused.diagnosis)
    result = refused.post_filter
    return f"{text} {result.status.message}" if result is not None and result.status.reasons else text


def no_node_message(diagnosis: Diagnosis) -> str:
    """Return the message about the refusals of all nodes.

    An example is `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.` It has one entry for each
    reason with its number of nodes, sorted as text. The reason of a rejection of the Pod as a whole is included
    unchanged.
    """
    status = diagnosis.status
    count = diagnosis.snapshot.count
    if status is not None and not count:
        return status.message
    if status is not None:
        return f"0/{count} nodes are available: {status.message}."
    counts = count_reasons((refusals, where) for _, refusals, where in diagnosis.refused)
    entries = sorted(f"{number} {text}" for text, number in counts.items())
    if not entries:  # an extender may give no reason
        return f"0/{count} nodes are available:"
    return f"0/{count} nodes are available: {', '.join(entries)}."
