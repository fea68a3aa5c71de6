"""The agent's guards: what it may write, what it believes, and what it must tell the scheduler of."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_CORE = "tests/vm/agent/test_core.py"
_BOUND = "tests/vm/agent/test_upper_bound.py"
_PERMITS = "tests/vm/agent/test_permits.py"

VM_AGENT_GUARDS = (
    Mutation(
        "agent-permit-zero",
        "a permit of nothing is refused (C18)",
        "vm/agent/permits.py",
        "    if not all(permit):",
        "    if False:",
        (_PERMITS, _CORE),
    ),
    Mutation(
        "agent-permit-above",
        "a permit above the request is refused (C18)",
        "vm/agent/permits.py",
        "    if permit.exceeds(requested):",
        "    if False:",
        (_PERMITS, _CORE, _BOUND),
    ),
    Mutation(
        "agent-permit-below",
        "a permit below what the machine uses is refused (C18)",
        "vm/agent/permits.py",
        "    if used.exceeds(permit):",
        "    if False:",
        (_PERMITS, _CORE),
    ),
    Mutation(
        "agent-under-way-counts",
        "a write under way counts as used when an answer is judged (C18)",
        "vm/agent/outcomes.py",
        "        in_use = in_use.most(state.vm.ongoing.resources)",
        "        in_use = in_use.most(state.held)",
        (_CORE,),
    ),
    Mutation(
        "agent-ceiling",
        "no machine grows above its permit (C39)",
        "vm/agent/core.py",
        "    return wish.most(floor).least(ceiling)",
        "    return wish.most(floor)",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-floor",
        "no machine shrinks below what its monitor approved (C39)",
        "vm/agent/core.py",
        "    return wish.most(floor).least(ceiling)",
        "    return wish.least(ceiling)",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-less-asked-for",
        "no machine grows past a request that says less (C39)",
        "vm/agent/core.py",
        "    conflict = asked is not None and target.exceeds(asked)",
        "    conflict = False",
        (_CORE,),
    ),
    Mutation(
        "agent-write-is-told",
        "what is being written to a machine is never told as less (C2)",
        "vm/agent/core.py",
        "    wanted = (held if config.compat else in_use).most(wish)",
        "    wanted = held.most(wish)",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-frozen",
        "a machine that is about to be moved is left alone (D13, I14)",
        "vm/agent/core.py",
        "    if state.guest.frozen and not state.config.compat:",
        "    if False:",
        (_CORE,),
    ),
    Mutation(
        "agent-frozen-at-the-server",
        "the write itself fails once the machine is about to be moved (D13)",
        "vm/agent/machines.py",
        '        {"op": "test", "path": "/status/phase", "value": machine.phase},\n',
        "",
        ("tests/vm/agent/test_machines.py",),
    ),
    Mutation(
        "agent-told-of-a-move",
        "an answer that speaks of a move stops everything (D13)",
        "vm/agent/core.py",
        "    if still_until_ms is not None and still_until_ms > now_ms:",
        "    if False:",
        (_CORE,),
    ),
    Mutation(
        "agent-status-counts",
        "a decrease is told when the machine has shrunk, not when it was written (D23)",
        "vm/agent/state.py",
        "            held = held.most(self.guest.grown)",
        "            pass",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-unclear-counts",
        "a write of unknown outcome counts as used (D23, F1)",
        "vm/agent/state.py",
        "        return held if self.vm.unclear is None else held.most(self.vm.unclear)",
        "        return held",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-older-objects",
        "an object older than what is known changes nothing (D23, F2)",
        "vm/agent/outcomes.py",
        "    if guest.generation < state.vm.generation:\n        return Seen(state)\n",
        "",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-lowers-at-once",
        "the permit falls when a decrease is sent (D24)",
        "vm/agent/outcomes.py",
        "        permit = permit.least(resources)",
        "        permit = permit",
        (_CORE, _BOUND),
    ),
    Mutation(
        "agent-late-answers",
        "an answer to a request that is over changes nothing (C39)",
        "vm/agent/outcomes.py",
        "    if asked is None or asked.number != number or state.plugin.last is None:",
        "    asked = asked or Ongoing(number, state.guest.maximum)\n    if state.plugin.last is None:",
        (_CORE,),
    ),
)
