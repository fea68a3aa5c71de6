"""The safety guards that tests must not let anybody remove: vpod's (its reference, section 13), and the framework's."""

from __future__ import annotations

from tests.mutations.answers_guards import ANSWERS_GUARDS
from tests.mutations.archive_care_guards import ARCHIVE_CARE_GUARDS
from tests.mutations.archive_guards import ARCHIVE_GUARDS
from tests.mutations.framework_guards import FRAMEWORK_GUARDS
from tests.mutations.gpu_guards import GPU_GUARDS
from tests.mutations.patch import Mutation
from tests.mutations.scheduler_guards import SCHEDULER_GUARDS
from tests.mutations.sharding_executor_guards import SHARDING_EXECUTOR_GUARDS
from tests.mutations.sharding_guards import SHARDING_GUARDS
from tests.mutations.sharding_histories_guards import SHARDING_HISTORIES_GUARDS
from tests.mutations.sharding_supervisor_guards import SHARDING_SUPERVISOR_GUARDS
from tests.mutations.spot_guards import SPOT_GUARDS
from tests.mutations.spot_process_guards import SPOT_PROCESS_GUARDS
from tests.mutations.vm_agent_guards import VM_AGENT_GUARDS
from tests.mutations.vm_evictions_guards import VM_EVICTIONS_GUARDS
from tests.mutations.vm_histories_guards import VM_HISTORIES_GUARDS
from tests.mutations.vm_kubevirt_guards import VM_KUBEVIRT_GUARDS
from tests.mutations.vm_ledger_guards import VM_LEDGER_GUARDS
from tests.mutations.vm_machines_guards import VM_MACHINES_GUARDS
from tests.mutations.vm_planning_guards import VM_PLANNING_GUARDS
from tests.mutations.vm_pods_guards import VM_PODS_GUARDS
from tests.mutations.vm_reading_guards import VM_READING_GUARDS
from tests.mutations.vm_retargeting_guards import VM_RETARGETING_GUARDS
from tests.mutations.vm_server_guards import VM_SERVER_GUARDS
from tests.mutations.vm_shell_guards import VM_SHELL_GUARDS
from tests.mutations.volume_guards import VOLUME_GUARDS
from tests.mutations.vpod_histories_guards import VPOD_HISTORIES_GUARDS

_DECIDE, _STATE, _DRAIN = "tests/vpod/test_decide.py", "tests/vpod/test_state.py", "tests/vpod/test_drain.py"
_FACADE, _LEADING = "tests/vpod/test_facade.py", "tests/vpod/controller/test_leading.py"
_WRITES, _AUTOSCALER = "tests/runtime/test_actuator.py", "tests/vpod/test_autoscaler.py"

_VPOD_GUARDS = (
    Mutation(
        "trim",
        "an overcommitted pod is trimmed (5.1 step 4, S1)",
        "vpod/decide.py",
        "        if over > 0:\n            cut = min(held, -(-over // weight))",
        "        if False:\n            cut = min(held, -(-over // weight))",
        (_DECIDE,),
    ),
    Mutation(
        "partial-reservation",
        "a partial result is reserved (5.1 step 9, S6)",
        "vpod/decide.py",
        "    state.commit(\n        decision.key,\n",
        "    if decision.left:\n        return\n    state.commit(\n        decision.key,\n",
        (_DECIDE,),
    ),
    Mutation(
        "spare-copies",
        "copies beyond what is wanted make room for what others want (D6)",
        "vpod/spare_copies.py",
        "    if len(state.short) > (key in state.short):",
        "    if False:",
        ("tests/vpod/test_spare_copies.py",),
    ),
    Mutation(
        "leader-facade",
        "only the leader's autoscaler beats (S7)",
        "vpod/controller/facade.py",
        "        if not self.is_leader:\n            return None\n        now = self._clock()",
        "        now = self._clock()",
        (_FACADE,),
    ),
    Mutation(
        "leader-controller",
        "a process writes only while its Lease lasts (S7)",
        "vpod/controller/controller.py",
        "        if self._leadership is None or not self._leadership.valid_now():",
        "        if self._leadership is None:",
        (_LEADING,),
    ),
    Mutation(
        "standby-writes",
        "a process that does not lead writes nothing (S7)",
        "vpod/controller/controller.py",
        "        if self._leadership is None or not self._leadership.valid_now():",
        "        if self._leadership is not None and not self._leadership.valid_now():",
        (_LEADING,),
    ),
    Mutation(
        "may-write",
        "every write asks first whether it may leave (S7)",
        "runtime/actuator.py",
        "            self._may_write()\n        except BaseException:\n",
        "            pass\n        except BaseException:\n",
        (_WRITES,),
    ),
    Mutation(
        "writes-finish",
        "a term waits for the answers of its writes (S7)",
        "runtime/actuator.py",
        "        if self._under_way:\n",
        "        if False:\n",
        (_WRITES,),
    ),
    Mutation(
        "term-ends-after-writes",
        "the Lease is released after the last answer (S7)",
        "vpod/controller/controller.py",
        "            await self._actuator.finish()\n",
        "",
        (_LEADING,),
    ),
    Mutation(
        "drain-phase-2",
        "the scale is cut only where nothing lies or is reserved (S8)",
        "vpod/drain.py",
        "    if state.holds_from(target):\n        return False\n",
        "",
        (_DRAIN,),
    ),
    Mutation(
        "drain-status",
        "a status that was not written yet keeps its pods (S8)",
        "vpod/state_counts.py",
        "(slot.adding > 0 or slot.committed > 0)",
        "slot.trimming > 0",
        (_DRAIN,),
    ),
    Mutation(
        "drain-settle",
        "the last move settles before the cut (section 7)",
        "vpod/drain.py",
        "    return state.drain_moved_at is None or now >= state.drain_moved_at + state.options.drain.settle\n",
        "    return True\n",
        (_DRAIN,),
    ),
    Mutation(
        "drain-fits",
        "a drain that the rest has no room for does not begin (section 7)",
        "vpod/autoscaler.py",
        "    if drain.fits(state, DrainGoal(start, now), now):",
        "    if True:",
        (_DRAIN,),
    ),
    Mutation(
        "drain-stands-still",
        "a drain that stands still ends where it can (L4)",
        "vpod/autoscaler.py",
        "    if goal is None or drain.stands_still(state, goal, now):",
        "    if goal is None:",
        (_DRAIN,),
    ),
    Mutation(
        "drain-begins-again",
        "where fewer pods are enough by now, the next drain begins when one ends (L4)",
        "vpod/autoscaler.py",
        "wake_at=now if lowest < goal.target else None)",
        "wake_at=None)",
        (_DRAIN,),
    ),
    Mutation(
        "drain-asked-once",
        "what fits nowhere is not tried again before anything changes (B5)",
        "vpod/autoscaler.py",
        "    if memory.full == (state.version, start):",
        "    if False:",
        (_DRAIN,),
    ),
    Mutation(
        "drain-rebuilt",
        "an answer about one state is none about the one that replaces it (S10)",
        "vpod/state.py",
        "            state.version = previous.version  #",
        "            #",
        (_STATE,),
    ),
    Mutation(
        "drain-counts-as-written",
        "what a vpod leaves on its way is room for the next one (L4)",
        "vpod/drain.py",
        "decision.reservation, status=decision.reservation)",
        "decision.reservation)",
        (_DRAIN,),
    ),
    Mutation(
        "drain-surge",
        "what runs twice for a while keeps no drain from its end (L4)",
        "vpod/drain.py",
        "            entry.surge = 0  #",
        "            #",
        (_DRAIN,),
    ),
    Mutation(
        "sparse-slots",
        "an absurd ordinal is forgotten with what lay on it (D11)",
        "vpod/state_pods.py",
        "        if slot.pod is None and not slot.committed and not slot.adding and not slot.trimming:",
        "        if False:",
        (_DECIDE, _STATE),
    ),
    Mutation(
        "sparse-dense-list",
        "the dense list ends before absurd ordinals (D11)",
        "vpod/state_json.py",
        "_ABSURD_MARGIN = 1024",
        "_ABSURD_MARGIN = 200_000",
        (_STATE,),
    ),
    Mutation(
        "capacity",
        "a pod takes no more than it has room for (S1)",
        "vpod/situation.py",
        "        return free // self.weight if free > 0 else 0",
        "        return self.state.options.capacity // self.weight",
        (_DECIDE,),
    ),
    Mutation(
        "accept-only",
        "only pods that accept receive vreplicas (S4)",
        "vpod/situation.py",
        "        if slot is None or slot.verdict.pod_class is not PodClass.ACCEPT:",
        "        if slot is None:",
        (_DECIDE, "tests/vpod/test_pods.py"),
    ),
    Mutation(
        "grace",
        "a pod that is out of order for a moment keeps what it holds (V21, V23)",
        "vpod/state_pods.py",
        "return Verdict(PodClass.HOLD, cause, until) if now < until else Verdict(PodClass.REJECT, cause)",
        "return Verdict(PodClass.REJECT, cause)",
        ("tests/vpod/test_pods.py",),
    ),
    Mutation(
        "status-version",
        "a status is written against the version that was read (section 9)",
        "vpod/statuses.py",
        '    return {**({"metadata": {"resourceVersion": version}} if version else {}), **changes}',
        "    return changes if version else changes",
        ("tests/vpod/test_statuses.py", _LEADING),
    ),
    Mutation(
        "scale-version",
        "the scale is written against the version that was read (D21)",
        "vpod/controller/scaling.py",
        "decided.replicas, namespace, resource_version=version)",
        "decided.replicas, namespace)",
        (_LEADING,),
    ),
    Mutation(
        "stale-event",
        "a late event of the StatefulSet changes nothing (D2)",
        "vpod/controller/placing.py",
        "        if state is None or older(version, self._replicas_version):\n            return\n",
        "        if state is None:\n            return\n",
        (_LEADING,),
    ),
    Mutation(
        "failed-read",
        "a failed call changes no reservation (D3)",
        "vpod/controller/facade.py",
        "        yield from self._observe(now)\n        self._state.observe_vpod(vpod, now)",
        "        self._state.reserve(vpod.key, None)\n"
        "        yield from self._observe(now)\n        self._state.observe_vpod(vpod, now)",
        (_FACADE,),
    ),
    Mutation(
        "status-takes-room",
        "a status takes room even if less is reserved (D9)",
        "vpod/state_counts.py",
        "            slot.adding += (max(is_status, is_held) - max(was_status, was_held)) * weight",
        "            slot.adding += (is_held - was_held) * weight",
        (_DECIDE, _FACADE),
    ),
    Mutation(
        "status-takes-room-later",
        "the same where only the status changes (D9)",
        "vpod/state_counts.py",
        "                slot.adding += (max(now, held) - max(was, held)) * weight",
        "                pass",
        (_DECIDE, _FACADE, _STATE),
    ),
    Mutation(
        "status-takes-room-in-commit",
        "the same where a decision moves away from what the status says (D9)",
        "vpod/state_counts.py",
        "                change = max(committed, held) - max(committed, held - change)",
        "                pass",
        (_DECIDE, _FACADE, _STATE),
    ),
    Mutation(
        "quota",
        "a namespace takes no more than its quota (B11)",
        "vpod/limits.py",
        "        room = max(0, quota - others - held * weight) // weight",
        "        room = 1_000_000",
        ("tests/vpod/test_limits.py",),
    ),
    Mutation(
        "quota-demand",
        "what is above a quota is no demand (B11)",
        "vpod/demand.py",
        "        more = min(target - runs, max(0, quota - granted[namespace]) // entry.weight)\n",
        "        more = target - runs\n",
        ("tests/vpod/test_limits.py",),
    ),
    Mutation(
        "promotion",
        "a promotion reserves what the statuses say (D1)",
        "vpod/state.py",
        "            self.reserve(key, places if alive else None)",
        "            self.reserve(key, None)",
        (_STATE,),
    ),
    Mutation(
        "vanished",
        "the reservation of a vpod that is gone is released (D24)",
        "vpod/state.py",
        "            self._set_places(entry, NO_PLACES, None)\n\n    def drop_unlisted",
        "\n    def drop_unlisted",
        (_STATE,),
    ),
    Mutation(
        "pending-pods",
        "pods that wait for room in the cluster are not multiplied (D5, V22)",
        "vpod/demand.py",
        "        and slot.pod is not None\n        and slot.pod.node\n",
        "        and slot.pod is not None\n",
        (_AUTOSCALER,),
    ),
    Mutation(
        "stabilization",
        "a new leader watches for a whole period before it shrinks (B6)",
        "vpod/autoscaler.py",
        "    if now < memory.watching_since + state.options.scale_down_stabilization:\n        return state.replicas\n",
        "",
        (_AUTOSCALER,),
    ),
    Mutation(
        "sliding-maximum",
        "the set shrinks to the most that was needed throughout (B6)",
        "vpod/autoscaler.py",
        "    kept = tuple(r for r in before if r.pods > needed and r.until > now - period)",
        "    kept: tuple[Recommendation, ...] = ()",
        (_AUTOSCALER,),
    ),
    Mutation(
        "foreign-pods",
        "pods of other StatefulSets are not charged (D12)",
        "vpod/model.py",
        "    if not dash or head != statefulset or",
        "    if not dash or",
        ("tests/vpod/test_model.py", _DECIDE),
    ),
    Mutation(
        "rebalance-limit",
        "a rebalance moves no more than it may (B7)",
        "vpod/rebalance.py",
        "    for _ in range(min(allowed, state.options.rebalance.max_moves_per_vpod)):",
        "    for _ in range(1_000):",
        ("tests/vpod/test_rebalance.py",),
    ),
    Mutation(
        "rebalance-predicates",
        "no pod takes by a rebalance what the policy refuses it (B7)",
        "vpod/rebalance.py",
        "chain((first,), takers) if ordinal not in refused)",
        "chain((first,), takers))",
        ("tests/vpod/test_rebalance.py",),
    ),
    Mutation(
        "negative-status",
        "a negative entry of a status gives no pod more room (B12)",
        "vpod/state_counts.py",
        "            if ordinal is None or placement.vreplicas < 0:",
        "            if ordinal is None:",
        (_DECIDE, _STATE),
    ),
    Mutation(
        "evict-scheduled",
        "a source that is being scheduled is not evicted (section 7)",
        "vpod/evictor.py",
        '    return condition_status(content, condition) == "True"',
        "    return bool(condition_status(content, condition))",
        ("tests/vpod/test_evictor.py",),
    ),
    Mutation(
        "drained-pods",
        "pods that are drained receive nothing (section 7)",
        "vpod/state_pods.py",
        "        if self.is_drained(ordinal):\n            return Verdict(PodClass.HOLD, Cause.DRAINING)\n",
        "",
        (_DRAIN,),
    ),
    Mutation(
        "replicas-reset",
        "replicas that somebody else lowered move nothing at once (V21)",
        "vpod/state_pods.py",
        "            if self.reset_from is not None and ordinal < self.reset_from and now < until:",
        "            if False:",
        ("tests/vpod/test_pods.py",),
    ),
    Mutation(
        "weight",
        "a weight above the capacity is said so and takes nothing (B10)",
        "vpod/limits.py",
        "    if weight > options.capacity:",
        "    if False:",
        (_DECIDE,),
    ),
    Mutation(
        "priority",
        "a higher priority comes first under a shortage (section 15)",
        "vpod/limits.py",
        "    if state.pending and max(state.pending) > priority:",
        "    if False:",
        ("tests/vpod/test_limits.py",),
    ),
    Mutation(
        "bad-configmap",
        "a ConfigMap with a mistake is refused as a whole (D16)",
        "vpod/policy/configmap.py",
        "    policy = None if findings.mistakes else Policy(predicates, priorities)",
        "    policy = Policy(predicates, priorities)",
        ("tests/vpod/policy/test_configmap.py",),
    ),
)

GUARDS = (
    *_VPOD_GUARDS,
    *VPOD_HISTORIES_GUARDS,
    *FRAMEWORK_GUARDS,
    *VOLUME_GUARDS,
    *GPU_GUARDS,
    *SCHEDULER_GUARDS,
    *ANSWERS_GUARDS,
    *SPOT_GUARDS,
    *SPOT_PROCESS_GUARDS,
    *SHARDING_GUARDS,
    *SHARDING_EXECUTOR_GUARDS,
    *SHARDING_SUPERVISOR_GUARDS,
    *SHARDING_HISTORIES_GUARDS,
    *ARCHIVE_GUARDS,
    *ARCHIVE_CARE_GUARDS,
    *VM_AGENT_GUARDS,
    *VM_MACHINES_GUARDS,
    *VM_PLANNING_GUARDS,
    *VM_PODS_GUARDS,
    *VM_LEDGER_GUARDS,
    *VM_READING_GUARDS,
    *VM_RETARGETING_GUARDS,
    *VM_SERVER_GUARDS,
    *VM_EVICTIONS_GUARDS,
    *VM_HISTORIES_GUARDS,
    *VM_SHELL_GUARDS,
    *VM_KUBEVIRT_GUARDS,
)
