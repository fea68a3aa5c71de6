"""What keeps sharding prompt: tried with a few histories of the shipped processes (its reference, 8.1 and 15)."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_TIMED = ("tests/testing/sharding/test_histories.py::test_every_kind_of_wait_is_judged_in_a_few_histories",)

SHARDING_HISTORIES_GUARDS = (
    Mutation(
        "sharding-cordoned-chosen",
        "an executor whose pod is cordoned gets nothing new (S4)",
        "sharding/leases/membership.py",
        '        pod.metadata.deletion_timestamp is not None or pod.metadata.annotations.get(CORDON) == "true"',
        "        pod.metadata.deletion_timestamp is not None",
        _TIMED,
    ),
    Mutation(
        "sharding-unready-chosen",
        "an executor whose pod is not ready gets nothing new (S4)",
        "sharding/leases/membership.py",
        "    if not ready:\n        return ExecutorStatus.UNHEALTHY\n",
        "",
        _TIMED,
    ),
    Mutation(
        "sharding-new-looked-at",
        "a new object is looked at when it comes (L1)",
        "sharding/supervisor/controller/triggers.py",
        'affected by a change of one object; `view` None: it is gone."""\n        self._queue.add(request)\n',
        'affected by a change of one object; `view` None: it is gone."""\n'
        "        if before is not None or view is None or view.epoch:\n            self._queue.add(request)\n",
        _TIMED,
    ),
    Mutation(
        "sharding-lost-looked-at",
        "what a lost executor held is looked at when it is known to be lost (L2)",
        "sharding/supervisor/controller/triggers.py",
        "            for request in self._index.objects_of_holder(uid):\n",
        "            for request in () if uid in after.removed else self._index.objects_of_holder(uid):\n",
        _TIMED,
    ),
    Mutation(
        "sharding-drain-ends",
        "what its holder does not give up is taken back in time (L3)",
        "sharding/assignment/drain.py",
        "            if memory.drain_due is not None and situation.now >= memory.drain_due:",
        "            if memory.drain_due is not None and situation.now >= memory.drain_due + 5.0:",
        _TIMED,
    ),
    Mutation(
        "sharding-archive-apart",
        "whoever places objects does not wait for the archive (B9, X13)",
        "sharding/supervisor/controller/term.py",
        "                    self.archive.begin(request, view.uid, delete=delete)\n",
        "                    self.archive.begin(request, view.uid, delete=delete)\n"
        "                    await self.archive.reconcile(request)\n",
        (
            "tests/sharding/supervisor/controller/archive/test_queue.py::test_an_archive_that_is_away_for_an_hour_"
            "delays_no_assignment_and_lacks_nothing_afterwards",
        ),
    ),
    Mutation(
        "sharding-own-watch",
        "an executor is sent events of its own objects alone (B8)",
        "sharding/executor/config.py",
        '        return f"{EXECUTOR}={executor_label(executor)}", ""\n',
        '        return EXECUTOR, ""\n',
        ("tests/sharding/supervisor/controller/test_caches.py",),
    ),
)
