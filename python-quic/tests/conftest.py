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
