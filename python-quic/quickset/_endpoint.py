"""Clients and servers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Callable, Optional, Union

from quickset import _native
from quickset._connection import Connection
from quickset._errors import ConnectionClosed, HttpCancelled
from quickset._loop import bell
from quickset._native import Operation
from quickset._streams import Data

PathLike = Union[str, "os.PathLike[str]"]
Handler = Callable[[Connection], Awaitable[object]]


class Identity:
    """A chain of certificates with the private key of the first: who a server or a client proves to be."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeIdentity) -> None:
        self._native = native

    @classmethod
    def self_signed(cls, *names: str) -> Identity:
        """A new key, and a certificate that it signs itself, for these host names and IP addresses. Peers
        know it by its `fingerprint`."""
        return cls(_native.NativeIdentity.self_signed(list(names)))

    @classmethod
    def for_browsers(cls, *names: str) -> Identity:
        """As `self_signed`, for thirteen days: browsers take such a certificate for WebTransport if the page
        names its `certificate_hash`."""
        return cls(_native.NativeIdentity.for_browsers(list(names)))

    @classmethod
    def from_pem(cls, certificates: str, key: str) -> Identity:
        """From PEM text: the chain of certificates, its own first, and the private key."""
        return cls(_native.NativeIdentity.from_pem(certificates, key))

    @classmethod
    def load(cls, certificates: PathLike, key: PathLike) -> Identity:
        """From files of PEM."""
        return cls.from_pem(Path(certificates).read_text("ascii"), Path(key).read_text("ascii"))

    @property
    def fingerprint(self) -> str:
        """``sha256:`` and the hash of the public key. A client may pin it."""
        return self._native.fingerprint

    @property
    def certificate_hash(self) -> bytes:
        """The SHA-256 hash of the certificate, which a page gives to ``serverCertificateHashes``."""
        return self._native.certificate_hash

    @property
    def certificate_pem(self) -> str:
        """The chain of certificates as PEM."""
        return self._native.certificate_pem

    @property
    def private_key_pem(self) -> str:
        """The private key as PEM. Keep it in a file that nobody else can read."""
        return self._native.private_key_pem

    def __repr__(self) -> str:
        return f"<quickset.Identity {self.fingerprint}>"


class KnownServers:
    """What a client keeps of servers, so that later connections with the same settings are resumed: their
    handshakes need no certificates, and may carry early data. It lives in memory: of 256 servers, for 4
    connections each, and of 64 different settings."""

    __slots__ = ("_native",)

    def __init__(self) -> None:
        self._native = _native.NativeTickets()


async def connect(
    host: str,
    port: int,
    *,
    alpn: Union[str, Sequence[str]],
    pin: Union[str, Sequence[str], None] = None,
    ca: Optional[PathLike] = None,
    insecure: bool = False,
    server_name: Optional[str] = None,
    identity: Optional[Identity] = None,
    idle_timeout: Optional[float] = None,
    keep_alive: Optional[float] = None,
    handshake_timeout: Optional[float] = None,
    congestion: Optional[str] = None,
    max_message: Optional[int] = None,
    max_streams: Optional[int] = None,
    send_buffer: Optional[int] = None,
    protection: Optional[str] = None,
    known_servers: Optional[KnownServers] = None,
    early: bool = False,
) -> Connection:
    """Connects to a server, once it has proved who it is.

    Which servers are believed: with `pin` the holder of the key with this fingerprint (or of one of several),
    with `ca` whoever has a certificate from the authorities in this file of PEM, with `insecure` anybody (for
    tests), else whoever has one from the authorities that Python's `ssl` trusts on this system.

    `host` may have several addresses: they are tried beside each other, and the first that answers counts.
    `alpn` is the application protocol, or several in order of preference. `server_name` replaces `host` in
    what is asked of the server and checked. `identity` is shown to a server that asks.

    How the connection behaves, each with the default of the library: `idle_timeout`, `keep_alive` and
    `handshake_timeout` in seconds (an idle timeout of 0 is none), `congestion` (``bbr``, ``cubic``,
    ``newreno``), `max_message` (the longest message that this side takes, in bytes), `max_streams` (how many
    the peer may open, of each kind), `send_buffer` (bytes a stream), and `protection` for all streams that
    have none of their own.

    With `known_servers` that earlier connections were made with, this one is resumed. If it is also `early`,
    the connection is returned before the server has answered: what is sent then saves a round trip,
    and **an attacker can send it again**, so it must do no harm when it is done twice.
    `Connection.accepted_early` tells whether the server took it. `early` takes one application protocol.

    It raises `ConnectError`, `OSError` for a name that cannot be resolved, and `ValueError` for arguments
    that mean nothing. If it is cancelled, the attempt is given up.
    """
    loop = asyncio.get_running_loop()
    ours = bell()
    trust = _trust(pin, ca, insecure)
    transport = _transport(
        idle_timeout,
        keep_alive,
        handshake_timeout,
        congestion,
        max_message,
        max_streams,
        send_buffer,
        protection,
    )
    native = identity._native if identity is not None else None
    protocols = _protocols(alpn)
    found = await loop.getaddrinfo(host, _port(port), type=socket.SOCK_DGRAM)
    addresses = [address for info in found for address in _addresses(info[4])]
    name = host if server_name is None else server_name
    if early and known_servers is None:
        raise ValueError("early data is for known_servers: give those of an earlier connection")
    known = None
    if known_servers is not None:
        # A connection is resumed by the settings that it was made with, and by no others.
        shown = None if identity is None else identity.certificate_pem
        settings = hashlib.sha256(repr((trust, protocols, shown, transport)).encode())
        known = known_servers._native, settings.hexdigest()
    answer = _native.connect(ours, addresses, name, trust, (protocols, native), transport, known, early)
    return Connection(await answer if isinstance(answer, Operation) else answer)


class Server:
    """A server: an asynchronous iterator of its connections, if it was made without a handler.

    As an asynchronous context manager it is closed at the end of the block, with all its connections.
    Handlers that have not returned a second later are cancelled.
    """

    def __init__(self, native: _native.NativeServer, identity: Identity, handler: Optional[Handler]) -> None:
        self._native = native
        self._identity = identity
        self._handlers: set[asyncio.Task[None]] = set()
        # What happens once it is closed.
        self._farewell: Optional[Callable[[], Awaitable[None]]] = None
        self._acceptor: Optional[asyncio.Task[None]] = None
        if handler is not None:
            self._acceptor = asyncio.get_running_loop().create_task(self._accept_all(handler))

    @property
    def address(self) -> tuple[str, int]:
        """The address and the port of the socket."""
        return self._native.address()

    @property
    def port(self) -> int:
        """The port of the socket."""
        return self.address[1]

    @property
    def identity(self) -> Identity:
        """Who the server proves to be."""
        return self._identity

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the server's key, which a client may pin."""
        return self._identity.fingerprint

    @property
    def connections(self) -> int:
        """How many connections have not ended."""
        return self._native.connections()

    def set_identity(self, identity: Identity) -> None:
        """Changes who the server proves to be, from the next handshake on."""
        self._native.set_identity(identity._native)
        self._identity = identity

    async def accept(self) -> Optional[Connection]:
        """Waits for the next connection; `None` when the server is closed."""
        answer = self._native.accept()
        if isinstance(answer, Operation):
            answer = await answer
        return None if answer is None else Connection(answer)

    def __aiter__(self) -> AsyncIterator[Connection]:
        return self

    async def __anext__(self) -> Connection:
        connection = await self.accept()
        if connection is None:
            raise StopAsyncIteration
        return connection

    def close(self, code: int = 0, reason: Data = b"") -> None:
        """Closes the server and all its connections at once."""
        self._native.close(code, reason)

    async def wait_closed(self) -> None:
        """Waits until no connection is left, the peers have had time to hear of it, and the handlers have
        returned."""
        await self._wait(None)

    async def _wait(self, patience: Optional[float]) -> None:
        answer = self._native.wait_idle()
        if isinstance(answer, Operation):
            await answer
        tasks = {*self._handlers, *([self._acceptor] if self._acceptor else [])}
        # A handler that waits for its own server does not wait for itself.
        others = [task for task in tasks if task is not asyncio.current_task()]
        if others:
            _, late = await asyncio.wait(others, timeout=patience)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        if self._farewell is not None:
            farewell, self._farewell = self._farewell, None
            await farewell()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
        await self._wait(HANDLERS_PATIENCE)

    async def _accept_all(self, handler: Handler) -> None:
        loop = asyncio.get_running_loop()
        async for connection in self:
            task = loop.create_task(self._handle(handler, connection))
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)

    async def _handle(self, handler: Handler, connection: Connection) -> None:
        try:
            await handler(connection)
            # What the handler sent last is still on its way.
            await connection.closed()
        except asyncio.CancelledError:
            connection.close()
            raise
        except Exception as error:
            if connection.close_reason is not None and _is_end(error):
                # The connection ended, and the handler with it: that is how most end.
                return
            connection.close(HANDLER_FAILED, b"the handler failed")
            asyncio.get_running_loop().call_exception_handler(
                {"message": "the handler of a connection failed", "exception": error}
            )

    def __repr__(self) -> str:
        return f"<quickset.Server on {self.address}>"


HANDLERS_PATIENCE = 1.0
"""Seconds that handlers have to return at the end of a server's block."""
HANDLER_FAILED = 1
"""The code with which a connection is closed whose handler raised an exception."""


async def serve(
    handler: Optional[Handler] = None,
    host: str = "::",
    port: int = 0,
    *,
    alpn: Union[str, Sequence[str]],
    identity: Optional[Identity] = None,
    ask_clients: Optional[bool] = None,
    max_connections: Optional[int] = None,
    idle_timeout: Optional[float] = None,
    keep_alive: Optional[float] = None,
    handshake_timeout: Optional[float] = None,
    congestion: Optional[str] = None,
    max_message: Optional[int] = None,
    max_streams: Optional[int] = None,
    send_buffer: Optional[int] = None,
    protection: Optional[str] = None,
    early_data: bool = False,
) -> Server:
    """Makes a server that takes connections on an address; port 0 is any free port.

    `handler` is a coroutine function that is called with each connection, in a task of its own. When it
    returns, the connection goes on until the client closes it; when it raises, the connection is closed with
    code 1, and the exception goes to the event loop's exception handler. Without a handler the server is an
    asynchronous iterator of connections.

    Without an `identity` it makes one for ``localhost``, whose `Server.fingerprint` clients can pin. With
    `ask_clients` clients are asked for a certificate: `False` lets those pass that have none, `True` does
    not. Any certificate is taken, so look at `Connection.peer_fingerprint`. There are at most
    `max_connections` at a time (10,000 unless told). The other arguments are those of `connect`.

    With `early_data` clients that were here before may send before the handshake is complete, and their
    connections come at once. This server takes early data once, another one or this one after a restart does
    not; see `ReceiveStream.is_early` for what may be a replay all the same.
    """
    loop = asyncio.get_running_loop()
    ours = bell()
    transport = _transport(
        idle_timeout,
        keep_alive,
        handshake_timeout,
        congestion,
        max_message,
        max_streams,
        send_buffer,
        protection,
    )
    if identity is None:
        identity = Identity.self_signed("localhost")
    protocols = _protocols(alpn)
    found = await loop.getaddrinfo(host, _port(port), type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    address = next(address for info in found for address in _addresses(info[4]))
    limits = (ask_clients, max_connections, bool(early_data))
    native = _native.serve(ours, address, identity._native, protocols, limits, transport)
    return Server(native, identity, handler)


def _is_end(error: BaseException) -> bool:
    """Whether nothing went wrong but that a connection ended, or a request, in whatever groups of tasks."""
    parts = getattr(error, "exceptions", None)
    ends = (ConnectionClosed, HttpCancelled)
    return isinstance(error, ends) if parts is None else all(map(_is_end, parts))


def _trust(
    pin: Union[str, Sequence[str], None], ca: Optional[PathLike], insecure: bool
) -> _native.GivenTrust:
    if (pin is not None) + (ca is not None) + bool(insecure) > 1:
        raise ValueError("give one of pin, ca and insecure")
    if pin is not None:
        return {"pins": [pin] if isinstance(pin, str) else list(pin), "roots": None}
    if insecure:
        return {"pins": None, "roots": None}
    if ca is not None:
        return {"pins": None, "roots": Path(ca).read_text("utf-8")}
    context = ssl.create_default_context()
    roots = "".join(ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True))
    if not roots:
        raise ValueError("this system has no certificate authorities; give a file of them as ca, or a pin")
    return {"pins": None, "roots": roots}


def _transport(
    idle_timeout: Optional[float],
    keep_alive: Optional[float],
    handshake_timeout: Optional[float],
    congestion: Optional[str],
    max_message: Optional[int],
    max_streams: Optional[int],
    send_buffer: Optional[int],
    protection: Optional[str],
) -> _native.GivenTransport:
    return {
        "idle_timeout": _seconds("idle_timeout", idle_timeout),
        "keep_alive": _seconds("keep_alive", keep_alive),
        "handshake_timeout": _seconds("handshake_timeout", handshake_timeout),
        "congestion": congestion,
        "max_message": _whole("max_message", max_message),
        "max_bidi_streams": _whole("max_streams", max_streams),
        "max_uni_streams": _whole("max_streams", max_streams),
        "send_buffer": _whole("send_buffer", send_buffer),
        "protection": protection,
    }


def _seconds(name: str, given: Optional[float]) -> Optional[float]:
    if given is not None and not isinstance(given, (int, float)):
        raise TypeError(f"{name} is a number of seconds, not {given!r}")
    return given


def _whole(name: str, given: Optional[int]) -> Optional[int]:
    if given is None:
        return None
    if not isinstance(given, int):
        raise TypeError(f"{name} is a whole number, not {given!r}")
    if not 0 <= given < 1 << 63:
        raise ValueError(f"{name} is a number from 0 to 2**63, not {given}")
    return given


def _protocols(alpn: Union[str, Sequence[str]]) -> list[str]:
    return [alpn] if isinstance(alpn, str) else list(alpn)


def _port(port: int) -> int:
    if not isinstance(port, int) or not 0 <= port < 1 << 16:
        raise ValueError(f"a port is 0 to 65535, not {port!r}")
    return port


def _addresses(address: Sequence[object]) -> list[tuple[str, int]]:
    """An address of getaddrinfo, with its zone if it has one."""
    host, port = str(address[0]), int(str(address[1]))
    zone = int(str(address[3])) if len(address) > 3 else 0
    return [(f"{host.split('%')[0]}%{zone}" if zone else host, port)]
