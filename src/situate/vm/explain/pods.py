"""Explain an unmet request in the form of `/explain`.

The answer has the reason, the migrations for the request, and changes that would help (B39).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from situate.vm.explain.explanations import Explanation, build_explanation
from situate.vm.explain.json_values import amounts_json, format_time, held_capacity_json, migration_json
from situate.vm.explain.would_help import describe_change
from situate.vm.ledger.migrations.eviction import stay_message
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning.drain import plan_drain
from situate.vm.planning.targets import Fits, accept_any_node

NO_CHANGE_HELPS: Final = "nothing"
"""The entry of `wouldHelp` if no change helps."""


def explain_pod(
    state: LedgerState, namespace: str, name: str, now: float, rules: Rules, fits: Fits = accept_any_node
) -> dict[str, Any] | None:
    """Return the explanation of a Pod. None: no Pod of this name is on a known node.

    Optional keys are:

    - `evacuation`: the effect of a refused eviction (B48).
    - `maximum`: the limit of its VM, if it requests more.
    - `free`: the capacity that is free and not granted yet.
    - `refused`: the reason that its resize request is not attempted (B36).
    - `putOff`: the amount that its kubelet has no capacity for yet (B35).

    Amounts are the Pod's own. Those in `room` count as on its node, after overcommit.
    """
    uid = uid_of(state, namespace, name)
    found = None if uid is None else build_explanation(state, uid, now, rules, fits)
    if found is None:
        return None
    planner = Planner(drain=partial(plan_drain, fits=fits))
    leaving = stay_message(state, found.pod, now, rules, planner)
    return explanation_json(found, state, now, rules) | ({"evacuation": leaving} if leaving else {})


def uid_of(state: LedgerState, namespace: str, name: str) -> str | None:
    """Return the UID of a Pod on a known node.

    The name of a VirtualMachine gives its runner Pod; during a migration, the source Pod before the target Pod.
    """
    runner: Pod | None = None
    for node in state.nodes.values():
        for pod in node.pods.values():
            if pod.ref.namespace != namespace:
                continue
            if pod.ref.name == name:
                return pod.uid
            machine = pod.machine
            if machine is not None and machine.ref.name == name and (runner is None or pod.migrating):
                runner = pod
    return None if runner is None else runner.uid


def explanation_json(found: Explanation, state: LedgerState, now: float, rules: Rules) -> dict[str, Any]:
    pod, node, position = found.pod, found.node, found.position
    limit = pod.machine.limit if pod.machine is not None and pod.requested != pod.limited_request else None
    return {
        "pod": str(pod.ref),
        "node": node.name,
        "reserved": amounts_json(pod.reserved, rules),
        "requested": amounts_json(pod.requested, rules),
        **({} if limit is None else {"maximum": amounts_json(limit, rules)}),
        **_resize_problems_json(pod, rules),
        "shortBy": amounts_json(found.short_by, rules),
        "reason": found.reason.value,
        **({"free": amounts_json(found.free, rules)} if found.free else {}),
        "queue": {
            "position": position,
            "aheadOf": [] if position is None else [str(each) for each in found.queue[position:]],
        },
        "room": {
            "total": amounts_json(node.total, rules),
            "reserved": amounts_json(node.reserved, rules),
            "held": held_capacity_json(state, node.name, pod.uid, rules),
            "incoming": amounts_json(found.incoming, rules),
        },
        "plan": {
            "moves": [migration_json(each.move, state, now, rules) for each in found.moves],
            "alternatives": [
                {
                    "kind": each.kind.value,
                    "cost": None if each.cost is None else round(each.cost, 3),
                    "whyNot": each.why_not,
                }
                for each in found.plan.alternatives
            ],
        },
        "wouldHelp": _would_help_json(found, rules),
        "eta": None if found.eta is None else format_time(found.eta),
    }


def _resize_problems_json(pod: Pod, rules: Rules) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if pod.resize is not None and pod.resize.refusal is not None:
        said["refused"] = {"reason": pod.resize.refusal.reason, "message": pod.resize.refusal.message}
    if pod.deferred and not pod.unanswered:
        said["putOff"] = amounts_json(pod.reserved - pod.used, rules)
    return said


def _would_help_json(found: Explanation, rules: Rules) -> list[str]:
    if found.would_help or not found.short_by or found.free:
        return [describe_change(change, rules.resources) for change in found.would_help]
    return [NO_CHANGE_HELPS]
