"""The safety guards of sharding's supervisor: what it asks before it writes (its reference, sections 4, 5 and 11)."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_SENDING, _SUPERVISOR = (
    "tests/sharding/supervisor/controller/act/test_writer.py",
    "tests/sharding/supervisor/controller/test_supervisor.py",
)
_TABLES = "tests/sharding/partitions/test_slot_tables.py"
_QUEUE, _LEASES = (
    "tests/sharding/supervisor/controller/archive/test_queue.py",
    "tests/sharding/leases/test_membership.py",
)

SHARDING_SUPERVISOR_GUARDS = (
    Mutation(
        "sharding-leader-writes",
        "nothing is written when another supervisor may lead (S10)",
        "sharding/supervisor/controller/act/writer.py",
        '        require_leadership(f"supervisor {self._scope.lease}", self._leadership)\n',
        "        pass\n",
        (_SENDING,),
    ),
    Mutation(
        "sharding-write-in-time",
        "a write is given up before another supervisor may lead (S10)",
        "sharding/supervisor/controller/act/writer.py",
        "        async with asyncio.timeout(seconds):",
        "        async with asyncio.timeout(60 * seconds):",
        (_SENDING,),
    ),
    Mutation(
        "sharding-in-doubt",
        "of a removed executor that was given something since, the Lease is read before it is taken away (S5)",
        "sharding/supervisor/controller/term.py",
        "            if view.completed or not observer.is_uncertain(uid, since):",
        "            if True:",
        (_SUPERVISOR + "::test_who_has_come_back_unseen_keeps_what_another_supervisor_gave_it",),
    ),
    Mutation(
        "sharding-lease-as-seen",
        "an executor's Lease is deleted as it was seen, or not at all: who lives has changed it (S1)",
        "sharding/supervisor/controller/act/writer.py",
        "uid=leftover.uid, resource_version=leftover.version",
        "uid=leftover.uid",
        (_SENDING + "::test_the_lease_of_an_executor_is_deleted_as_it_was_seen",),
    ),
    Mutation(
        "sharding-lease-of-a-pod",
        "while a pod is there its executor's Lease is kept, by which the next process in it knows that it is one (S1)",
        "sharding/leases/membership.py",
        "            if seen.pod is None and now - seen.ended_at",
        "            if now - seen.ended_at",
        (_LEASES + "::test_the_lease_of_a_pod_that_is_there_is_no_leftover",),
    ),
    Mutation(
        "sharding-lease-owed",
        "an executor's Lease is kept while an open object is assigned to it (S1)",
        "sharding/supervisor/controller/term.py",
        "            if self._index.objects_of_holder(leftover.executor_uid):",
        "            if False:",
        (_SUPERVISOR + "::test_a_lease_stays_while_something_is_assigned_to_its_executor",),
    ),
    Mutation(
        "sharding-frozen-confirmed",
        "what a table gives is ours only when others can read that we know of it (K10)",
        "sharding/partitions/slot_tables.py",
        "        if self.newest is None or self.confirmed is None:",
        "        if self.newest is None:\n            return _own_nothing\n        if self.confirmed is None:\n"
        "            return table_ownership(self.newest, self.newest, self.partition, self.by)\n        if False:",
        (_TABLES,),
    ),
    Mutation(
        "sharding-handed-over-term",
        "an object that came from another partition never gets an older term than it bears (8.2)",
        "sharding/supervisor/controller/act/writer.py",
        "        return max(self.term, view.term) if self._scope.partition_table else self.term",
        "        return self.term",
        (
            "tests/sharding/supervisor/controller/test_elastic.py::test_slots_change_owners_in_two_versions_and_nothing_else_moves",
        ),
    ),
    Mutation(
        "sharding-dependents-first",
        "what would be deleted with its owner is in the archive before (section 11, step 5)",
        "sharding/assignment/decide.py",
        "        if any(each.has_finalizer(config.finalizer) for each in situation.dependents(view)):",
        "        if False:",
        (_QUEUE + "::test_dependents_go_before_their_owner",),
    ),
    Mutation(
        "sharding-late-renewal",
        "a renewal that is seen after the proof of death is of the dead (B2)",
        "sharding/leases/membership.py",
        "            found.proven_dead = found.proven_dead and not (begun_anew or found.restarted)",
        "            found.proven_dead = False",
        (_LEASES,),
    ),
    Mutation(
        "sharding-archiver-garbage",
        "whatever an archiver gives back or raises, nothing is let go, and the object says so (S7)",
        "sharding/supervisor/controller/archive/steps.py",
        "        if not isinstance(found, Record):",
        "        if False:",
        (_QUEUE + "::test_an_archiver_that_answers_garbage_is_named_on_the_object",),
    ),
    Mutation(
        "sharding-drain-by-objects",
        "a drain is over when no object is held, whatever an old report says (L3)",
        "cli/sharding/drain.py",
        "client, lease, executor, held, wait_s, dry_run=dry_run)",
        "client, lease, executor, _reported_open_count, wait_s, dry_run=dry_run)",
        (
            "tests/cli/sharding/test_live_cluster.py::test_a_drain_is_over_when_no_object_is_held_whatever_the_lease_still_says",
        ),
    ),
    Mutation(
        "sharding-foreseen-listed",
        "a version of the table is confirmed when what it gives has been listed (K10)",
        "sharding/supervisor/controller/observe/objects_watch.py",
        "        self._listed.clear()\n",
        "",
        ("tests/sharding/supervisor/controller/observe/test_objects_watch.py",),
    ),
    Mutation(
        "sharding-one-listing",
        "a listing of an earlier choice of objects takes nothing away that a later one has brought (K10)",
        "sharding/supervisor/controller/observe/objects_watch.py",
        "        async with self._one_listing:",
        "        if True:",
        ("tests/sharding/supervisor/controller/observe/test_objects_watch.py",),
    ),
    Mutation(
        "sharding-known-by-name",
        "of what was another partition's nothing counts as known that was not kept (K10)",
        "sharding/supervisor/controller/observe/trimmed_objects.py",
        "        if not foreign and new.raw == _NOTHING:",
        "        if False:",
        ("tests/sharding/supervisor/controller/observe/test_trimmed_objects.py",),
    ),
    Mutation(
        "sharding-overtaken-reading",
        "who has given its Lease back is not brought back by an answer that is older than that (S4)",
        "sharding/leases/membership.py",
        "        oddities = () if lease is None or overtaken else",
        "        oddities = () if lease is None else",
        (_LEASES + "::test_a_reading_that_an_event_has_overtaken_brings_nobody_back",),
    ),
    Mutation(
        "sharding-policy-names",
        "an output without the leader's Lease replaces the policy of one with it, which would refuse all writes (L1)",
        "sharding/fencing/admission_policy.py",
        '    yield from scope.policy(\n        f"{name}{_TERM_SUFFIX}",',
        '    if lease is None:\n        return\n    yield from scope.policy(\n        f"{name}{_TERM_SUFFIX}",',
        (
            "tests/sharding/fencing/test_admission_policy.py::test_an_output_with_a_lease_and_one_without_have_the_same_names",
        ),
    ),
    Mutation(
        "sharding-live-receiver",
        "slots go only to a partition whose supervisor holds its Lease (L1)",
        "cli/sharding/partitions.py",
        "        if not where.force and (refused := read.missing_supervisors(after)):",
        "        if False and (refused := read.missing_supervisors(after)):",
        ("tests/cli/sharding/test_live_cluster.py::test_slots_go_only_to_a_partition_with_a_supervisor",),
    ),
    Mutation(
        "sharding-live-receiver-of-a-hand-over",
        "frozen slots are handed over only to a partition whose supervisor holds its Lease (L1)",
        "cli/sharding/partitions.py",
        "        return waits if force else",
        "        return waits if True else",
        ("tests/cli/sharding/test_live_cluster.py::test_slots_go_only_to_a_partition_with_a_supervisor",),
    ),
)
