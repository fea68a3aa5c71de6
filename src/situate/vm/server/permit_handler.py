"""Permits for VMs: write the request to the VM, pass it to the ledger, and answer from the ledger.

With `compat` the write is the only step, and the Pod's annotations are the answer (C15, C16).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from situate.objects.kinds.pods import Pod
from situate.vm.api.pods import machine_ref
from situate.vm.backends.neonvm import MACHINES
from situate.vm.ledger.grants.resource_requests import overtaken
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.protocol.permit import settled
from situate.vm.protocol.permit_request import (
    Answer,
    PermitRequest,
    Shown,
    notes,
    patch,
    patch_failed,
    refused,
    unknown_pod,
)
from situate.vm.protocol.permit_response import answered, answered_by_ledger, asked, too_late, unread
from situate.vm.server.change_notifier import Rounds
from situate.vm.server.request_context import Desk, NotInTime, NotLeading, NotWritten

NOT_LEADING: Final = Answer(503, text="notLeader: another replica is the leader; ask the Pod with the label name")


_MOST_WAITS: Final = 1.5
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

    async def come(self) -> None:
        for each in (self._pod, self._lane):
            await each.acquire()
            self._held.append(each)

    def end(self) -> None:
        """Release the place. Repeated calls have no effect."""
        while self._held:
            self._held.pop().release()


class Permits:
    """Permits of one process."""

    def __init__(self, desk: Desk, rounds: Rounds, wait_s: float) -> None:
        """`wait_s`: how long an answer waits for the requested change."""
        self._desk = desk
        self._rounds = rounds
        self._wait_s = wait_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: PermitRequest, began: float) -> Answer:
        """Answer a request. Errors of the cluster become answers. `began`: its arrival, by the loop's clock."""
        if not self._desk.leads():
            return NOT_LEADING
        pod = self._pod(request.pod)
        refusal = refused(request, None if pod is None else _shown(pod))
        if refusal is not None or pod is None:
            return refusal or unknown_pod(request)
        try:
            if self._desk.ledger.rules.compat:
                return await self._by_annotations(request, pod)
            return await self._by_ledger(request, pod, began)
        except NotLeading:
            return NOT_LEADING
        except NotWritten as problem:
            return patch_failed(request, str(problem))

    async def _by_annotations(self, request: PermitRequest, pod: Pod) -> Answer:
        try:
            async with asyncio.timeout(self._wait_s), self._desk.lane:
                await self._note(request, pod, _shown(pod))
        except TimeoutError:
            raise NotInTime(f"the API server did not accept the patch within {self._wait_s:g} s") from None

        def look(elapsed_s: float) -> Answer | None:
            now = self._pod(request.pod)
            shown = None if now is None or now.metadata.uid != pod.metadata.uid else _shown(now)
            return answered(request, shown, elapsed_s, self._wait_s, changed=now is not pod)

        found = await self._rounds.wait(look, lambda: (self._pod(request.pod),), self._wait_s)
        assert found is not None, "the wait ends with an answer"
        return found

    async def _by_ledger(self, request: PermitRequest, pod: Pod, began: float) -> Answer:
        """Answer within the two seconds that an agent waits, even if the API server is slow (C39, F16)."""
        uid, ledger = pod.metadata.uid, self._desk.ledger
        turn = Turn(self._turns.setdefault(uid, asyncio.Lock()), self._desk.lane)
        try:
            async with asyncio.timeout_at(began + self._wait_s):
                await turn.come()
                known = await self._decided(request, pod)
            if known is not None:
                return known
            within_s = min(self._wait_s, _MOST_WAITS * self._wait_s - (_clock() - began))

            def look(elapsed_s: float) -> Answer | None:
                if settled(ledger.state, uid):
                    turn.end()  # from here it waits only for capacity, so other requests may write
                return answered_by_ledger(request, uid, ledger.state, elapsed_s, ledger.rules, within_s)

            def seen() -> tuple[object, ...]:
                state = ledger.state
                return state.pod(uid), state.permits.get(uid), state.writes.get(uid)

            found = await self._rounds.wait(look, seen, within_s)
            assert found is not None, "the wait ends with an answer"
            return found if self._desk.leads() else NOT_LEADING
        except (TimeoutError, NotInTime):
            return too_late(request, uid, ledger.state, ledger.rules) if self._desk.leads() else NOT_LEADING
        finally:
            turn.end()

    async def _decided(self, request: PermitRequest, pod: Pod) -> Answer | None:
        """Write and decide a request, and return None. Return the answer at once for a request without effect."""
        uid, ledger = pod.metadata.uid, self._desk.ledger
        known = ledger.state.pod(uid)
        if known is None:
            return unknown_pod(request)
        if not ledger.state.started or known.frozen or self._is_late(request, uid):
            return self._now(request, uid, self._wait_s)
        await self._note(request, pod, self._noted(pod))
        if not self._desk.leads():
            raise NotLeading
        now = ledger.state.pod(uid)
        if now is None or now.machine is None:
            return unread(request)
        ledger.apply(asked(request, uid, ledger.state))
        return None

    def _now(self, request: PermitRequest, uid: str, elapsed_s: float) -> Answer:
        ledger = self._desk.ledger
        found = answered_by_ledger(request, uid, ledger.state, elapsed_s, ledger.rules, self._wait_s)
        assert found is not None, "the wait ends with an answer"
        return found

    def _is_late(self, request: PermitRequest, uid: str) -> bool:
        """Return whether a newer request was answered already, so that this one has no effect (F5)."""
        state = self._desk.ledger.state
        return overtaken(asked(request, uid, state), state.permits.get(uid))

    def _pod(self, ref: Ref) -> Pod | None:
        return self._desk.watched.all.pods.store.get(ref.name, ref.namespace)

    def _noted(self, pod: Pod) -> Shown:
        """Return the Pod with the annotations of its VM, which the Pod shows a little later."""
        shown = _shown(pod)
        assert shown.machine is not None, "other Pods were refused"
        machine = self._desk.watched.machines.store.get(shown.machine.name, shown.machine.namespace)
        return shown if machine is None else replace(shown, annotations=machine.metadata.annotations)

    async def _note(self, request: PermitRequest, pod: Pod, shown: Shown) -> None:
        """Write the request to the VM. Raises `NotWritten` and `NotLeading`."""
        rules, ref = self._desk.ledger.rules, shown.machine
        assert ref is not None, "other Pods were refused"
        said = notes(request, shown, rules)
        if said is None:
            return
        reflector = self._desk.watched.machines
        machine = reflector.store.get(ref.name, ref.namespace)
        if machine is None or machine.metadata.uid != ref.uid:
            raise NotWritten(f"VirtualMachine {ref} of pod {pod.metadata.name} is gone")
        await self._desk.patch(reflector, MACHINES, machine, patch(said, machine.metadata, rules))


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _shown(pod: Pod) -> Shown:
    return Shown(pod.spec.node_name, machine_ref(pod), pod.metadata.annotations)
