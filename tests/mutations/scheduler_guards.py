"""The safety guards of the live scheduler: bound once, nobody forgotten, no node over its capacity."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_BINDING, _DISPATCHING = "tests/scheduler/test_binding.py", "tests/scheduler/test_dispatching.py"
_INTAKE, _CLIENT = "tests/scheduler/test_intake.py", "tests/kube/test_client.py"
_CONTROLLER = "tests/scheduler/test_controller.py"

SCHEDULER_GUARDS = (
    Mutation(
        "binding-settled",
        "a binding whose answer was lost is looked up before its room is free",
        "scheduler/binding.py",
        "                return await self.settle(bind, str(problem))",
        "                return NotBound(str(problem))",
        (_BINDING,),
    ),
    Mutation(
        "binding-fenced",
        "a lost binding can land no more once its room is free",
        "scheduler/binding.py",
        "            if await self._fence(seen, problem):",
        "            if True:",
        (_BINDING,),
    ),
    Mutation(
        "binding-presumes",
        "a binding presumes the pod that was decided on",
        "scheduler/binding.py",
        "bind.node, unchanged=True",
        "bind.node, unchanged=False",
        (_BINDING,),
    ),
    Mutation(
        "binding-reconsidered",
        "a binding in conflict is looked at: somebody else may have bound the pod",
        "scheduler/binding.py",
        "            if pod.spec.node_name:\n                return _where(pod, bind.node)\n            try:",
        "            try:",
        (_BINDING,),
    ),
    Mutation(
        "one-call-at-a-time",
        "no two calls about one object are under way",
        "scheduler/dispatching.py",
        "        if uid not in self._under_way:  # else",
        "        if True:  # else",
        (_DISPATCHING,),
    ),
    Mutation(
        "less-relevant-dropped",
        "a status never goes before a binding that waits",
        "scheduler/dispatching.py",
        "        elif call.relevance < waiting.relevance:",
        "        elif False:",
        (_DISPATCHING,),
    ),
    Mutation(
        "term-waits",
        "a task that may not write waits for the end of the term",
        "scheduler/dispatching.py",
        "    except Retriable:\n        await asyncio.get_running_loop().create_future()",
        "    except Retriable:\n        raise",
        (_DISPATCHING,),
    ),
    Mutation(
        "write-asks-again",
        "a write that waited for its turn asks again whether this process leads",
        "kube/client.py",
        '            if self._may_write and request.method != "GET":',
        "            if False and self._may_write:",
        (_CLIENT,),
    ),
    Mutation(
        "unreadable-pod-counts",
        "a placed pod that cannot be read still takes its room",
        "scheduler/intake.py",
        "                engine.set_pod(_without_relations(pod), now)  # what it takes of its node still counts",
        "                pass",
        (_INTAKE,),
    ),
    Mutation(
        "bad-pod-named",
        "a pod that cannot be read stops nobody",
        "scheduler/intake.py",
        "        except BadPod as problem:",
        "        except ZeroDivisionError as problem:",
        (_INTAKE,),
    ),
    Mutation(
        "victim-told",
        "a victim is told why before it is deleted",
        "scheduler/acting.py",
        "        if not await self.write_status(eviction.pod, eviction.uid, StatusChange(claim)):",
        "        if False:",
        (_CONTROLLER,),
    ),
)
