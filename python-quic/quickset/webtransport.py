"""WebTransport for asyncio: sessions of streams and datagrams, with browsers and others, on HTTP/3.

A server of sessions, and a client::

    async def echo(request):
        session = request.accept()
        send, receive = await session.accept_bi()
        await send.write(await receive.read_all(), finish=True)

    async with await webtransport.serve(echo, "127.0.0.1", 4433) as server:
        async with await webtransport.connect("127.0.0.1", 4433, "/echo", pin=server.fingerprint) as session:
            send, receive = await session.open_bi()
            await send.write(b"there and back", finish=True)
            print(await receive.read_all())

A server of pages and sessions is `http3.serve` or `http3.serve_asgi` with `sessions`. A browser takes a
certificate that no authority signed if it is one of `Identity.for_browsers` and the page names its
`Identity.certificate_hash`. A connection has one session at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from types import TracebackType
from typing import Any, Callable, Optional

from quickset import _native
from quickset._connection import Connection
from quickset._endpoint import HANDLER_FAILED, Server
from quickset._errors import ConnectionClosed, SessionClosed
from quickset._native import Operation
from quickset._pieces import read_whole
from quickset._streams import Data
from quickset._texts import Headers, as_fields, as_texts


class SendStream:
    """The sending half of a stream of a session. One task at a time uses it.

    When the last reference is gone before `finish`, the stream is given up: what is not complete must not
    look complete.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeSessionWriter) -> None:
        self._native = native

    async def write(self, data: Data, *, finish: bool = False) -> None:
        """Writes all of `data`, and ends the stream behind it if `finish`. It waits while the peer does not
        take it; if it is cancelled, a part may have been written."""
        answer = self._native.write(data)
        if isinstance(answer, Operation):
            await answer
        if finish:
            self.finish()

    def finish(self) -> None:
        """Ends the stream behind what was written. It does not wait."""
        self._native.finish()

    def reset(self, code: int = 0) -> None:
        """Gives the stream up, with a code of 32 bits for the peer's application."""
        self._native.reset(code)

    def set_protection(self, protection: str) -> None:
        """Sets how losses are repaired from now on. It has an effect only where both sides know repair, which
        browsers do not."""
        self._native.set_protection(protection)


class ReceiveStream:
    """The receiving half of a stream of a session: an asynchronous iterator of its bytes. One task at a time
    uses it. A call that is cancelled has lost nothing.

    When the last reference is gone before the end, the peer is asked to send no more.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeSessionReader) -> None:
        self._native = native

    async def read(self, n: int = 1 << 20) -> bytes:
        """Waits for the next bytes: at least 1 and at most `n`. It returns no bytes at the end."""
        answer = self._native.read(n)
        return await answer if isinstance(answer, Operation) else answer

    async def read_all(self, limit: int = 64 << 20) -> bytes:
        """Reads all up to the end. It raises `TooLong` for more than `limit` bytes. If it is cancelled, what
        it has read is lost."""
        return await read_whole(self.read, limit, "stream")

    def stop(self, code: int = 0) -> None:
        """Asks the peer to send no more, with a code of 32 bits for its application."""
        self._native.stop(code)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data


class Session:
    """A session, on either side. As an asynchronous context manager it is closed at the end of the block.
    With the last reference to it and to its streams it is closed, too.

    What waits raises `SessionClosed` when the session is over, and `ConnectionClosed` when its connection is.
    """

    def __init__(self, native: _native.NativeSession, connection: Connection, owner: object = None) -> None:
        self._native = native
        self.connection = connection
        """The connection, which is HTTP's: open no streams on it."""
        # What lives as long as the session does.
        self._owner = owner

    @property
    def protocol(self) -> Optional[str]:
        """The application protocol that the server chose of those that the client offered."""
        return self._native.protocol()

    async def open_bi(self) -> tuple[SendStream, ReceiveStream]:
        """Opens a stream that both sides send on. It waits until the peer allows one more."""
        answer = self._native.open_bi()
        send, receive = await answer if isinstance(answer, Operation) else answer
        return SendStream(send), ReceiveStream(receive)

    async def open_uni(self) -> SendStream:
        """Opens a stream that only this side sends on."""
        answer = self._native.open_uni()
        return SendStream(await answer if isinstance(answer, Operation) else answer)

    async def accept_bi(self) -> tuple[SendStream, ReceiveStream]:
        """Waits for the next stream that the peer opens and that both sides send on."""
        answer = self._native.accept_bi()
        send, receive = await answer if isinstance(answer, Operation) else answer
        return SendStream(send), ReceiveStream(receive)

    async def accept_uni(self) -> ReceiveStream:
        """Waits for the next stream that the peer opens and that only it sends on."""
        answer = self._native.accept_uni()
        return ReceiveStream(await answer if isinstance(answer, Operation) else answer)

    def send_datagram(self, data: Data) -> None:
        """Sends a datagram: whole, once or not at all. It does not wait; it may be lost here, too. It raises
        `TooLong` for one that no packet has room for."""
        self._native.send_datagram(data)

    async def read_datagram(self) -> bytes:
        """Waits for the next datagram. Those that nobody reads in time make room for later ones."""
        answer = self._native.read_datagram()
        return await answer if isinstance(answer, Operation) else answer

    @property
    def max_datagram(self) -> Optional[int]:
        """The longest datagram that can be sent now; `None` if the peer takes none."""
        return self._native.max_datagram()

    def close(self, code: int = 0, reason: str = "") -> None:
        """Ends the session at once, with a code of 32 bits and at most 1024 bytes of a reason for the peer's
        application. Its streams are given up."""
        self._native.close(code, reason)

    async def closed(self) -> SessionClosed:
        """Waits for the end of the session, and returns (not raises) the exception that says how it ended. It
        raises `ConnectionClosed` if the connection ended first."""
        answer = self._native.closed()
        return await answer if isinstance(answer, Operation) else answer

    def drain(self) -> None:
        """Asks the peer to end the session soon. Nothing changes by itself."""
        self._native.drain()

    async def draining(self) -> None:
        """Waits until the peer asks to end the session soon."""
        answer = self._native.draining()
        if isinstance(answer, Operation):
            await answer

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


class SessionRequest:
    """A request for a session at a server, to be answered by `accept` or `decline`.

    When its handler returns without an answer, it is declined with status 404.
    """

    def __init__(
        self, head: _native.HttpHead, call: _native.NativeSessionCall, connection: Connection
    ) -> None:
        _, _, authority, path, fields = head
        self.authority = authority.decode("latin-1")
        """The host that the client asked for, and the port if it named one."""
        self.path = path.decode("latin-1")
        """The path with the query, as it was sent."""
        self.headers = as_texts(fields)
        """The fields, in order."""
        self.connection = connection
        """The connection that it came on."""
        self._call = call
        self.protocols: list[str] = call.protocols()
        """The application protocols that the client speaks, the best first."""
        self.session: Optional[Session] = None
        """The session, once it was accepted."""

    def header(self, name: str) -> Optional[str]:
        """The first field of this name; `None` if there is none."""
        return next((value for found, value in self.headers if found == name.lower()), None)

    @property
    def origin(self) -> Optional[str]:
        """The origin of the page that asks, which browsers tell. Decline those that you do not expect."""
        return self.header("origin")

    def accept(self, *, protocol: Optional[str] = None, headers: Headers = ()) -> Session:
        """Accepts the session, in one of the client's `protocols` if you name one."""
        self.session = Session(self._call.accept(as_fields(headers), protocol), self.connection)
        return self.session

    def decline(self, status: int = 404, headers: Headers = ()) -> None:
        """Declines the session: with 404 for a path that has none, with 403 for a page that may not."""
        self._call.decline(status, as_fields(headers))

    def __repr__(self) -> str:
        return f"<quickset.webtransport.SessionRequest {self.path}>"


SessionHandler = Callable[[SessionRequest], Awaitable[object]]
"""What serves sessions. It is called with each request for one, in a task of its own."""


async def connect(
    host: str,
    port: int = 443,
    path: str = "/",
    *,
    protocols: Sequence[str] = (),
    headers: Headers = (),
    **settings: Any,
) -> Session:
    """Connects to a server and begins a session. `protocols` are the application protocols that this side
    speaks, the best first. The settings are those of `quickset.connect` but for `alpn`.

    It raises `SessionDeclined` if the server answers with a status that is no session's. At the end of the
    session close its `connection`, or forget both.
    """
    from quickset import http3

    client = await http3.connect(host, port, sessions=True, **settings)
    try:
        return await client.session(path, protocols=protocols, headers=headers)
    except BaseException:
        client.connection.close(0x100)
        raise


async def serve(handler: SessionHandler, host: str = "::", port: int = 443, **settings: Any) -> Server:
    """Makes a server of sessions alone; other requests get the status 404. The settings are those of
    `quickset.serve` but for `alpn`.

    `handler` is a coroutine function that is called with each `SessionRequest`, in a task of its own. When it
    returns, the session goes on until the client closes it. When it raises, the session is closed with code
    1, and the exception goes to the event loop's exception handler.
    """
    from quickset import http3

    async def nothing(request: http3.Request) -> None:
        await request.respond(404)

    return await http3.serve(nothing, host, port, sessions=handler, **settings)


async def _handle(handler: SessionHandler, request: SessionRequest) -> None:
    """Calls a handler with a request, and does for the session what `serve` says."""
    try:
        await handler(request)
        if request.session is not None:
            await request.session.closed()
    except asyncio.CancelledError:
        if request.session is not None:
            request.session.close()
        raise
    except Exception as error:
        if _is_end(error) and await _is_over(request):
            # The session ended, and the handler with it: that is how most end.
            return
        if request.session is not None:
            request.session.close(HANDLER_FAILED, "the handler failed")
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the handler of {request!r} failed", "exception": error}
        )
    finally:
        if request.session is None:
            request._call.unanswered(404)


async def _is_over(request: SessionRequest) -> bool:
    """Whether a session is over, or will be in a moment."""
    if request.session is None:
        return request.connection.close_reason is not None
    closing = asyncio.ensure_future(request.session.closed())
    done, _ = await asyncio.wait([closing], timeout=0.1)
    if done:
        # How it ended does not matter.
        closing.exception()
    else:
        closing.cancel()
    return bool(done)


def _is_end(error: BaseException) -> bool:
    """Whether nothing went wrong but that a session or a connection ended, in whatever groups of tasks."""
    parts = getattr(error, "exceptions", None)
    return isinstance(error, (SessionClosed, ConnectionClosed)) if parts is None else all(map(_is_end, parts))
