"""Streams that are read piece by piece, read as a whole."""

from __future__ import annotations

from collections.abc import Awaitable
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
