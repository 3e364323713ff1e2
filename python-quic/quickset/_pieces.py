"""Streams that are read piece by piece, read as a whole, or by lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Callable

from quickset._errors import TooLong


async def read_whole(read: Callable[[], Awaitable[bytes]], limit: int, what: str) -> bytes:
    """All that `read` returns until it returns nothing. It raises `TooLong` for more than `limit` bytes."""
    pieces, total = [], 0
    while piece := await read():
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise TooLong(f"the {what} is longer than {limit} bytes; read it piece by piece", limit)
    return b"".join(pieces)


async def lines_of(read: Callable[[], Awaitable[bytes]], limit: int) -> AsyncIterator[bytes]:
    """The lines of all that `read` returns until it returns nothing. It raises `TooLong` at a line of more
    than `limit` bytes."""
    rest = b""
    while piece := await read():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield _within(line, limit)
        _within(rest, limit)
    if rest:
        yield rest


def _within(line: bytes, limit: int) -> bytes:
    if len(line) > limit:
        raise TooLong(f"a line is longer than {limit} bytes; read the stream piece by piece", limit)
    return line
