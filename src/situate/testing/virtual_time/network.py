"""The way from a simulated process to an in-memory API server: latency, and messages that are lost or late.

`Wire` is a `situate.kube.transport.protocol.Transport`, so the shipped client, reflectors and election run over it
unchanged. A request that has left its process is carried out even if the process is killed meanwhile, as over a real
network. What happens to a message is drawn from the wire's own generator, so a history depends on its seed only.
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
from situate.sim.timeline import Due, Timeline


class Answering(Protocol):
    """What answers requests at once: the in-memory API server without webhooks."""

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        """None is no answer ever; the caller waits for its time-out."""
        ...


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network does to messages from now on. Chances are between 0 and 1, each drawn for itself."""

    latency_s: tuple[float, float] = (0.0005, 0.005)
    """Least and most of one way."""
    lose_request: float = 0.0
    """Never arrives; the caller waits for its time-out."""
    lose_answer: float = 0.0
    """Carried out; the caller waits for its time-out."""
    refuse: float = 0.0
    """Answered 503 without being carried out."""
    conflict: float = 0.0
    """A write is answered 409 without being carried out, as if another had come first."""
    event_delay_s: float = 0.0
    """Watch events come so much later."""
    event_jitter_s: float = 0.0
    """And by up to so much more, drawn for what is sent together: other watches are ahead or behind."""
    lose_event: float = 0.0
    repeat_event: float = 0.0
    swap_events: float = 0.0
    """Two neighbouring events change places."""
    late_write_s: float = 0.0
    """A write arrives by up to so much later; whoever sent it may have stopped waiting."""


CALM = Weather()

_FAILURE = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d,"message":"bad weather"}'
_REFUSED = _FAILURE % (b"ServiceUnavailable", 503)
_CONFLICT = _FAILURE % (b"Conflict", 409)
_JSON: Mapping[str, str] = {"content-type": "application/json"}
_WRITES = frozenset({"PUT", "PATCH", "POST", "DELETE"})


class Network:
    """All wires of one history, and the server at their other end."""

    def __init__(self, server: Answering, timeline: Timeline, rng: Random, *, epoch: float = 0.0) -> None:
        self.server = server
        self.timeline = timeline
        self.rng = rng
        self.epoch = epoch
        """Unix seconds at the timeline's zero."""
        self.weather = CALM
        self.down = False
        """The server is being restarted: nothing is answered, every watch is cut."""
        self.happened: Counter[str] = Counter()
        """How often each kind of trouble occurred."""
        self.streams: list[_Stream] = []
        """The watches that are open."""
        self.failing = ""
        """Writes whose path contains this are refused; empty: none."""
        self.leaving: list[Callable[[Request, Identity], None]] = []
        """Told of every write when it is about to leave; a wire that is unplugged by one of them sends nothing."""

    def cut_watches(self) -> None:
        """Every open watch ends now."""
        if self.streams:
            self.happened["watch cut"] += 1
        for stream in tuple(self.streams):
            stream.end()

    def wire(self, identity: Identity) -> Wire:
        """A way in for one process."""
        return Wire(self, identity)

    def chance(self, name: str, share: float) -> bool:
        """Draws, and counts what it decided. Nothing is drawn in calm weather."""
        if share <= 0.0 or self.rng.random() >= share:
            return False
        self.happened[name] += 1
        return True

    def latency(self) -> float:
        return self.rng.uniform(*self.weather.latency_s)

    def now(self) -> float:
        """Unix seconds."""
        return self.epoch + self.timeline.now


class Wire:
    """A `Transport` for one process."""

    def __init__(self, network: Network, identity: Identity) -> None:
        self._network = network
        self._identity = identity
        self._plugged = True
        self._open: list[_Stream] = []
        self.sent: list[Request] = []
        """Every write that left, in order: what audits of who wrote what look at."""
        self.mute = False
        """Nothing that is sent arrives."""
        self.deaf = False
        """Nothing that is answered arrives, until `hear_again`."""
        self.in_time = False
        """No write of it is late, whatever the weather."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        answer = await self._exchange(request, timeout_s)
        if isinstance(answer, Watch):
            answer.close()
            raise TypeError(f"{request.method} {request.path} is a watch: use stream")
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[_Stream | _Whole]:
        answer = await self._exchange(request, timeout_s)
        if isinstance(answer, Response):
            yield _Whole(answer)
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
        self.unplug()

    def unplug(self) -> None:
        """From now on nothing gets through in either direction, as after SIGKILL."""
        self._plugged = False
        for stream in tuple(self._open):
            stream.end()

    def hear_again(self) -> None:
        """What was sent on open watches meanwhile comes now, as connections see to."""
        self.deaf = False
        for stream in self._open:
            stream.read_on()

    async def _exchange(self, request: Request, timeout_s: float) -> Response | Watch:
        if not self._plugged:
            raise Unreachable("the connection was closed", outcome_unknown=False)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response | Watch] = loop.create_future()
        network, weather = self._network, self._network.weather
        if request.method in _WRITES:
            for listener in tuple(network.leaving):
                listener(request, self._identity)
            if not self._plugged:
                raise Unreachable("the process was killed before it could send", outcome_unknown=False)
            self.sent.append(request)

        def arrive() -> None:
            if network.down or self.mute or network.chance("request lost", weather.lose_request):
                return
            answer = self._carry_out(request, weather)
            if answer is None:
                return
            if network.chance("answer lost", weather.lose_answer):
                if isinstance(answer, Watch):
                    answer.close()
                return
            network.timeline.after(network.latency(), partial(deliver, answer))

        def deliver(answer: Response | Watch) -> None:
            if not answered.done() and self._plugged and not self.deaf:
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
        network.timeline.after(network.latency() + late_s, arrive)
        timer = loop.call_later(timeout_s, give_up)
        try:
            return await answered
        finally:
            timer.cancel()

    def _carry_out(self, request: Request, weather: Weather) -> Response | Watch | None:
        network = self._network
        if network.chance("request refused", weather.refuse):
            return Response(503, _REFUSED, _JSON)
        if network.failing and request.method in _WRITES and network.failing in request.path:
            network.happened["write of one vpod failed"] += 1
            return Response(503, _REFUSED, _JSON)
        if request.method in _WRITES and network.chance("write in conflict", weather.conflict):
            return Response(409, _CONFLICT, _JSON)
        return network.server.answer(request, network.now(), self._identity)


class _Whole:
    """A refusal where a stream was asked for."""

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
        self._initial = initial  # what stands for a listing arrives whole, as a listing does
        self.status = watch.status
        self.headers = watch.headers
        self._watch = watch
        self._network = network
        self._loop = loop
        self._arrived: deque[bytes | None] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._last_arrival = 0.0
        self._held = b""
        """An event that lets the next one go first; it is lost with the connection if none comes."""
        self._tick: Due | None = None
        self._ended = False
        network.streams.append(self)
        watch.wake = self._send
        self._send()
        self._keep_time()

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
        """The server's side is closed; what is under way still arrives."""
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
            frames = self._battered(data)
            if frames:
                self._deliver_later(frames)
        if self._watch.closed:
            self.end()

    def _keep_time(self) -> None:
        if self._ended:
            return
        due = self._watch.tick(self._network.now())
        self._send()
        if not self._ended:
            self._tick = self._network.timeline.at(due - self._network.epoch, self._keep_time)

    def _deliver_later(self, data: bytes | None) -> None:
        """Frames of one connection never overtake each other."""
        network = self._network
        delay = network.weather.event_delay_s if data is not None else 0.0
        if network.weather.event_jitter_s and data is not None:
            delay += network.rng.uniform(0.0, network.weather.event_jitter_s)
        if delay:
            network.happened["event delayed"] += 1
        self._last_arrival = max(self._last_arrival, network.timeline.now + network.latency() + delay)
        network.timeline.at(self._last_arrival, partial(self._arrive, data))

    def _arrive(self, data: bytes | None) -> None:
        self._arrived.append(data)
        self.read_on()

    def read_on(self) -> None:
        """Whoever waits for what has arrived goes on."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _battered(self, data: bytes) -> bytes:
        weather, network = self._network.weather, self._network
        troubled = weather.lose_event or weather.repeat_event or weather.swap_events
        if not (self._initial or self._held or troubled):
            return data
        lines: list[bytes] = []
        for line in data.splitlines(keepends=True):
            if self._initial:
                self._initial = b'"k8s.io/initial-events-end"' not in line
                lines.append(line)
                continue
            if network.chance("event lost", weather.lose_event):
                continue
            if not self._held and weather.swap_events and network.rng.random() < weather.swap_events:
                self._held = line
                continue
            lines.append(line)
            if network.chance("event repeated", weather.repeat_event):
                lines.append(line)
            if self._held:
                network.happened["events swapped"] += 1
                lines.append(self._held)
                self._held = b""
        return b"".join(lines)
