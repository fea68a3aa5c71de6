"""A server that only answers: every write with one pod, every list and watch with pods made in passing.

    python -m bench.answering [--pods N] [--events N]

It stands in for an API server that is never the bottleneck, whichever client asks: no routing, no state, no checks.
Like kube-apiserver it writes each event of a watch as a chunk of its own. WatchList it refuses, as servers before 1.32.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import cast

import uvloop

from bench.pods import shown

_HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_VERSION = 1_000_000
_TURN = 64
"""Events that leave in one write."""


def _answer(status: bytes, body: bytes) -> bytes:
    return _HEAD % (status, len(body)) + body


_REFUSED = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden",'
    b'"reason":"Invalid","code":422}'
)
_CHANGED = _answer(b"200 OK", shown(1, _VERSION))
_CREATED = _answer(b"201 Created", shown(1, _VERSION))
_NO_WATCH_LIST = _answer(b"422 Unprocessable Entity", _REFUSED)


class Answering(asyncio.Protocol):
    """One connection."""

    def __init__(self, pods: int, events: list[bytes]) -> None:
        self._pods = pods
        self._events = events
        self._received = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._streaming: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._streaming:
            self._streaming.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            length = head.lower().rpartition(b"content-length:")[2].partition(b"\r")[0]
            whole = end + 4 + (int(length) if length.strip().isdigit() else 0)
            if len(self._received) < whole:
                return
            self._received = self._received[whole:]
            self._request(head)

    def _request(self, head: bytes) -> None:
        method, target = head.split(b" ", 2)[:2]
        if method == b"PATCH":
            self._transport.write(_CHANGED)
        elif method == b"POST":
            self._transport.write(_CREATED)
        elif b"sendInitialEvents=true" in target:
            self._transport.write(_NO_WATCH_LIST)
        elif b"watch=true" in target:
            self._streaming = asyncio.ensure_future(self._stream())
        else:
            self._transport.write(_answer(b"200 OK", self._page(target)))

    def _page(self, target: bytes) -> bytes:
        query = dict(part.partition(b"=")[::2] for part in target.partition(b"?")[2].split(b"&"))
        first = int(query.get(b"continue", b"0"))
        after = min(first + int(query.get(b"limit", b"500")), self._pods)
        more = b',"continue":"%d","remainingItemCount":%d' % (after, self._pods - after) if after < self._pods else b""
        items = b",".join([shown(number, _VERSION - self._pods + number) for number in range(first, after)])
        return b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"%b},"items":[%b]}' % (
            _VERSION,
            more,
            items,
        )

    async def _stream(self) -> None:
        self._transport.write(_STREAM)
        for first in range(0, len(self._events), _TURN):
            self._transport.write(b"".join(self._events[first : first + _TURN]))
            await self._writable.wait()


def _event(number: int, pods: int) -> bytes:
    line = b'{"type":"MODIFIED","object":%b}\n' % shown(number % pods, _VERSION + 1 + number, started=number)
    return b"%x\r\n%b\r\n" % (len(line), line)


async def _serve(pods: int, count: int) -> None:
    events = [_event(number, pods) for number in range(count)]
    server = await asyncio.get_running_loop().create_server(lambda: Answering(pods, events), "127.0.0.1", 0)
    sys.stdout.write(f"answering at http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.answering")
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--events", type=int, default=0)
    chosen = parser.parse_args()
    uvloop.run(_serve(chosen.pods, chosen.events))


if __name__ == "__main__":
    main()
