"""A client and a server in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Callable, TypeVar

import pytest

import quickset

T = TypeVar("T")

#: Far more than anything here takes, unless it hangs.
LIMIT = 30.0


@asynccontextmanager
async def pair(**settings: Any) -> AsyncIterator[tuple[quickset.Connection, quickset.Connection]]:
    """The client's and the server's side of a connection."""
    async with await quickset.serve(None, "127.0.0.1", alpn="test/1", **settings) as server:
        client, peer = await asyncio.gather(
            quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint, **settings),
            server.accept(),
        )
        assert peer is not None
        async with client:
            yield client, peer


class SlowPath(asyncio.DatagramProtocol):
    """Passes datagrams of one client on to a server and back, later."""

    def __init__(self, port: int, delay: float) -> None:
        self._server, self._delay = ("127.0.0.1", port), delay
        self._client: Any = None
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, sender: Any) -> None:
        if sender != self._server:
            self._client = sender
        to = self._client if sender == self._server else self._server
        asyncio.get_running_loop().call_later(self._delay, self._send, data, to)

    def _send(self, data: bytes, to: Any) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, to)


@asynccontextmanager
async def slow_path(port: int, delay: float) -> AsyncIterator[int]:
    """A path to a port of this machine that takes so many seconds each way; its own port."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: SlowPath(port, delay), local_addr=("127.0.0.1", 0)
    )
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()


@pytest.fixture
def run() -> Callable[[Callable[[], Awaitable[T]]], T]:
    """Runs a coroutine function in a loop of its own, and fails where it hangs."""

    def play(case: Callable[[], Awaitable[T]]) -> T:
        async def limited() -> T:
            return await asyncio.wait_for(case(), LIMIT)

        return asyncio.run(limited())

    return play


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
