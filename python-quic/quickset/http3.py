"""HTTP/3 for asyncio: clients, and servers with a handler for each request or with an ASGI application.

A client::

    async with await http3.connect("www.example.net", 443) as client:
        response = await client.get("/")
        async for piece in response:
            ...

Names of fields are in lower case. Content is `bytes`, or an asynchronous iterable of them; what is sent waits
for a slow reader, and little is read ahead of the application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Callable, Optional, Union

from quickset import _native
from quickset._connection import Connection
from quickset._endpoint import Server, _is_end
from quickset._endpoint import connect as _connect
from quickset._endpoint import serve as _serve
from quickset._errors import ConnectionClosed, HttpCancelled, HttpError
from quickset._lifespan import Lifespan
from quickset._native import Operation
from quickset._pieces import read_whole
from quickset._streams import Data
from quickset._texts import Headers, as_fields, as_octets, as_texts
from quickset.webtransport import Session, SessionHandler, SessionRequest
from quickset.webtransport import _handle as _handle_session

ALPN = "h3"
"""What HTTP/3 is called in the TLS handshake."""

Body = Union[Data, AsyncIterable[Data]]
"""Content of a message."""

INTERNAL_ERROR = 0x102
"""H3_INTERNAL_ERROR (RFC 9114 §8.1)."""
REQUEST_CANCELLED = 0x10C
"""H3_REQUEST_CANCELLED."""


class _Incoming:
    """The content of a message that comes."""

    def __init__(self, headers: list[tuple[str, str]], content: _native.NativeHttpContent) -> None:
        self.headers = headers
        """The fields, in order."""
        self._content = content

    def header(self, name: str) -> Optional[str]:
        """The first field of this name; `None` if there is none."""
        return next((value for found, value in self.headers if found == name.lower()), None)

    async def read(self, n: int = 1 << 20) -> bytes:
        """Waits for the next bytes of the content, at most `n`; none at the end. If it is cancelled, nothing
        is lost."""
        answer = self._content.read(n)
        return await answer if isinstance(answer, Operation) else answer

    async def read_all(self, limit: int = 64 << 20) -> bytes:
        """Reads all of the content. It raises `TooLong` for more than `limit` bytes. If it is cancelled, what
        it has read is lost."""
        return await read_whole(self.read, limit, "content")

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """The fields behind the content, once that was read to its end."""
        return as_texts(self._content.trailers())

    def stop(self, code: int = REQUEST_CANCELLED) -> None:
        """Says that the rest of the content is not wanted."""
        self._content.stop(code)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self.read()
        if not piece:
            raise StopAsyncIteration
        return piece


class Response(_Incoming):
    """A response: an asynchronous iterator of its content."""

    def __init__(
        self, status: int, headers: list[tuple[str, str]], content: _native.NativeHttpContent
    ) -> None:
        super().__init__(headers, content)
        self.status = status
        """The status, 200 to 599."""

    def __repr__(self) -> str:
        return f"<quickset.http3.Response {self.status}>"


class _Cancelled:
    """Keeps in mind that the client gave a request up, as a call with it was told."""

    def __init__(self) -> None:
        self.told = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.told |= isinstance(value, HttpCancelled)


class Request(_Incoming):
    """A request at a server: an asynchronous iterator of its content, to be answered by `respond` or `begin`.

    When it is forgotten without an answer, it fails at the client.
    """

    def __init__(
        self,
        head: _native.HttpHead,
        content: _native.NativeHttpContent,
        reply: _native.NativeHttpReply,
        connection: Connection,
    ) -> None:
        method, scheme, authority, path, fields = head
        super().__init__(as_texts(fields), content)
        self.method = method.decode("latin-1")
        """`GET`, say."""
        self.scheme = scheme.decode("latin-1")
        """`https`, or nothing."""
        self.authority = authority.decode("latin-1")
        """The host that the client asked for, and the port if it named one."""
        self.path = path.decode("latin-1")
        """The path with the query, as it was sent."""
        self.connection = connection
        """The connection that it came on."""
        self._reply = reply
        self._sender: Optional[_native.NativeHttpSender] = None
        self._tells = _Cancelled()

    async def read(self, n: int = 1 << 20) -> bytes:
        """As `Response.read`. It raises `HttpCancelled` if the client gives the request up."""
        with self._tells:
            return await super().read(n)

    async def respond(self, status: int, content: Body = b"", headers: Headers = ()) -> None:
        """Answers with all of the content. This, `begin`, `send` and `finish` raise `HttpCancelled` if the
        client wants no answer any more."""
        if isinstance(content, AsyncIterable):
            self.begin(status, headers)
            async for piece in content:
                await self.send(piece)
            self.finish()
            return
        with self._tells:
            answer = self._reply.answer(status, as_fields(headers), content)
            if isinstance(answer, Operation):
                await answer

    def inform(self, status: int, headers: Headers = ()) -> None:
        """Sends an interim response, with a status of 1xx."""
        self._reply.interim(status, as_fields(headers))

    def begin(self, status: int, headers: Headers = ()) -> None:
        """Sends the head of the response. Content follows by `send`, and `finish` ends it."""
        with self._tells:
            self._sender = self._reply.respond(status, as_fields(headers))

    async def send(self, data: Data) -> None:
        """Sends some of the content. It waits while the client does not take it."""
        with self._tells:
            answer = self._begun().send(data)
            if isinstance(answer, Operation):
                await answer

    def finish(self, trailers: Headers = ()) -> None:
        """Ends the content, with these fields behind it."""
        with self._tells:
            self._begun().finish(as_fields(trailers))

    def cancel(self, code: int = INTERNAL_ERROR) -> None:
        """Gives up a response that has begun; the client sees that it is not complete."""
        self._begun().cancel(code)

    def reject(self) -> None:
        """Says that nothing was done with the request, so that the client may make it again elsewhere."""
        self._reply.reject()

    def _begun(self) -> _native.NativeHttpSender:
        if self._sender is None:
            raise HttpError("the response has not begun; call begin first")
        return self._sender

    def __repr__(self) -> str:
        return f"<quickset.http3.Request {self.method} {self.path}>"


class Client:
    """A client of one server, for any number of requests at a time. As an asynchronous context manager it
    ends the connection at the end of the block."""

    def __init__(self, connection: Connection, authority: str, *, sessions: bool = False) -> None:
        self._native = _native.NativeHttpClient(connection._native, sessions)
        self.connection = connection
        """The connection, which is HTTP's from now on: open no streams on it."""
        self.authority = authority
        """The host that requests ask for, unless they say otherwise."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: Optional[Body] = None,
        headers: Headers = (),
        authority: Optional[str] = None,
    ) -> Response:
        """Makes a request, and waits for the head of the response. Content that is an iterable is sent beside
        that. If it is cancelled, the request is given up."""
        host = self.authority if authority is None else authority
        target = (as_octets(method), as_octets(host), as_octets(path))
        answer = self._native.request(target, as_fields(headers), content is not None)
        sender, waits = await answer if isinstance(answer, Operation) else answer
        coming = _response(waits)
        # A task that is cancelled keeps its exception, and that this frame: what is to be given up by being
        # forgotten must not be in it.
        del answer, waits
        if sender is None or content is None:
            return await coming
        sending = asyncio.ensure_future(_send(sender, content))
        del sender
        try:
            response = await coming
        except BaseException:
            sending.cancel()
            raise
        # A server may answer before it has all of the content; the rest is sent beside the answer.
        _background.add(sending)
        sending.add_done_callback(_forget)
        return response

    async def get(self, path: str, *, headers: Headers = ()) -> Response:
        """`request` with `GET`."""
        return await self.request("GET", path, headers=headers)

    async def post(self, path: str, content: Body, *, headers: Headers = ()) -> Response:
        """`request` with `POST`."""
        return await self.request("POST", path, content=content, headers=headers)

    async def put(self, path: str, content: Body, *, headers: Headers = ()) -> Response:
        """`request` with `PUT`."""
        return await self.request("PUT", path, content=content, headers=headers)

    async def session(
        self,
        path: str,
        *,
        protocols: Sequence[str] = (),
        headers: Headers = (),
        authority: Optional[str] = None,
    ) -> Session:
        """Begins a session of WebTransport, on a client that was made with ``sessions=True``. `protocols` are
        the application protocols that this side speaks, the best first. It raises `SessionDeclined` if the
        server answers with a status that is no session's. If it is cancelled, the session is given up."""
        target = (as_octets(self.authority if authority is None else authority), as_octets(path))
        answer = self._native.session(target, as_fields(headers), list(protocols))
        return Session(await answer if isinstance(answer, Operation) else answer, self.connection, self)

    @property
    def is_going_away(self) -> bool:
        """Whether the server takes no new requests. Make them on another connection."""
        return self._native.is_going_away()

    async def shutdown(self) -> None:
        """Waits for the requests under way and ends the connection."""
        answer = self._native.shutdown()
        if isinstance(answer, Operation):
            await answer

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        # H3_NO_ERROR
        self.connection.close(0x100)


async def connect(host: str, port: int = 443, *, sessions: bool = False, **settings: Any) -> Client:
    """Connects to a server of HTTP/3. With `sessions` the client may begin a session of WebTransport. The
    settings are those of `quickset.connect` but for `alpn`."""
    _refuse_early(settings)
    connection = await _connect(host, port, alpn=ALPN, **settings)
    name = f"[{host}]" if ":" in host else host
    return Client(connection, name if port == 443 else f"{name}:{port}", sessions=sessions)


HttpHandler = Callable[[Request], Awaitable[object]]


async def serve(
    handler: HttpHandler,
    host: str = "::",
    port: int = 443,
    *,
    sessions: Optional[SessionHandler] = None,
    **settings: Any,
) -> Server:
    """Makes a server of HTTP/3. `handler` is a coroutine function that is called with each request, in a task
    of its own. One that raises, or returns without an answer, fails the request; the exception goes to the
    event loop's exception handler, unless the client has gone or gave the request up. `sessions` is one that
    is called with each request for a session of WebTransport (see `quickset.webtransport.serve`); without it
    none are offered. The settings are those of `quickset.serve` but for `alpn`."""

    def begin(call: _native.HttpCall, connection: Connection) -> Coroutine[Any, Any, None]:
        head, content, reply, session = call
        if content is not None and reply is not None:
            return _handle(handler, Request(head, content, reply, connection))
        assert session is not None and sessions is not None, "a connection without sessions has none"
        return _handle_session(sessions, SessionRequest(head, session, connection))

    async def serve_connection(connection: Connection) -> None:
        native = _native.NativeHttpServer(connection._native, sessions is not None)
        tasks = set[asyncio.Task[None]]()
        try:
            while True:
                answer = native.accept()
                call = await answer if isinstance(answer, Operation) else answer
                if call is None:
                    return
                task = asyncio.ensure_future(begin(call, connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                del call, answer
        finally:
            for task in tasks:
                task.cancel()

    _refuse_early(settings)
    return await _serve(serve_connection, host, port, alpn=ALPN, **settings)


def _refuse_early(settings: dict[str, Any]) -> None:
    # RFC 8470: a server would have to know of each request whether it may be a replay.
    if settings.get("early") or settings.get("early_data"):
        raise ValueError("this package has no early data for HTTP/3")


async def serve_asgi(
    app: Any,
    host: str = "::",
    port: int = 443,
    *,
    lifespan: str = "auto",
    sessions: Optional[SessionHandler] = None,
    **settings: Any,
) -> Server:
    """Serves an ASGI 3 application by HTTP/3: the scopes `http` and `lifespan`, without `websocket`.

    The application is told of its start before the server takes connections, and of its end by
    `Server.wait_closed`, or at the end of the server's block. If the start fails, this raises
    `LifespanError`. With `lifespan` ``auto`` an application that raises at the scope is taken for one that
    does not know it, with ``on`` it has to, with ``off`` it is not asked. `sessions` is as for `serve`. The
    settings are those of `quickset.serve` but for `alpn`.
    """
    life = Lifespan(app)
    if lifespan not in ("auto", "on", "off"):
        raise ValueError(f"lifespan is auto, on or off, and not {lifespan!r}")
    if lifespan != "off":
        await life.begin(needed=lifespan == "on")

    async def handler(request: Request) -> None:
        path, _, query = request.path.partition("?")
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "3",
            "method": request.method,
            "scheme": request.scheme,
            "path": _unquoted(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            # RFC 9114 §4.3.1: what HTTP/1.1 has in this field is `:authority` here.
            "headers": [(b"host", request.authority.encode("latin-1")), *fields],
            "client": request.connection.remote_address,
            "server": None,
            **({"state": life.state.copy()} if life.is_known else {}),
        }
        state = {"ended": False, "begun": False, "finished": False}

        async def receive() -> dict[str, Any]:
            if state["ended"]:
                # Nothing more comes but the end, of which nobody has to be told before the answer is through.
                await request.connection.closed()
                return {"type": "http.disconnect"}
            try:
                body = await request.read()
            except (HttpError, ConnectionClosed):
                state["ended"] = True
                return {"type": "http.disconnect"}
            state["ended"] = not body
            return {"type": "http.request", "body": body, "more_body": bool(body)}

        async def send(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start":
                request.begin(
                    event["status"],
                    [(n.decode("latin-1"), v.decode("latin-1")) for n, v in event.get("headers", ())],
                )
                state["begun"] = True
            elif event["type"] == "http.response.body":
                if event.get("body"):
                    await request.send(event["body"])
                if not event.get("more_body", False):
                    request.finish()
                    state["finished"] = True
            else:
                raise ValueError(f"the event {event['type']} is not known here")

        try:
            await app(scope, receive, send)
        except BaseException:
            if state["begun"] and not state["finished"]:
                request.cancel()
            raise
        if not state["finished"] and not request._tells.told:
            raise RuntimeError("the ASGI application returned without a whole response")

    try:
        server = await serve(handler, host, port, sessions=sessions, **settings)
    except BaseException:
        await life.end()
        raise
    server._farewell = life.end
    return server


async def _handle(handler: HttpHandler, request: Request) -> None:
    try:
        await handler(request)
    except Exception as error:
        if (request.connection.close_reason is not None or request._tells.told) and _is_end(error):
            # The client has gone, or gave the request up, which is no failure of the handler.
            return
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the handler of {request!r} failed", "exception": error}
        )
    finally:
        # Without effect where it was answered.
        request._reply.fail()


async def _response(waits: _native.NativeHttpAnswer) -> Response:
    answer = waits.response()
    # As in `Client.request`.
    del waits
    status, fields, content = await answer if isinstance(answer, Operation) else answer
    return Response(status, as_texts(fields), content)


async def _send(sender: _native.NativeHttpSender, content: Body) -> None:
    try:
        if isinstance(content, AsyncIterable):
            async for piece in content:
                answer = sender.send(piece)
                if isinstance(answer, Operation):
                    await answer
        else:
            answer = sender.send(content)
            if isinstance(answer, Operation):
                await answer
        sender.finish([])
    except (HttpError, ConnectionClosed):
        # The server wants no more of it, or is gone: its answer tells, or why there is none.
        return
    except BaseException:
        sender.cancel(REQUEST_CANCELLED)
        raise


_background: set[asyncio.Task[None]] = set()


def _forget(task: asyncio.Task[None]) -> None:
    _background.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": "the content of a request failed", "exception": error, "task": task}
        )


def _unquoted(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)
