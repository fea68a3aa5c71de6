"""The safety guards of the live scheduler: bound once, nobody forgotten, no node over its capacity."""

from __future__ import annotations

from tests.mutations.patch import Mutation

_BINDING, _DISPATCHING = "tests/scheduler/controller/test_bind.py", "tests/scheduler/controller/test_api_dispatcher.py"
_INTAKE, _CLIENT = "tests/scheduler/controller/test_engine_feed.py", "tests/kube/test_client.py"
_CONTROLLER = "tests/scheduler/controller/test_controller.py"
_EXPECTATIONS, _UNREADABLE = (
    "tests/scheduler/controller/test_expected_node.py",
    "tests/scheduler/controller/test_unreadable_objects.py",
)

SCHEDULER_GUARDS = (
    Mutation(
        "listed-in-this-term",
        "nothing is decided on a listing that began before this term",
        "scheduler/controller/controller.py",
        "        await self.leader.relist(self.informers)\n",
        "        if self.informers.synced:\n            await self.leader.relist(self.informers)\n"
        "        await self.informers.wait_synced()\n",
        (
            "tests/testing/scheduler/test_histories.py::test_a_first_listing_from_before_the_term_is_not_what_is_decided_on",
        ),
    ),
    Mutation(
        "binding-settled",
        "a binding whose answer was lost is looked up before its room is free",
        "scheduler/controller/bind.py",
        "                return await self.settle(bind, str(problem))",
        "                return NotBound(str(problem))",
        (_BINDING,),
    ),
    Mutation(
        "binding-fenced",
        "a lost binding can land no more once its room is free",
        "scheduler/controller/bind.py",
        "            if await self._fence(seen, problem):",
        "            if True:",
        (_BINDING,),
    ),
    Mutation(
        "binding-presumes",
        "a binding presumes the pod that was decided on",
        "scheduler/controller/bind.py",
        "bind.node, unchanged=True",
        "bind.node, unchanged=False",
        (_BINDING,),
    ),
    Mutation(
        "binding-reconsidered",
        "a binding in conflict is looked at: somebody else may have bound the pod",
        "scheduler/controller/bind.py",
        "            if pod.spec.node_name:\n                return _other_node_problem(pod, bind.node)\n            "
        "try:",
        "            try:",
        (_BINDING,),
    ),
    Mutation(
        "one-call-at-a-time",
        "no two calls about one object are under way",
        "scheduler/controller/api_dispatcher.py",
        "                if uid in self._waiting and uid not in self._under_way:",
        "                if uid in self._waiting:",
        (_DISPATCHING,),
    ),
    Mutation(
        "less-relevant-dropped",
        "a status never goes before a binding that waits",
        "scheduler/controller/api_dispatcher.py",
        "        elif call.relevance < waiting.relevance:",
        "        elif False:",
        (_DISPATCHING,),
    ),
    Mutation(
        "term-waits",
        "a task that may not write waits for the end of the term",
        "scheduler/controller/api_dispatcher.py",
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
        "scheduler/controller/engine_feed.py",
        "                engine.set_pod(_without_relations(pod), now)",
        "                pass",
        (_INTAKE,),
    ),
    Mutation(
        "bad-pod-named",
        "a pod that cannot be read stops nobody",
        "scheduler/controller/engine_feed.py",
        "        except BadPod as problem:",
        "        except ZeroDivisionError as problem:",
        (_INTAKE,),
    ),
    Mutation(
        "victim-told",
        "a victim is told why before it is deleted",
        "scheduler/controller/action_writer.py",
        "        if not await self.write_status(eviction.pod, eviction.uid, StatusChange(claim)):",
        "        if False:",
        (_CONTROLLER,),
    ),
    Mutation(
        "expected-node",
        "a pod that PreBind works for says where it will be (section 5, step 1)",
        "scheduler/controller/apply.py",
        "                await self.action_writer.write_status(info.key, info.uid, StatusChange(nominate=placed.node))",
        "                pass",
        (_EXPECTATIONS,),
    ),
    Mutation(
        "expected-while-held",
        "a pod that Permit holds says where it will be (section 5, step 1)",
        "scheduler/controller/apply.py",
        "StatusChange(nominate=decision.node)",
        "StatusChange()",
        (_EXPECTATIONS,),
    ),
    Mutation(
        "expectation-cleared",
        "what failed takes the promise back (section 5, step 4)",
        "scheduler/controller/apply.py",
        'StatusChange(claim, nominate="")',
        "StatusChange(claim)",
        (_EXPECTATIONS,),
    ),
    Mutation(
        "expectation-void",
        "what is still written on a pod that failed keeps no room free (section 5, step 4)",
        "scheduler/controller/apply.py",
        "        self._engine.nominations.remove(info.uid)",
        "        pass",
        (_EXPECTATIONS,),
    ),
    Mutation(
        "expectation-learned",
        "what was written is known at once, so that it can be taken back",
        "scheduler/controller/action_writer.py",
        "            self._context.pods.learn(await self._context.client.patch_status(PODS, name, body, namespace))",
        "            await self._context.client.patch_status(PODS, name, body, namespace)",
        (_EXPECTATIONS,),
    ),
    Mutation(
        "unreadable-told",
        "a pod that cannot be read gets its condition",
        "scheduler/controller/unreadable_objects.py",
        "            if (uid, problem) not in self._reported:",
        "            if False:",
        (_UNREADABLE,),
    ),
    Mutation(
        "unreadable-once",
        "what cannot be read is told so once",
        "scheduler/controller/unreadable_objects.py",
        "            if story not in self._reported and await self._report_object(resource, key, problem):",
        "            if await self._report_object(resource, key, problem):",
        (_UNREADABLE,),
    ),
    Mutation(
        "unreadable-ours",
        "only pods that wait for this scheduler are told by it that they cannot be read",
        "scheduler/controller/unreadable_objects.py",
        "        if pod is None or pod.spec.node_name or pod.spec.scheduler_name not in self._context.engine.profiles:",
        "        if pod is None:",
        (_UNREADABLE,),
    ),
    Mutation(
        "times-sampled",
        "only a tenth of the cycles is timed",
        "scheduler/metrics/plugin_timing.py",
        "        self._sampled = self._rng.random() < _SAMPLED_SHARE",
        "        self._sampled = True",
        ("tests/scheduler/metrics/test_plugin_timing.py",),
    ),
    Mutation(
        "stand-in-handle",
        "a plugin that wants a handle is stood in for once it has it",
        "scheduler/metrics/plugin_timing.py",
        "staticmethod(lambda handle: self._wrap_plugin(plugin.with_handle(handle), profile))",
        "staticmethod(plugin.with_handle)",
        ("tests/scheduler/metrics/test_plugin_timing.py",),
    ),
)
