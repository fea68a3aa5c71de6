"""The guards of vpod that histories judge: what is promised in time, and what is remembered and moved."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_SHORT = "tests/testing/vpod/test_short_histories.py"
_IN_TIME = f"{_SHORT}::test_what_is_promised_comes_in_time"
_IN_TURN = f"{_SHORT}::test_room_goes_to_who_has_waited_longest"
_PREDICATES = f"{_IN_TIME}[policy, predicates]"

VPOD_HISTORIES_GUARDS = (
    Mutation(
        "vpod-history-l1",
        "histories see a vpod that is not looked at when it asks for more (L1)",
        "vpod/controller/apply.py",
        "            self.queue.add(after.key)\n        elif",
        "            self.queue.add_after(after.key, 1.0)\n        elif",
        (f"{_IN_TIME}[spread]",),
    ),
    Mutation(
        "vpod-history-l2-trigger",
        "histories see a shortage that does not wake the autoscaler (L2)",
        "vpod/controller/apply.py",
        "        if decision.wakes_autoscaler:",
        "        if False:",
        (f"{_IN_TIME}[spread]",),
    ),
    Mutation(
        "vpod-history-l2-room",
        "histories see vpods that stay short beside pods with room (L2)",
        "vpod/controller/apply.py",
        "            order = retry_order(self.state)\n",
        "            order = list[Key]()\n",
        (_IN_TURN,),
    ),
    Mutation(
        "vpod-history-l3",
        "histories see what stays of a vpod that wants nothing (L3)",
        "vpod/placement/decide.py",
        "else max(0, vpod.vreplicas)\n    if adapter",
        "else max(1, vpod.vreplicas)\n    if adapter",
        (f"{_IN_TIME}[spread]",),
    ),
    Mutation(
        "vpod-history-l4",
        "histories see pods that stay for longer than they have to (L4)",
        "vpod/scaling/autoscaler.py",
        "r.until > now - period)",
        "r.until > now - 3 * period)",
        (f"{_IN_TIME}[no drain]",),
    ),
    Mutation(
        "vpod-history-l4-drain",
        "histories see a drain that stands still until its time-out (L4)",
        "vpod/scaling/autoscaler.py",
        "    if goal is None or drain.is_stalled(state, goal, now):",
        "    if goal is None:",
        (f"{_SHORT}::test_pods_that_are_empty_do_not_wait_for_one_that_cannot_be_emptied",),
    ),
    Mutation(
        "vpod-history-l5-order",
        "histories see retries that are not ordered by age (L5)",
        "vpod/placement/decide.py",
        "sorted(state.short.values(), key=retry_sort_key)]",
        "sorted(state.short.values(), key=retry_sort_key, reverse=True)]",
        (_IN_TURN,),
    ),
    Mutation(
        "vpod-history-spare-copies",
        "histories see spare copies that are not asked back for vpods that are short (D6)",
        "vpod/controller/apply.py",
        "            for giver in spare_copy_givers(state):",
        "            for giver in list[Key]():",
        (f"{_SHORT}::test_what_min_replicas_adds_makes_room_for_what_is_wanted",),
    ),
    Mutation(
        "vpod-history-l5-turn",
        "who comes up before its turn waits for those before it (L5)",
        "vpod/controller/apply.py",
        "        if self._shortage_queue.must_wait(state, key):",
        "        if False:",
        (f"{_IN_TIME}[weights, step by step]",),
    ),
    Mutation(
        "vpod-history-b5",
        "histories see writes in steady state (B5)",
        "vpod/controller/scaler.py",
        "        if decided.replicas != scale.spec.replicas:",
        "        if may_shrink:",
        (f"{_IN_TIME}[reference]",),
    ),
    Mutation(
        "vpod-history-b2",
        "histories see a new leader that forgets what runs (B2, D1)",
        "vpod/state/state.py",
        "        if reserved is None:\n            state.reserve_from_status()",
        "        if False:\n            state.reserve_from_status()",
        (f"{_SHORT}::test_a_new_leader_goes_on_with_what_runs",),
    ),
    Mutation(
        "vpod-history-b4",
        "histories see more moves in a drain than had to leave (B4)",
        "vpod/placement/decide.py",
        "        if leave_draining and state.is_drained(ordinal):",
        "        if leave_draining:",
        (f"{_IN_TIME}[spread]",),
    ),
    Mutation(
        "vpod-history-s3",
        "histories see predicates that refuse what they should not (S3)",
        "vpod/policy/place.py",
        "    for left in range(vreplicas, 0, -1):\n        candidates",
        "    for left in range(vreplicas, 1, -1):\n        candidates",
        (_PREDICATES,),
    ),
    Mutation(
        "vpod-history-s6",
        "histories see a partial result that is not reserved (S6)",
        "vpod/placement/decide.py",
        "    state.commit(\n        decision.key,\n",
        "    if decision.left:\n        return\n    state.commit(\n        decision.key,\n",
        (_IN_TURN,),
    ),
    Mutation(
        "vpod-history-s8",
        "histories see pods that go while something is on them (S8)",
        "vpod/scaling/drain.py",
        "    if state.is_used_from(target):\n        return False\n",
        "",
        (f"{_IN_TIME}[pack, surge]", f"{_IN_TIME}[spread]"),
    ),
    Mutation(
        "vpod-history-s8-reserved",
        "histories see pods that go while something is reserved on them (S8)",
        "testing/vpod/invariants/rules.py",
        '                if replicas <= ordinal < before:\n                    raise HistoryBreach(f"{said} ordinal',
        '                if False:\n                    raise HistoryBreach(f"{said} ordinal',
        ("tests/testing/vpod/test_histories.py::test_a_cut_of_what_is_only_reserved_is_a_breach",),
    ),
)
