"""Quickset for asyncio: QUIC with fenced streams of messages, repair of losses, and datagrams.

A server that sends everything back, and a client::

    import asyncio
    import quickset

    async def echo(connection):
        send, receive = await connection.accept_bi()
        async for data in receive:
            await send.write(data)
        send.finish()

    async def main():
        async with await quickset.serve(echo, "127.0.0.1", alpn="echo/1") as server:
            async with await quickset.connect(
                "127.0.0.1", server.port, alpn="echo/1", pin=server.fingerprint
            ) as connection:
                send, receive = await connection.open_bi()
                await send.write(b"hello", finish=True)
                print(await receive.read_all())

    asyncio.run(main())

All coroutines may be cancelled at any point: a call that is cancelled has lost no data.
"""

from quickset import _loop as _loop
from quickset._connection import Connection
from quickset._endpoint import HANDLER_FAILED, Identity, KnownServers, Server, connect, serve
from quickset._errors import (
    BusyError,
    ConnectError,
    ConnectionClosed,
    DatagramsUnsupported,
    ForkedError,
    HttpCancelled,
    HttpError,
    LifespanError,
    MalformedMessages,
    QuicksetError,
    SessionClosed,
    SessionDeclined,
    StreamEnded,
    StreamReset,
    StreamStopped,
    TooLong,
    WrongLoopError,
)
from quickset._native import VERSION as __version__
from quickset._native import ConnectionStats, Message, Ticket, TicketName, check_protection
from quickset._streams import (
    MessageReceiver,
    MessageSender,
    MessageStats,
    Outcome,
    Outcomes,
    ReceiveStream,
    SendStream,
)

__all__ = [
    "HANDLER_FAILED",
    "BusyError",
    "ConnectError",
    "Connection",
    "ConnectionClosed",
    "ConnectionStats",
    "DatagramsUnsupported",
    "ForkedError",
    "HttpCancelled",
    "HttpError",
    "Identity",
    "KnownServers",
    "LifespanError",
    "MalformedMessages",
    "Message",
    "MessageReceiver",
    "MessageSender",
    "MessageStats",
    "Outcome",
    "Outcomes",
    "QuicksetError",
    "ReceiveStream",
    "SendStream",
    "Server",
    "SessionClosed",
    "SessionDeclined",
    "StreamEnded",
    "StreamReset",
    "StreamStopped",
    "Ticket",
    "TicketName",
    "TooLong",
    "WrongLoopError",
    "__version__",
    "check_protection",
    "connect",
    "serve",
]
