"""Checks of migrations when they are written: each has a claim, a target and a reason, and each claim is used once.

The rules are I3, I9, I12, I13 and I14, and B1, B2, B12 and B14.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

from situate.testing.vm.invariants.freed_capacity import FreedCapacity
from situate.testing.vm.invariants.nodes import NodeChecks
from situate.testing.vm.invariants.objects import (
    ACTIVE_PHASES,
    FROZEN,
    Obj,
    annotation_of,
    beneficiary_kind,
    divide_by_overcommit,
    name_of,
    phase_of,
)
from situate.testing.vm.invariants.usage import UsageCounter
from situate.testing.vm.world.history_world import VmHistoryWorld
from situate.testing.vm.world.processes import MIGRATION_TABLE
from situate.vm.api.well_known import CLAIM, CLAIM_CLOSED, CREATED_BY_SCHEDULER_LABEL, TARGET_NODE
from situate.vm.model.resource_amounts import Amounts

FACT_S: Final = 60.0
"""Seconds after an unrefusable fact in which decisions made without knowing it may still take effect (I13, B8)."""
LATE_S: Final = 20.0
"""Maximum seconds by which a decision may lag, because watches, writes and answers are late."""
REASON_S: Final = 40.0
"""Seconds after the end of its reason in which a migration may still begin: pauses and late messages delay it."""
_NOTHING: Final = Amounts.zero()


class MigrationChecks:
    """The migration checks of one history."""

    def __init__(
        self,
        place: VmHistoryWorld,
        counting: UsageCounter,
        nodes: NodeChecks,
        freed: FreedCapacity,
        frozen: Mapping[str, float],
        breach: Callable[[str], None],
    ) -> None:
        """`frozen`: by UID of a VM, since when it is frozen."""
        self._world = place
        self._usage = counting
        self._nodes = nodes
        self._freed = freed
        self._frozen = frozen
        self._happened = place.happened
        self._breach = breach
        self.created = 0
        """Number of migrations created by vm."""
        self._claims: dict[str, tuple[str, str]] = {}
        """By claim id: UIDs of the migration and of the beneficiary's pod."""
        self._closed: dict[str, str] = {}
        """By id of a used claim: UID of the VM that used it."""

    def check_new_migration(self, migration: Obj) -> None:
        """Check a new migration by I3, I9, I12, I13, B1, B2 and B12."""
        meta = migration["metadata"]
        notes, name, self.created = meta.get("annotations") or {}, meta["name"], self.created + 1
        machines = self._usage.machines()
        machine = machines.get(migration["spec"]["vmName"])
        target = notes.get(TARGET_NODE, "")
        if not target:
            self._breach(f"B12: {name} was created without a target node")
        if machine is None:
            return
        pod = self._world.object("pods", meta["namespace"], machine["status"].get("podName", ""))
        now = self._world.now
        node = "" if pod is None else pod["spec"].get("nodeName", "")
        self._happened["moved"] += 1
        self._nodes.record_pressure(machines)
        chained = beneficiary_kind(migration) == "Target"
        # otherwise it was sent for a pod that is gone, and no field of a POST can test for that (F1)
        if pod is not None and name == f"schedplugin-{name_of(pod)}":
            if node and not chained and now - self._nodes.pressed_at.get(node, float("-inf")) > REASON_S:
                self._breach(f"I9: {name} leaves {node}, but no VM or Pod needs its capacity since {REASON_S:g} s")
            if target == node:
                self._breach(f"I12: {name} has the target node {node}, which is its source")
            if CLAIM in notes:
                self._check_claim(migration, json.loads(notes[CLAIM]), pod)
        self._check_watermark(migration, machine, target, machines)

    def record_cancellation(self, process: str, namespace: str, name: str) -> None:
        """Drop the claim of a migration that was cancelled before the process could know that it had succeeded (F2)."""
        known = next(
            (
                found.content
                for member in self._world.members
                if member.identity == process
                and (found := member.controller.informers.migrations.store.get(name, namespace)) is not None
            ),
            None,
        )
        if known is not None and phase_of(known) in ACTIVE_PHASES and (text := annotation_of(known, CLAIM)):
            self._freed.drop_claim(str(json.loads(text)["id"]))

    def _check_claim(self, migration: Obj, claim: Obj, source: Obj) -> None:
        """Check I3 for a new claim."""
        self._happened["claimed"] += 1
        name, uid = name_of(migration), source["metadata"]["uid"]
        if claim["id"] in self._claims:
            self._breach(f"I3: claim {claim['id']} of {name} belongs to another migration")
        self._claims[claim["id"]] = (migration["metadata"]["uid"], claim["beneficiary"]["uid"])
        if claim["beneficiary"]["uid"] == uid:
            self._breach(f"I3: claim {claim['id']} frees capacity for the VM that leaves, {name_of(source)}")
        if claim["source"]["podUID"] != uid:
            self._breach(f"I3: claim {claim['id']} is on another source than {name} moves")
        if claim["node"] != source["spec"].get("nodeName", ""):
            self._breach(f"I3: claim {claim['id']} is on {claim['node']}, and its source on another node")

    def _check_watermark(self, migration: Obj, machine: Obj, target: str, machines: Mapping[str, Obj]) -> None:
        """Check I13, unless a recent unrefusable fact explains the excess.

        VMs that grew since the decision are allowed.
        """
        now = self._world.now
        there = self._world.object("nodes", "", target)
        if there is None or any(at >= now - FACT_S for at, _ in self._nodes.facts.get(target, ())):
            return
        coming = divide_by_overcommit(self._usage.permitted_amount(machine), machine)
        for other in self._usage.table(MIGRATION_TABLE):
            mover = machines.get(other["spec"]["vmName"])
            if (
                mover is None
                or other["metadata"]["uid"] == migration["metadata"]["uid"]
                or phase_of(other) not in ACTIVE_PHASES
            ):
                continue
            arrived = self._usage.is_bound((other.get("status") or {}).get("targetPodName", ""))
            if (other["metadata"].get("annotations") or {}).get(TARGET_NODE) == target and not arrived:
                coming += divide_by_overcommit(self._usage.permitted_amount(mover), mover)
        lately = [sums.get(target, _NOTHING) for at, sums in self._nodes.recent_sums if at >= now - LATE_S]
        filled = reduce(Amounts.minimum, lately, self._usage.sums_by_node(machines).get(target, _NOTHING)) + coming
        watermark = self._usage.watermark_of(there)
        if filled.exceeds(watermark):
            self._breach(f"I13: {name_of(migration)} brings {target} to {filled.values} of {watermark.values}")

    def check_approval(self, machine: Obj) -> None:
        """Check I3 and I14 for an approval."""
        meta, now = machine["metadata"], self._world.now
        since = self._frozen.get(meta["uid"])
        if phase_of(machine) in FROZEN and since is not None and now - since > LATE_S:
            self._breach(f"I14: {meta['name']} is {phase_of(machine)} since {now - since:g} s, but got an approval")
        closed = (meta.get("annotations") or {}).get(CLAIM_CLOSED)
        if closed:
            first = closed not in self._closed
            self._happened["claim closed"] += first
            user = self._closed.setdefault(closed, meta["uid"])
            if user != meta["uid"]:
                self._breach(f"I3: claim {closed} was used twice, now by {meta['name']}")
            _, beneficiary = self._claims.get(closed, ("", ""))
            pods = (each["metadata"] for each in self._usage.table("pods"))
            owners = {
                owner["uid"] for pod in pods if pod["uid"] == beneficiary for owner in pod.get("ownerReferences") or ()
            }
            # it may have left that pod: the decision is written after its arrival
            if first and owners and meta["uid"] not in owners:
                self._breach(f"I3: claim {closed} was used for {meta['name']}, but belongs to another beneficiary")

    def check_binding(self, name: str) -> None:
        """Check I12 and B14 for a bound target pod."""
        for migration in self._usage.table(MIGRATION_TABLE):
            status = migration.get("status") or {}
            if status.get("targetPodName") != name or phase_of(migration) not in ACTIVE_PHASES:
                continue
            pods = {name_of(each): each["spec"].get("nodeName", "") for each in self._usage.table("pods")}
            node = pods.get(name, "")
            if node and node == pods.get(status.get("sourcePodName", ""), ""):
                self._breach(f"I12: {name} is bound to {node}, which it must leave")
            labels = migration["metadata"].get("labels") or {}
            reserved = (migration["metadata"].get("annotations") or {}).get(TARGET_NODE)
            if labels.get(CREATED_BY_SCHEDULER_LABEL) == "true" and reserved != node:
                self._happened["target chosen anew"] += 1
