"""Guards of the answers: that trying leaves no trace, and that what is told was asked."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_WHAT_IF, _LEAST = "tests/framework/explain/test_what_if.py", "tests/framework/explain/test_least_change.py"
_RECORDING = "tests/scheduler/recordings/test_format.py"

ANSWERS_GUARDS = (
    Mutation(
        "what-if-leaves-no-trace",
        "what becomes of a branch is nothing to the engine at work",
        "framework/snapshot/cache.py",
        "        twin._pods = dict(self._pods)\n",
        "        twin._pods = self._pods\n",
        (_WHAT_IF,),
    ),
    Mutation(
        "least-change-suffices",
        "a change is told only if the filters, asked again, leave a node",
        "framework/explain/least_change.py",
        "        if passes.any():\n            first",
        "        if len(passes):\n            first",
        (_LEAST,),
    ),
    Mutation(
        "least-room",
        "room is told where the smallest part of the request is missing",
        "framework/explain/least_change.py",
        "    for node in shortage.nodes_in_order().tolist():\n",
        "    for node in reversed(shortage.nodes_in_order().tolist()):\n",
        (_LEAST,),
    ),
    Mutation(
        "secrets-in-recordings",
        "a recording keeps nothing of containers that no scheduler looks at",
        "scheduler/recordings/format.py",
        "{key: value for key, value in each.items() if key in _CONTAINER_FIELDS}",
        "dict(each)",
        (_RECORDING,),
    ),
    Mutation(
        "foreign-page",
        "a page of a proxy is no word that an object is gone",
        "kube/errors.py",
        "    if response.status in _NO_SUCH_PAGE and not _is_from_kubernetes(response.body):\n",
        "    if False:\n",
        ("tests/kube/test_errors.py",),
    ),
    Mutation(
        "named-files-followed",
        "a mistake in a file that the configuration names is told when it is made",
        "runtime/configuration/reload.py",
        "        if digest == self._digest and not self.named.has_changed():\n",
        "        if digest == self._digest:\n",
        ("tests/runtime/configuration/test_reload.py",),
    ),
    Mutation(
        "whole-lines",
        "a recording is read up to its last whole line",
        "scheduler/recordings/files.py",
        '            if not line.endswith(b"\\n"):\n',
        "            if False:\n",
        (_RECORDING,),
    ),
    Mutation(
        "extender-named",
        "an extender that does not answer a question is named",
        "framework/preemption/extenders.py",
        "                note(str(problem))",
        "                pass",
        ("tests/framework/test_extended_answers.py",),
    ),
    Mutation(
        "shadow-asks",
        "a shadow counts a decision only once extenders have answered",
        "scheduler/shadow/comparison.py",
        "        self.consult(Consultation(steps, questions))",
        "        self._run_steps(steps, [extenders.NoReply('') for _ in questions])",
        ("tests/scheduler/shadow/test_comparison.py",),
    ),
    Mutation(
        "explained-promise",
        "a promised node is kept only if extenders agree",
        "framework/explain/explain.py",
        "        return index if len(kept) else None",
        "        return index",
        ("tests/framework/test_extended_answers.py",),
    ),
)
