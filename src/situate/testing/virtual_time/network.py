"""The network between a simulated process and the in-memory API server, with latency and lost or late messages.

`Wire` is a `situate.kube.transport.protocol.Transport`, so the shipped client, reflectors and election run over it
unchanged. The server carries out a request that has left its process, even if that process is killed meanwhile. A real
network does the same. Each wire draws its faults from a seeded generator, so a history depends on its seed only.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.errors import Unreachable
from situate.objects.messages import Request, Response
from situate.sim.timeline import ScheduledCall, Timeline


class RequestHandler(Protocol):
    """A server that answers requests at once, such as the in-memory API server without webhooks."""

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        """Answer a request. None means that no answer ever comes, so that the caller times out."""
        ...


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The faults of the network from now on. Chances are between 0 and 1 and are drawn independently."""

    latency_s: tuple[float, float] = (0.0005, 0.005)
    """Minimum and maximum latency of one direction."""
    lose_request: float = 0.0
    """Chance that a request never arrives. The caller times out."""
    lose_answer: float = 0.0
    """Chance that a request is carried out and its answer is lost. The caller times out."""
    refuse: float = 0.0
    """Chance that a request gets a 503 without being carried out."""
    conflict: float = 0.0
    """Chance that a write gets a 409 without being carried out, as after a concurrent write."""
    event_delay_s: float = 0.0
    """Delay of watch events."""
    event_jitter_s: float = 0.0
    """Maximum further delay, drawn for all events sent together, so that watches see events at different times."""
    lose_event: float = 0.0
    repeat_event: float = 0.0
    swap_events: float = 0.0
    """Chance that two neighbouring events change places."""
    late_write_s: float = 0.0
    """Maximum delay of a write. The sender may have timed out before it arrives."""


NO_FAULTS = NetworkFaults()

_FAILURE = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d,"message":"bad weather"}'
_REFUSED = _FAILURE % (b"ServiceUnavailable", 503)
_CONFLICT = _FAILURE % (b"Conflict", 409)
_JSON: Mapping[str, str] = {"content-type": "application/json"}
_WRITES = frozenset({"PUT", "PATCH", "POST", "DELETE"})


class Network:
    """All wires of one history, and the server at their other end."""

    def __init__(self, server: RequestHandler, timeline: Timeline, rng: Random, *, epoch: float = 0.0) -> None:
        self.server = server
        self.timeline = timeline
        self.rng = rng
        self.epoch = epoch
        """Unix seconds at the timeline's zero."""
        self.faults = NO_FAULTS
        self.down = False
        """Whether the server is restarting. It then answers no request."""
        self.happened: Counter[str] = Counter()
        """How often each kind of fault occurred."""
        self.streams: list[_Stream] = []
        """The open watches."""
        self.failing_path = ""
        """Text in the path of writes that the network refuses. Empty: refuse none."""
        self.send_listeners: list[Callable[[Request, Identity], None]] = []
        """Listeners called with every write that is about to leave.

        If a listener unplugs the wire, the write is not sent.
        """

    def cut_watches(self) -> None:
        """End every open watch now."""
        if self.streams:
            self.happened["watch cut"] += 1
        for stream in tuple(self.streams):
            stream.end()

    def connect(self, identity: Identity) -> Wire:
        """Create the connection of one process."""
        return Wire(self, identity)

    def draw_fault(self, name: str, share: float) -> bool:
        """Draw whether a fault occurs, and count it. With a share of 0, draw nothing."""
        if share <= 0.0 or self.rng.random() >= share:
            return False
        self.happened[name] += 1
        return True

    def draw_latency(self) -> float:
        return self.rng.uniform(*self.faults.latency_s)

    def now(self) -> float:
        """Return Unix seconds."""
        return self.epoch + self.timeline.now


class Wire:
    """A `Transport` for one process."""

    def __init__(self, network: Network, identity: Identity) -> None:
        self._network = network
        self._identity = identity
        self._connected = True
        self._open: list[_Stream] = []
        self.sent_writes: list[Request] = []
        """Every write that left, in order. Audits of a process's writes read it."""
        self.mute = False
        """Whether the network loses all requests of this process."""
        self.deaf = False
        """Whether the process receives no answers, until `deliver_pending`."""
        self.in_time = False
        """Whether its writes are never late, in any weather."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        answer = await self._exchange(request, timeout_s)
        if isinstance(answer, Watch):
            answer.close()
            raise TypeError(f"{request.method} {request.path} is a watch: use stream")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[_Stream | _RefusalStream]:
        answer = await self._exchange(request, timeout_s)
        if isinstance(answer, Response):
            yield _RefusalStream(answer)
            return
        initial = request.parameter("sendInitialEvents") == "true"
        stream = _Stream(self, answer, self._network, asyncio.get_running_loop(), initial=initial)
        self._open.append(stream)
        try:
            yield stream
        finally:
            self._open.remove(stream)
            stream.end()

    async def close(self) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Lose all messages in both directions from now on, as after SIGKILL."""
        self._connected = False
        for stream in tuple(self._open):
            stream.end()

    def deliver_pending(self) -> None:
        """Deliver the messages that open watches received meanwhile, as a TCP connection does."""
        self.deaf = False
        for stream in self._open:
            stream.wake_reader()

    async def _exchange(self, request: Request, timeout_s: float) -> Response | Watch:
        if not self._connected:
            raise Unreachable("the connection was closed", outcome_unknown=False)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response | Watch] = loop.create_future()
        network, weather = self._network, self._network.faults
        if request.method in _WRITES:
            for listener in tuple(network.send_listeners):
                listener(request, self._identity)
            if not self._connected:
                raise Unreachable("the process was killed before it could send", outcome_unknown=False)
            self.sent_writes.append(request)

        def arrive() -> None:
            if network.down or self.mute or network.draw_fault("request lost", weather.lose_request):
                return
            answer = self._carry_out(request, weather)
            if answer is None:
                return
            if network.draw_fault("answer lost", weather.lose_answer):
                if isinstance(answer, Watch):
                    answer.close()
                return
            network.timeline.call_after(network.draw_latency(), partial(deliver, answer))

        def deliver(answer: Response | Watch) -> None:
            if not answered.done() and self._connected and not self.deaf:
                answered.set_result(answer)
            elif isinstance(answer, Watch):
                answer.close()

        def give_up() -> None:
            if not answered.done():
                said = f"{request.method} {request.path}: no answer within {timeout_s:g} s"
                answered.set_exception(Unreachable(said, outcome_unknown=True))

        late_s = 0.0
        if weather.late_write_s and not self.in_time and request.method in _WRITES:
            network.happened["write late"] += 1
            late_s = network.rng.uniform(0.0, weather.late_write_s)
        network.timeline.call_after(network.draw_latency() + late_s, arrive)
        timer = loop.call_later(timeout_s, give_up)
        try:
            return await answered
        finally:
            timer.cancel()

    def _carry_out(self, request: Request, weather: NetworkFaults) -> Response | Watch | None:
        network = self._network
        if network.draw_fault("request refused", weather.refuse):
            return Response(503, _REFUSED, _JSON)
        if network.failing_path and request.method in _WRITES and network.failing_path in request.path:
            network.happened["write of one vpod failed"] += 1
            return Response(503, _REFUSED, _JSON)
        if request.method in _WRITES and network.draw_fault("write in conflict", weather.conflict):
            return Response(409, _CONFLICT, _JSON)
        return network.server.answer(request, network.now(), self._identity)


class _RefusalStream:
    """A refusal in place of a stream."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def batches(self) -> AsyncIterator[tuple[bytes]]:
        yield (self._body,)


class _Stream:
    """One open watch, seen from its process."""

    def __init__(
        self, wire: Wire, watch: Watch, network: Network, loop: asyncio.AbstractEventLoop, *, initial: bool
    ) -> None:
        self._wire = wire
        self._initial = initial  # an initial list over a watch arrives complete, like a list
        self.status = watch.status
        self.headers = watch.headers
        self._watch = watch
        self._network = network
        self._loop = loop
        self._arrived: deque[bytes | None] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._last_arrival = 0.0
        self._held = b""
        """An event that waits until the next one has passed. It is lost if the connection ends first."""
        self._tick: ScheduledCall | None = None
        self._ended = False
        network.streams.append(self)
        watch.wake = self._send
        self._send()
        self._schedule_tick()

    async def batches(self) -> AsyncIterator[tuple[bytes]]:
        while True:
            while self._arrived and not self._wire.deaf:
                piece = self._arrived.popleft()
                if piece is None:
                    return
                yield (piece,)
            self._reader = self._loop.create_future()
            await self._reader

    def end(self) -> None:
        """End the stream at the server. Messages already sent still arrive."""
        if self._ended:
            return
        self._ended = True
        self._network.streams.remove(self)
        if self._tick is not None:
            self._tick.cancel()
        self._watch.close()
        self._deliver_later(None)

    def _send(self) -> None:
        while data := self._watch.take():
            frames = self._apply_faults(data)
            if frames:
                self._deliver_later(frames)
        if self._watch.closed:
            self.end()

    def _schedule_tick(self) -> None:
        if self._ended:
            return
        due = self._watch.tick(self._network.now())
        self._send()
        if not self._ended:
            self._tick = self._network.timeline.call_at(due - self._network.epoch, self._schedule_tick)

    def _deliver_later(self, data: bytes | None) -> None:
        """Deliver frames of one connection in their order."""
        network = self._network
        delay = network.faults.event_delay_s if data is not None else 0.0
        if network.faults.event_jitter_s and data is not None:
            delay += network.rng.uniform(0.0, network.faults.event_jitter_s)
        if delay:
            network.happened["event delayed"] += 1
        self._last_arrival = max(self._last_arrival, network.timeline.now + network.draw_latency() + delay)
        network.timeline.call_at(self._last_arrival, partial(self._arrive, data))

    def _arrive(self, data: bytes | None) -> None:
        self._arrived.append(data)
        self.wake_reader()

    def wake_reader(self) -> None:
        """Wake the reader that waits for data."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _apply_faults(self, data: bytes) -> bytes:
        weather, network = self._network.faults, self._network
        troubled = weather.lose_event or weather.repeat_event or weather.swap_events
        if not (self._initial or self._held or troubled):
            return data
        lines: list[bytes] = []
        for line in data.splitlines(keepends=True):
            if self._initial:
                self._initial = b'"k8s.io/initial-events-end"' not in line
                lines.append(line)
                continue
            if network.draw_fault("event lost", weather.lose_event):
                continue
            if not self._held and weather.swap_events and network.rng.random() < weather.swap_events:
                self._held = line
                continue
            lines.append(line)
            if network.draw_fault("event repeated", weather.repeat_event):
                lines.append(line)
            if self._held:
                network.happened["events swapped"] += 1
                lines.append(self._held)
                self._held = b""
        return b"".join(lines)
