"""The scheduler's booking covers what a machine uses, whatever is lost, late or unclear on the way (C2, I2, F1)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from situate.vm.agent.decide import outcomes
from situate.vm.agent.decide.core import PluginAction, SizeChange, next_actions
from situate.vm.agent.model.revisions import RevisionAt
from situate.vm.agent.model.state import AgentState, Guest, MonitorRequest
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import agent_state, guest, needs, units

STEPS = 150


class World:
    """One machine, its scheduler, its API server and its guest, each of which may fail the agent."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.spec = self.grown = self.booked = units(2)
        self.generation = 1
        self.seen: list[Guest] = [self.object()]
        self.state: AgentState = replace(agent_state(use=2, most=6), guest=self.object())
        self.now_ms = 0
        self.asking: tuple[int, PluginAction] | None = None
        self.writing: tuple[int, SizeChange, bool] | None = None
        self.telling: tuple[int, MonitorRequest] | None = None
        self.unread = False
        self.approved: Amounts | None = None
        self.happened: Counter[str] = Counter()

    def object(self) -> Guest:
        return replace(guest(least=1, most=6), use=self.spec, grown=self.grown, generation=self.generation)

    def step(self) -> None:
        choice = self.rng.choice(
            (self.decide, self.decide, self.scheduler, self.server, self.guest_answers, self.world)
        )
        choice()
        self.now_ms += self.rng.choice((1, 50, 700, 3_000))
        used = self.spec.maximum(self.grown)
        assert used.fits_within(self.booked), f"{used} is used and {self.booked} is booked"
        permit = self.state.plugin.permit
        assert permit is None or permit.fits_within(self.booked), f"{permit} is permitted and {self.booked} is booked"

    def decide(self) -> None:
        planned = next_actions(self.state, self.now_ms)
        self.state = planned.state
        found = planned.actions
        if found.plugin is not None:
            assert self.asking is None
            self.state = outcomes.start_plugin_request(self.state, self.now_ms, found.plugin.target)
            self.asking = (self.state.number, found.plugin)
        elif found.vm is not None:
            assert self.writing is None
            self.check(found.vm)
            self.state = outcomes.start_vm_write(self.state, found.vm.target)
            self.writing = (self.state.number, found.vm, False)
        elif found.monitor_up is not None:
            self.state = outcomes.start_monitor_request(self.state, MonitorRequest.UPSCALE, found.monitor_up.target)
            self.telling = (self.state.number, MonitorRequest.UPSCALE)
        elif found.monitor_down is not None:
            self.state = outcomes.start_monitor_request(self.state, MonitorRequest.DOWNSCALE, found.monitor_down.target)
            self.telling = (self.state.number, MonitorRequest.DOWNSCALE)

    def check(self, change: SizeChange) -> None:
        """Not above the permit, not below what the guest agreed to."""
        approved = self.approved or change.current
        for use, target, least, most in zip(
            change.current, change.target, approved, self.state.plugin.permit or change.current, strict=True
        ):
            assert target <= max(use, most)
            assert target >= min(use, least)

    def scheduler(self) -> None:
        if self.asking is None:
            return
        number, action = self.asking
        self.asking = None
        how = self.rng.choice(("granted", "granted", "partial", "request lost", "answer lost", "zero", "too much"))
        self.happened[how] += 1
        if how == "request lost":
            self.state = outcomes.record_plugin_failure(self.state, number, self.now_ms)
            return
        granted = action.target
        if how == "partial":
            granted = granted.minimum(self.booked)
        self.booked = granted  # decreases are booked at once (D24)
        if how == "answer lost":
            self.state = outcomes.record_plugin_failure(self.state, number, self.now_ms)
            return
        said = {"zero": Amounts.zero(), "too much": action.target + units(1)}.get(how, granted)
        self.state = outcomes.apply_permit(self.state, number, self.now_ms, said, RevisionAt()).state

    def server(self) -> None:
        """Applies a write, and later answers it, or not."""
        if self.writing is None:
            if self.unread:
                self.unread = False
                self.state = outcomes.apply_machine(self.state, self.object(), fresh=True).state
            return
        number, change, applied = self.writing
        how = self.rng.choice(("applied", "done", "refused", "unclear"))
        self.happened[how] += 1
        if how == "applied" and not applied:
            self.apply(change)
            self.writing = (number, change, True)
            return
        self.writing = None
        if how == "refused" and not applied:
            self.state = outcomes.record_vm_failure(self.state, number, self.now_ms)
            return
        if not applied and (how == "done" or self.rng.random() < 0.5):
            self.apply(change)
            applied = True
        if how == "done":
            self.state = outcomes.finish_vm_write(self.state, number, self.generation)
        else:
            self.state = outcomes.record_vm_failure(self.state, number, self.now_ms, unclear=True)
            self.unread = True

    def apply(self, change: SizeChange) -> None:
        self.spec = change.target
        self.generation += 1
        self.seen.append(self.object())

    def guest_answers(self) -> None:
        if self.telling is None:
            return
        number, kind = self.telling
        self.telling = None
        if self.rng.random() < 0.2:
            self.state = outcomes.record_monitor_failure(self.state, number, self.now_ms)
        elif kind is MonitorRequest.DOWNSCALE and self.rng.random() < 0.3:
            self.happened["denied"] += 1
            self.state = outcomes.apply_downscale_denial(self.state, number, self.now_ms, RevisionAt()).state
        else:
            self.state = outcomes.apply_monitor_consent(self.state, number, self.now_ms, RevisionAt()).state
            self.approved = self.state.monitor.approved

    def world(self) -> None:
        """Load changes, the machine follows its spec, watches tell of it late, connections come and go."""
        match self.rng.randrange(5):
            case 0:
                self.state = outcomes.with_system_metrics(self.state, needs(self.rng.randrange(1, 7)))
            case 1:
                self.grown = self.spec
                self.seen.append(self.object())
            case 2 if not self.unread:
                self.state = outcomes.apply_machine(self.state, self.rng.choice(self.seen[-2:])).state
            case 3 if self.approved is None or self.rng.random() < 0.2:
                self.telling = None
                self.state = outcomes.start_monitor_connection(self.state)
                self.approved = self.state.monitor.approved
            case 4 if self.rng.random() < 0.1:
                self.telling = self.approved = None
                self.state = outcomes.end_monitor_connection(self.state)


@pytest.mark.rule("vm:C2", "vm:C18", "vm:C39", "vm:D23", "vm:D24", "vm:I2", "vm:F1")
def test_what_is_booked_covers_what_is_used_whatever_happens() -> None:
    happened: Counter[str] = Counter()
    sizes = set()
    for seed in range(150):
        world = World(seed)
        for number in range(STEPS):
            try:
                world.step()
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, step {number}: {problem}") from problem
        happened.update(world.happened)
        sizes.add(world.spec)
    assert len(sizes) > 4, sizes
    missed = {"granted", "partial", "request lost", "answer lost", "zero", "too much", "unclear", "denied"} - set(
        happened
    )
    assert not missed, happened
