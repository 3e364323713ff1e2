"""What goes wrong, as exceptions. Each has a sentence that says what, and where possible what to do."""

from __future__ import annotations

from typing import Optional


class QuicksetError(Exception):
    """The base of all exceptions of this package. (Wrong arguments are `TypeError` or `ValueError`.)"""


class ConnectionClosed(QuicksetError, ConnectionError):
    """The connection is over.

    `kind` says how: ``local`` (this side closed it), ``application`` (the peer's application did, with
    `code` and `reason`), ``peer`` (the peer's transport did, with a code of RFC 9000 §20.1), ``failed`` (the
    peer broke the protocol, or was not trusted), ``timeout``, ``unreachable``, ``reset`` (the peer lost the
    connection), ``version`` (no common version of QUIC), ``abandoned`` or ``other``.
    """

    def __init__(
        self, message: str, kind: str = "other", code: Optional[int] = None, reason: bytes = b""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.reason = reason


class ConnectError(ConnectionClosed):
    """There is no connection. `kind` is as in `ConnectionClosed`, or ``refused`` for what cannot be tried."""


class StreamReset(QuicksetError):
    """The peer gave the stream up with `code`. What was not read is gone."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StreamStopped(QuicksetError):
    """The peer wants no more of the stream, and said so with `code`."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class StreamEnded(QuicksetError):
    """The stream was finished, reset or stopped here."""


class MalformedMessages(QuicksetError):
    """What the peer's application sends on a stream are no messages that can be read."""


class DatagramsUnsupported(QuicksetError):
    """The peer takes no datagrams."""


class TooLong(QuicksetError, ValueError):
    """A message, a datagram or a stream is longer than `max` bytes."""

    def __init__(self, message: str, max: int = 0) -> None:  # noqa: A002
        super().__init__(message)
        self.max = max


class BusyError(QuicksetError, RuntimeError):
    """Another task waits with this half of the stream."""


class WrongLoopError(QuicksetError, RuntimeError):
    """This belongs to another event loop, or no event loop runs in this thread."""


class ForkedError(QuicksetError, RuntimeError):
    """This was made by the parent process. A forked child has to connect or serve anew."""


class HttpError(QuicksetError):
    """A request or a response failed. If `unprocessed`, the server did nothing with the request, and it may
    be made again on another connection."""

    def __init__(self, message: str, unprocessed: bool = False) -> None:
        super().__init__(message)
        self.unprocessed = unprocessed


class HttpCancelled(HttpError):
    """The other side gave its message up, or wants no more of ours, with a `code` of RFC 9114 §8.1."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class LifespanError(QuicksetError):
    """An ASGI application did not start."""


class SessionClosed(QuicksetError, ConnectionError):
    """The session of WebTransport is over, with the `code` and the `reason` of the side that closed it.
    `code` is `None` where a stream tells of it before the session does."""

    def __init__(self, message: str, code: Optional[int] = None, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class SessionDeclined(HttpError):
    """The server answered the request for a session with this `status`."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
