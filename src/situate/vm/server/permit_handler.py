"""Permits for VMs: write the request to the VM, pass it to the ledger, and answer from the ledger.

With `compat` the write is the only step, and the Pod's annotations are the answer (C15, C16).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from situate.objects.kinds.pods import Pod
from situate.runtime.leadership.leader import NotLeading
from situate.vm.api.pods import machine_ref
from situate.vm.backends.neonvm import MACHINES
from situate.vm.ledger.grants.resource_requests import is_overtaken
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.protocol.permit import is_settled
from situate.vm.protocol.permit_request import (
    HttpAnswer,
    ObservedPod,
    PermitRequest,
    patch_failure_answer,
    permit_refusal,
    request_annotations,
    request_patch,
    unknown_pod_answer,
)
from situate.vm.protocol.permit_response import (
    answer_from_annotations,
    answer_from_ledger,
    late_answer,
    request_event,
    unreadable_pod_answer,
)
from situate.vm.server.change_notifier import ChangeNotifier
from situate.vm.server.request_context import NotInTime, NotWritten, RequestContext

NOT_LEADING: Final = HttpAnswer(503, text="notLeader: another replica is the leader; ask the Pod with the label name")


_MAX_WAITS: Final = 1.5
"""Most time until the answer, in multiples of the wait: for the write of the request, and for its result."""


class Turn:
    """Place in the order of requests.

    Requests of one Pod are handled one by one, in order of arrival: the reserved amount follows the last one. Only a
    limited number of requests is handled at a time, until the resulting writes are stored. So requests that have begun
    finish before others begin.
    """

    def __init__(self, pod: asyncio.Lock, lane: asyncio.Semaphore) -> None:
        self._pod, self._lane = pod, lane
        self._held: list[asyncio.Lock | asyncio.Semaphore] = []

    async def acquire(self) -> None:
        for each in (self._pod, self._lane):
            await each.acquire()
            self._held.append(each)

    def release(self) -> None:
        """Release the place. Repeated calls have no effect."""
        while self._held:
            self._held.pop().release()


class PermitHandler:
    """Permits of one process."""

    def __init__(self, desk: RequestContext, rounds: ChangeNotifier, wait_s: float) -> None:
        """`wait_s`: how long an answer waits for the requested change."""
        self._desk = desk
        self._rounds = rounds
        self._wait_s = wait_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: PermitRequest, began: float) -> HttpAnswer:
        """Answer a request. Errors of the cluster become answers. `began`: its arrival, by the loop's clock."""
        if not self._desk.is_leading():
            return NOT_LEADING
        pod = self._pod(request.pod)
        refusal = permit_refusal(request, None if pod is None else _observed_pod(pod))
        if refusal is not None or pod is None:
            return refusal or unknown_pod_answer(request)
        try:
            if self._desk.ledger.rules.compat:
                return await self._answer_by_annotations(request, pod)
            return await self._answer_by_ledger(request, pod, began)
        except NotLeading:
            return NOT_LEADING
        except NotWritten as problem:
            return patch_failure_answer(request, str(problem))

    async def _answer_by_annotations(self, request: PermitRequest, pod: Pod) -> HttpAnswer:
        try:
            async with asyncio.timeout(self._wait_s), self._desk.lane:
                await self._write_request(request, pod, _observed_pod(pod))
        except TimeoutError:
            raise NotInTime(f"the API server did not accept the patch within {self._wait_s:g} s") from None

        def look(elapsed_s: float) -> HttpAnswer | None:
            now = self._pod(request.pod)
            shown = None if now is None or now.metadata.uid != pod.metadata.uid else _observed_pod(now)
            return answer_from_annotations(request, shown, elapsed_s, self._wait_s, changed=now is not pod)

        found = await self._rounds.wait(look, lambda: (self._pod(request.pod),), self._wait_s)
        assert found is not None, "the wait ends with an answer"
        return found

    async def _answer_by_ledger(self, request: PermitRequest, pod: Pod, began: float) -> HttpAnswer:
        """Answer within the two seconds that an agent waits, even if the API server is slow (C39, F16)."""
        uid, ledger = pod.metadata.uid, self._desk.ledger
        turn = Turn(self._turns.setdefault(uid, asyncio.Lock()), self._desk.lane)
        try:
            async with asyncio.timeout_at(began + self._wait_s):
                await turn.acquire()
                known = await self._decide(request, pod)
            if known is not None:
                return known
            within_s = min(self._wait_s, _MAX_WAITS * self._wait_s - (_clock() - began))

            def look(elapsed_s: float) -> HttpAnswer | None:
                if is_settled(ledger.state, uid):
                    turn.release()  # from here it waits only for capacity, so other requests may write
                return answer_from_ledger(request, uid, ledger.state, elapsed_s, ledger.rules, within_s)

            def seen() -> tuple[object, ...]:
                state = ledger.state
                return state.pod(uid), state.permits.get(uid), state.writes.get(uid)

            found = await self._rounds.wait(look, seen, within_s)
            assert found is not None, "the wait ends with an answer"
            return found if self._desk.is_leading() else NOT_LEADING
        except (TimeoutError, NotInTime):
            return late_answer(request, uid, ledger.state, ledger.rules) if self._desk.is_leading() else NOT_LEADING
        finally:
            turn.release()

    async def _decide(self, request: PermitRequest, pod: Pod) -> HttpAnswer | None:
        """Write and decide a request, and return None. Return the answer at once for a request without effect."""
        uid, ledger = pod.metadata.uid, self._desk.ledger
        known = ledger.state.pod(uid)
        if known is None:
            return unknown_pod_answer(request)
        if not ledger.state.started or known.frozen or self._is_late(request, uid):
            return self._answer_now(request, uid, self._wait_s)
        await self._write_request(request, pod, self._pod_with_vm_annotations(pod))
        if not self._desk.is_leading():
            raise NotLeading("vm")
        now = ledger.state.pod(uid)
        if now is None or now.machine is None:
            return unreadable_pod_answer(request)
        ledger.apply(request_event(request, uid, ledger.state))
        return None

    def _answer_now(self, request: PermitRequest, uid: str, elapsed_s: float) -> HttpAnswer:
        ledger = self._desk.ledger
        found = answer_from_ledger(request, uid, ledger.state, elapsed_s, ledger.rules, self._wait_s)
        assert found is not None, "the wait ends with an answer"
        return found

    def _is_late(self, request: PermitRequest, uid: str) -> bool:
        """Return whether a newer request was answered already, so that this one has no effect (F5)."""
        state = self._desk.ledger.state
        return is_overtaken(request_event(request, uid, state), state.permits.get(uid))

    def _pod(self, ref: Ref) -> Pod | None:
        return self._desk.informers.all.pods.store.get(ref.name, ref.namespace)

    def _pod_with_vm_annotations(self, pod: Pod) -> ObservedPod:
        """Return the Pod with the annotations of its VM, which the Pod shows a little later."""
        shown = _observed_pod(pod)
        assert shown.machine is not None, "other Pods were refused"
        machine = self._desk.informers.machines.store.get(shown.machine.name, shown.machine.namespace)
        return shown if machine is None else replace(shown, annotations=machine.metadata.annotations)

    async def _write_request(self, request: PermitRequest, pod: Pod, shown: ObservedPod) -> None:
        """Write the request to the VM. Raises `NotWritten` and `NotLeading`."""
        rules, ref = self._desk.ledger.rules, shown.machine
        assert ref is not None, "other Pods were refused"
        said = request_annotations(request, shown, rules)
        if said is None:
            return
        reflector = self._desk.informers.machines
        machine = reflector.store.get(ref.name, ref.namespace)
        if machine is None or machine.metadata.uid != ref.uid:
            raise NotWritten(f"VirtualMachine {ref} of pod {pod.metadata.name} is gone")
        await self._desk.patch(reflector, MACHINES, machine, request_patch(said, machine.metadata, rules))


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _observed_pod(pod: Pod) -> ObservedPod:
    return ObservedPod(pod.spec.node_name, machine_ref(pod), pod.metadata.annotations)
