"""Checks of migrations when they are written: each has a claim, a target and a reason, and each claim is used once.

The rules are I3, I9, I12, I13 and I14, and B1, B2, B12 and B14.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Final

from situate.testing.vm.invariants.freed_capacity import FreedRoom
from situate.testing.vm.invariants.nodes import NodesSeen
from situate.testing.vm.invariants.objects import AT_WORK, FROZEN, Obj, beneficiary_kind, divided, name_of, note, phase
from situate.testing.vm.invariants.usage import Counting
from situate.testing.vm.world.history_world import Place
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


class MovesSeen:
    """The migration checks of one history."""

    def __init__(
        self,
        place: Place,
        counting: Counting,
        nodes: NodesSeen,
        freed: FreedRoom,
        frozen: Mapping[str, float],
        happened: Counter[str],
        breach: Callable[[str], None],
    ) -> None:
        """`frozen`: by UID of a VM, since when it is frozen."""
        self._place = place
        self._counting = counting
        self._nodes = nodes
        self._freed = freed
        self._frozen = frozen
        self._happened = happened
        self._breach = breach
        self.created = 0
        """Number of migrations created by vm."""
        self._claims: dict[str, tuple[str, str]] = {}
        """By claim id: UIDs of the migration and of the beneficiary's pod."""
        self._closed: dict[str, str] = {}
        """By id of a used claim: UID of the VM that used it."""

    def move_begins(self, migration: Obj) -> None:
        """Check a new migration by I3, I9, I12, I13, B1, B2 and B12."""
        meta = migration["metadata"]
        notes, name, self.created = meta.get("annotations") or {}, meta["name"], self.created + 1
        machines = self._counting.machines()
        machine = machines.get(migration["spec"]["vmName"])
        target = notes.get(TARGET_NODE, "")
        if not target:
            self._breach(f"B12: {name} was created without a target node")
        if machine is None:
            return
        pod = self._place.object("pods", meta["namespace"], machine["status"].get("podName", ""))
        now = self._place.now
        node = "" if pod is None else pod["spec"].get("nodeName", "")
        self._happened["moved"] += 1
        self._nodes.press(machines)
        chained = beneficiary_kind(migration) == "Target"
        # otherwise it was sent for a pod that is gone, and no field of a POST can test for that (F1)
        if pod is not None and name == f"schedplugin-{name_of(pod)}":
            if node and not chained and now - self._nodes.pressed.get(node, float("-inf")) > REASON_S:
                self._breach(f"I9: {name} leaves {node}, but no VM or Pod needs its capacity since {REASON_S:g} s")
            if target == node:
                self._breach(f"I12: {name} has the target node {node}, which is its source")
            if CLAIM in notes:
                self._claimed(migration, json.loads(notes[CLAIM]), pod)
        self._above_watermark(migration, machine, target, machines)

    def cancelled(self, process: str, namespace: str, name: str) -> None:
        """Drop the claim of a migration that was cancelled before the process could know that it had succeeded (F2)."""
        known = next(
            (
                found.content
                for member in self._place.members
                if member.identity == process
                and (found := member.controller.watched.migrations.store.get(name, namespace)) is not None
            ),
            None,
        )
        if known is not None and phase(known) in AT_WORK and (text := note(known, CLAIM)):
            self._freed.given_up(str(json.loads(text)["id"]))

    def _claimed(self, migration: Obj, claim: Obj, source: Obj) -> None:
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

    def _above_watermark(self, migration: Obj, machine: Obj, target: str, machines: Mapping[str, Obj]) -> None:
        """Check I13, unless a recent unrefusable fact explains the excess.

        VMs that grew since the decision are allowed.
        """
        now = self._place.now
        there = self._place.object("nodes", "", target)
        if there is None or any(at >= now - FACT_S for at, _ in self._nodes.facts.get(target, ())):
            return
        coming = divided(self._counting.permitted(machine), machine)
        for other in self._counting.table(MIGRATION_TABLE):
            mover = machines.get(other["spec"]["vmName"])
            if mover is None or other["metadata"]["uid"] == migration["metadata"]["uid"] or phase(other) not in AT_WORK:
                continue
            arrived = self._counting.is_bound((other.get("status") or {}).get("targetPodName", ""))
            if (other["metadata"].get("annotations") or {}).get(TARGET_NODE) == target and not arrived:
                coming += divided(self._counting.permitted(mover), mover)
        lately = [sums.get(target, _NOTHING) for at, sums in self._nodes.lately if at >= now - LATE_S]
        filled = reduce(Amounts.least, lately, self._counting.sums(machines).get(target, _NOTHING)) + coming
        watermark = self._counting.watermark(there)
        if filled.exceeds(watermark):
            self._breach(f"I13: {name_of(migration)} brings {target} to {filled.values} of {watermark.values}")

    def approved(self, machine: Obj) -> None:
        """Check I3 and I14 for an approval."""
        meta, now = machine["metadata"], self._place.now
        since = self._frozen.get(meta["uid"])
        if phase(machine) in FROZEN and since is not None and now - since > LATE_S:
            self._breach(f"I14: {meta['name']} is {phase(machine)} since {now - since:g} s, but got an approval")
        closed = (meta.get("annotations") or {}).get(CLAIM_CLOSED)
        if closed:
            first = closed not in self._closed
            self._happened["claim closed"] += first
            user = self._closed.setdefault(closed, meta["uid"])
            if user != meta["uid"]:
                self._breach(f"I3: claim {closed} was used twice, now by {meta['name']}")
            _, beneficiary = self._claims.get(closed, ("", ""))
            pods = (each["metadata"] for each in self._counting.table("pods"))
            owners = {
                owner["uid"] for pod in pods if pod["uid"] == beneficiary for owner in pod.get("ownerReferences") or ()
            }
            # it may have left that pod: the decision is written after its arrival
            if first and owners and meta["uid"] not in owners:
                self._breach(f"I3: claim {closed} was used for {meta['name']}, but belongs to another beneficiary")

    def bound(self, name: str) -> None:
        """Check I12 and B14 for a bound target pod."""
        for migration in self._counting.table(MIGRATION_TABLE):
            status = migration.get("status") or {}
            if status.get("targetPodName") != name or phase(migration) not in AT_WORK:
                continue
            pods = {name_of(each): each["spec"].get("nodeName", "") for each in self._counting.table("pods")}
            node = pods.get(name, "")
            if node and node == pods.get(status.get("sourcePodName", ""), ""):
                self._breach(f"I12: {name} is bound to {node}, which it must leave")
            labels = migration["metadata"].get("labels") or {}
            reserved = (migration["metadata"].get("annotations") or {}).get(TARGET_NODE)
            if labels.get(CREATED_BY_SCHEDULER_LABEL) == "true" and reserved != node:
                self._happened["target chosen anew"] += 1
