"""A process that is killed between every two calls that it makes, and begun anew each time.

`python -m tests.sharding.processes.mortal` with the arguments of `supervised`; LEDGER names the file in which the
handler notes its runs. Each life is a process of its own, forked from one that has only imported. It ends

- *before* a call that follows another one about the same thing for the first time: what was decided since then lies in
  the memory that is lost. So every pair of calls that ever occurs ends a life, whichever there are;
- with a write *under way*, once for each kind: nobody is there to read the answer, and it arrives when a later life has
  written about the same thing, which is as late as it can do harm;
- when a write is *answered*, once for each kind, before anything is done with the answer.

A call that has no name in `calls` ends everything: whoever waits for all the deaths notices.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from situate.archive.protocol import ArchiveConflict, Archiver
from situate.archive.records.record import ByName, ByUid, Record
from situate.kube.client import Client
from situate.kube.connect import find_connection
from situate.kube.errors import NotFound
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.kube.transport.protocol import Stream, Transport
from situate.objects.messages import Request, Response
from situate.objects.resources import LEASES
from situate.sharding.executor.controller.lease import EXIT_CODE
from situate.sharding.leases.membership import LeaseTimes
from situate.testing.builders.archive import ForwardingArchiver
from tests.sharding.processes import supervised
from tests.sharding.processes.calls import LEASE, NOTHING, NOW_AND_THEN, PAIRS, READS, WRITES, Call, call_of
from tests.sharding.processes.hearing import client_of, hearing, transport_of
from tests.sharding.processes.units import SUPERVISING, works

TIMES: Final = LeaseTimes(lease_s=60.0, renew_s=1.0, retry_s=0.3, renew_deadline_s=6.0, cancel_grace_s=2.4)
"""Whoever is begun anew at once keeps its Lease, also on a machine that is busy: the test is about calls."""
BEFORE, UNDER_WAY, ANSWERED = "before", "under way", "answered"
ARRIVES: Final = "arrives late: "
"""Begins the line of a write of a dead process; its call and the answer follow."""
LAST: Final = "gives its Lease back"
PATIENCE: Final = 8
MOST_WRITES: Final = 60
"""So many lives, or writes of one life, after which nobody waits any more for the next write about what a dead one has
written about; another one dies with the same kind of write under way then."""
_T = TypeVar("_T")


class End(NamedTuple):
    """Where a life has ended, or is to."""

    how: str
    call: str
    former: str = ""
    """The last call before it about the same thing; of an end before a call."""

    def __str__(self) -> str:
        """A line of its log."""
        return f"a life has ended: {self.how}: {self.call}" + (f", after: {self.former}" if self.former else "")


@dataclass(frozen=True)
class Late:
    """A write that was under way when its process died."""

    call: Call
    sent: Request | Record
    lives: int = 0
    """So many have ended since."""


def required(role: str) -> Iterator[End]:
    """The ends without which not every pair of calls, and not every write, was disturbed."""
    for former, call in PAIRS[role]:
        yield End(BEFORE, call, former)
    for call in WRITES[role]:
        yield End(UNDER_WAY, call)
        yield End(ANSWERED, call)


@dataclass
class Life:
    """Ends at the first thing at which none has ended before."""

    role: str
    ended: frozenset[End]
    late: list[Late]
    tell: Callable[[End | Late, Late | None], None]
    """Whoever begins the next life; with an end, also what is under way."""
    _former: dict[str, str] = field(default_factory=dict)
    """By what they are about."""
    _answered: int = 0
    """Writes."""
    _leaving: bool = False

    async def makes(self, call: Call, sent: Any, send: Callable[[Any], Awaitable[_T]], said: Callable[[_T], str]) -> _T:
        """`said`: what an answer comes to, in a word."""
        writes = call.name in WRITES[self.role]
        if not writes and call.name not in READS[self.role] and call.name not in NOW_AND_THEN:
            print(f"a call that nobody has thought of: {call}", flush=True)
            os._exit(3)
        self._may_end(End(BEFORE, call.name, self._former.get(call.about, NOTHING)))
        if writes and not any(each.call.name == call.name for each in self.late):
            self._may_end(End(UNDER_WAY, call.name), Late(call, sent))
        answer = await send(sent)
        self._former[call.about] = call.name
        if writes:
            self._answered += 1
            for each in [each for each in self.late if each.call.about == call.about]:
                if type(each.sent) is type(sent):
                    self.late.remove(each)
                    await self._arrives(each, send, said)
            if self._answered >= MOST_WRITES:
                self.late.clear()
            self._may_end(End(ANSWERED, call.name))
        self._may_leave(call)
        return answer

    async def _arrives(self, late: Late, send: Callable[[Any], Awaitable[_T]], said: Callable[[_T], str]) -> None:
        try:
            answer = said(await send(late.sent))
        except ArchiveConflict:
            answer = "409"
        print(f"{ARRIVES}{late.call.name}: {answer}", flush=True)
        self.tell(late, None)

    def _may_end(self, end: End, late: Late | None = None) -> None:
        if end not in self.ended:
            self.tell(end, late)
            os.kill(os.getpid(), signal.SIGKILL)

    def _may_leave(self, call: Call) -> None:
        """In good order, when nothing else is left of what must be."""
        left = {end.call for end in required(self.role) if end not in self.ended}
        if left == {LAST} and call.name in ("assigns", "writes a status") and not self._leaving:
            self._leaving = True
            os.kill(os.getpid(), signal.SIGTERM)


class Mortal:
    """The transport of a life."""

    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        def sent(request: Request) -> Awaitable[Response]:
            return self._transport.send(request, timeout_s=timeout_s)

        return await self._life.makes(call_of(request, self._life.role), request, sent, lambda told: str(told.status))

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        return self._opened(request, timeout_s)

    @asynccontextmanager
    async def _opened(self, request: Request, timeout_s: float) -> AsyncIterator[Stream]:
        watches = Call("watches", request.path.rpartition("/")[2])
        opening = self._transport.stream(request, timeout_s=timeout_s)
        stream = await self._life.makes(watches, None, lambda _: opening.__aenter__(), str)
        try:
            yield stream
        finally:
            await opening.__aexit__(*sys.exc_info())

    async def close(self) -> None:
        await self._transport.close()


class MortalArchiver(ForwardingArchiver):
    """The archive of a life."""

    def __init__(self, archiver: Archiver, life: Life) -> None:
        super().__init__(archiver)
        self._life = life

    async def put(self, record: Record) -> None:
        await self._life.makes(Call("stores a record", record.subject.name), record, self._put, str)

    async def get(self, key: ByUid | ByName) -> Record:
        name = key.name if isinstance(key, ByName) else key.place[1] if key.place is not None else key.uid
        return await self._life.makes(Call("reads a record", name), key, self._archiver.get, str)

    async def _put(self, record: Record) -> str:
        await self._archiver.put(record)
        return "stored"


def live(life: Life, arguments: list[str]) -> None:
    def connected(connection: Connection) -> Client:
        return client_of(Mortal(transport_of(connection), life))

    def archiving(archiver: Archiver) -> Archiver:
        return MortalArchiver(archiver, life)

    running = supervised.main(
        *arguments,
        connected=connected,
        archiving=archiving,
        times=TIMES,
        handler=works,
        config=SUPERVISING,
        max_handler_failures=1,
    )
    asyncio.run(running)


async def bury(kubeconfig: str, namespace: str) -> None:
    """Its Lease as if its time had run out: waiting for that proves nothing here."""
    client = hearing(find_connection(Path(kubeconfig)))
    with suppress(NotFound):
        await client.patch(LEASES, LEASE, MergePatch({"spec": {"holderIdentity": ""}}), namespace)
    await client.close()


class Lives:
    """One after the other."""

    def __init__(self, role: str, arguments: list[str]) -> None:
        self._role = role
        self._arguments = arguments
        self._ended: set[End] = set()
        self._late: list[Late] = []
        self._died = False
        """The life that is now, or was last, where it was to."""
        self._until, self._alive = os.pipe()
        """Nobody ever writes: it is open for as long as this process is there."""

    def next(self) -> None:
        """Until its end. One that has ended itself, on a machine that is too busy, is begun anew as by a kubelet."""
        words, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(self._alive)
            threading.Thread(target=self._die_with_parent, daemon=True).start()
            live(Life(self._role, frozenset(self._ended), self._late, self._telling(say)), self._arguments)
            os._exit(1)
        os.close(say)
        self._died = False
        with os.fdopen(words, "rb") as said, suppress(EOFError):
            while True:
                self._hear(*pickle.load(said))
        _, status = os.waitpid(child, 0)
        if not self._died and os.waitstatus_to_exitcode(status) != EXIT_CODE:
            print(f"a life has ended by itself: {status}", flush=True)
            sys.exit(1)

    def _hear(self, word: End | Late, late: Late | None) -> None:
        if isinstance(word, Late):
            self._late = [each for each in self._late if each.call != word.call]
            self._ended.add(End(UNDER_WAY, word.call.name))
            print(End(UNDER_WAY, word.call.name), flush=True)
            return
        self._died = True
        self._late = [replace(each, lives=each.lives + 1) for each in self._late if each.lives < PATIENCE]
        if late is not None:  # it counts when it has arrived
            self._late = [*(each for each in self._late if each.call.name != late.call.name), late]
        else:
            self._ended.add(word)
            print(word, flush=True)

    def _die_with_parent(self) -> None:
        os.read(self._until, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    def _telling(self, say: int) -> Callable[[End | Late, Late | None], None]:
        one = threading.Lock()

        def tell(word: End | Late, late: Late | None) -> None:
            one.acquire()
            os.write(say, pickle.dumps((word, None if late is None else _plain(late))))
            if isinstance(word, Late):
                one.release()  # after an end nobody says anything

        return tell


def _plain(late: Late) -> Late:
    """That can be pickled."""
    sent = late.sent
    if isinstance(sent, Request):
        return replace(late, sent=msgspec.structs.replace(sent, headers=dict(sent.headers)))
    return replace(late, sent=replace(sent, subject=replace(sent.subject, labels=dict(sent.subject.labels))))


def main(*arguments: str) -> None:
    kubeconfig, namespace, role, *_ = arguments
    lives = Lives(role, [*arguments])
    while True:
        lives.next()
        if role == "supervisor":
            asyncio.run(bury(kubeconfig, namespace))


if __name__ == "__main__":
    main(*sys.argv[1:])
