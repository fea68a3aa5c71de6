"""The safety guards of sharding's executors, at the client and by policy (its reference, sections 4, 6 and 8.2)."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_ADMITTING, _POLICY = "tests/sharding/fencing/test_admit.py", "tests/sharding/fencing/test_admission_policy.py"
_EXECUTING, _TENURE = "tests/sharding/executor/test_next_step.py", "tests/sharding/leases/test_tenure.py"
_EXECUTOR, _WORK = (
    "tests/sharding/executor/controller/test_executor.py",
    "tests/sharding/executor/controller/test_work.py",
)
_LEASE, _INVARIANTS = "tests/sharding/executor/controller/test_lease.py", "tests/testing/sharding/test_invariants.py"

SHARDING_EXECUTOR_GUARDS = (
    Mutation(
        "sharding-incarnation-admitted",
        "a status is written by the incarnation that holds the object, and no other (S2)",
        "sharding/fencing/admit.py",
        '    return writer.pod_uid != "" and before.executor_uid == writer.pod_uid and not before.completed',
        '    return before.executor_uid != "" and not before.completed',
        (_ADMITTING,),
    ),
    Mutation(
        "sharding-policy-incarnation",
        "the policy asks for the incarnation too (S2)",
        "sharding/fencing/admission_policy.py",
        "variables.old_uid == variables.pod_uid && !variables.completed",
        "!variables.completed",
        (_POLICY,),
    ),
    Mutation(
        "sharding-policy-term",
        "the policy refuses who leads no longer (S10)",
        "sharding/fencing/admission_policy.py",
        '        "variables.new_term >= params.spec.leaseTransitions"',
        '        "true"',
        (_POLICY,),
    ),
    Mutation(
        "sharding-owner-incarnation",
        "work is begun for this incarnation only (S11)",
        "sharding/executor/next_step.py",
        '    mine = view.executor == me.id and view.executor_uid == me.uid != ""',
        "    mine = view.executor == me.id",
        (_EXECUTING, _EXECUTOR),
    ),
    Mutation(
        "sharding-owner-epoch",
        "a handler of an earlier epoch is stopped (S11)",
        "sharding/executor/next_step.py",
        "    if view is None or view.epoch != local.running or view.uid != local.running_uid:",
        "    if view is None or view.uid != local.running_uid:",
        (_EXECUTING, _EXECUTOR),
    ),
    Mutation(
        "sharding-forgone",
        "what was given under a lost lease is released, not worked on (S1)",
        "sharding/executor/next_step.py",
        "    if view.drain is not None or situation.draining or view.epoch <= local.forgone:",
        "    if view.drain is not None or situation.draining:",
        (_EXECUTING, _EXECUTOR),
    ),
    Mutation(
        "sharding-begun-anew",
        "what an earlier process of the pod was given is released, not worked on (S1, S11)",
        "sharding/executor/controller/readiness.py",
        "        again = tenure.number > 0 or keeper.found_before",
        "        again = tenure.number > 0",
        (_EXECUTOR,),
    ),
    Mutation(
        "sharding-leased",
        "nothing is begun without a lease (S1)",
        "sharding/executor/next_step.py",
        "    if not situation.leased:\n        return Wait()\n",
        "",
        (_EXECUTING,),
    ),
    Mutation(
        "sharding-write-tests",
        "each write carries the version it was computed from, and tests epoch and incarnation (S2)",
        "sharding/executor/controller/work.py",
        "        patch = JsonPatch(operations)",
        "        patch = JsonPatch(operations[4:])",
        (f"{_WORK}::test_a_write_under_way_arrives_too_late",),
    ),
    Mutation(
        "sharding-conflict-owner",
        "after a conflict it is asked again whose the object is (S2)",
        "sharding/executor/controller/work.py",
        "                self._check_ownership(fresh, uid, epoch)\n",
        "",
        (_WORK,),
    ),
    Mutation(
        "sharding-both-deadlines",
        "no news of the objects is as bad as no lease (S1)",
        "sharding/leases/tenure.py",
        "        return min(self._renewed_at, self._known_at) + self.times.renew_deadline_s",
        "        return self._renewed_at + self.times.renew_deadline_s",
        (_TENURE, _EXECUTOR),
    ),
    Mutation(
        "sharding-sent-at",
        "a lease counts from before its renewal was sent (S1)",
        "sharding/executor/controller/lease.py",
        "            self._tenure.record_renewal(sent_at)",
        "            self._tenure.record_renewal(self._now())",
        (_LEASE,),
    ),
    Mutation(
        "sharding-stalled",
        "nothing is renewed for a loop that stands still (S1)",
        "sharding/executor/controller/lease.py",
        "        return not self._callbacks.stalled() and not (self._tenure.over and self._callbacks.busy())",
        "        return not (self._tenure.over and self._callbacks.busy())",
        (_LEASE,),
    ),
    Mutation(
        "sharding-waits-for-others",
        "what another thread has to bring about is looked for: a loop that goes on, a handler that ends (S1)",
        "sharding/executor/controller/lease.py",
        "        if tenure.over or not self._may_renew():",
        "        if False:",
        (_LEASE,),
    ),
    Mutation(
        "sharding-suspended",
        "a machine that was suspended has lost the right to work at once, whatever its timers say (S1)",
        "sharding/executor/controller/lease.py",
        "            keeper.check_now()",
        "            pass",
        (f"{_LEASE}::test_the_thread_looks_by_itself",),
    ),
    Mutation(
        "sharding-ends-process",
        "what has not stopped in time ends with the process (S1)",
        "sharding/executor/controller/lease.py",
        "            self._end_process(EXIT_CODE)",
        "            pass",
        (_LEASE, _EXECUTOR),
    ),
    Mutation(
        "sharding-given-back",
        "a lease is given back only when nothing runs (S5)",
        "sharding/executor/controller/lease.py",
        "        if self._holds and not self._callbacks.busy():",
        "        if self._holds:",
        (_LEASE,),
    ),
    Mutation(
        "sharding-given-back-late",
        "a lease is given back as it was seen, so that it is not taken from the next process of the pod (S5)",
        "sharding/executor/controller/lease.py",
        '        body = {"metadata": {**self._metadata(), "resourceVersion": self._version}, "spec": self._spec("")}',
        '        body = {"metadata": self._metadata(), "spec": self._spec("")}',
        (_LEASE,),
    ),
    Mutation(
        "sharding-release-after-stop",
        "an object is released when its handler has ended, and not before (S5)",
        "sharding/executor/next_step.py",
        "    if local.running is not None:\n        return _step_while_running(view if ours else None, local, "
        "situation)\n",
        "    if local.running is not None and (view is None or view.drain is None):\n"
        "        return _step_while_running(view if ours else None, local, situation)\n",
        (_EXECUTING, _EXECUTOR),
    ),
    Mutation(
        "sharding-relist",
        "a watch that says nothing is asked (S1)",
        "sharding/executor/controller/readiness.py",
        "                elif now - self._tenure.known_at > deadline_s / 2 and self._relisting is None:",
        "                elif False:",
        (_EXECUTOR,),
    ),
    Mutation(
        "sharding-confirmed",
        "work is begun when the server has just confirmed that it may be (S11)",
        "sharding/executor/controller/objects.py",
        "                content = await self._connected_writer.read(*request)",
        "                content = self._views[request].content",
        (f"{_EXECUTOR}::test_nothing_is_begun_on_old_news",),
    ),
    Mutation(
        "sharding-checker",
        "the checker of histories asks for the ack (S5)",
        "testing/sharding/invariants.py",
        "        if each.previous not in (None, new) and not each.given_up and not self._has_lease_expired(each, "
        "event.t):",
        "        if False:",
        (_INVARIANTS,),
    ),
)
