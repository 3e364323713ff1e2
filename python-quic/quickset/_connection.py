"""Connections."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from quickset._native import Operation
from quickset._streams import Data, MessageReceiver, MessageSender, ReceiveStream, SendStream

if TYPE_CHECKING:
    from quickset import _native
    from quickset._errors import ConnectionClosed


class Connection:
    """A QUIC connection. It ends when it is closed, or when the last reference to it and to its streams is
    gone. As an asynchronous context manager it is closed at the end of the block, at once: await
    `SendStream.finished` before where the peer has not answered what was sent last.

    Use it in the event loop in which it was made. `close` may be called from any thread.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _native.NativeConnection) -> None:
        self._native = native

    # Streams of bytes

    async def open_bi(self) -> tuple[SendStream, ReceiveStream]:
        """Opens a stream that both sides send on. It waits until the peer allows one more. The peer learns of
        it with its first bytes."""
        answer = self._native.open_bi()
        if isinstance(answer, Operation):
            answer = await answer
        send, receive = answer
        return SendStream(send), ReceiveStream(receive)

    async def open_uni(self) -> SendStream:
        """Opens a stream that only this side sends on."""
        answer = self._native.open_uni()
        return SendStream(await answer if isinstance(answer, Operation) else answer)

    async def accept_bi(self) -> tuple[SendStream, ReceiveStream]:
        """Waits for the next stream that the peer opens and that both sides send on."""
        answer = self._native.accept_bi()
        if isinstance(answer, Operation):
            answer = await answer
        send, receive = answer
        return SendStream(send), ReceiveStream(receive)

    async def accept_uni(self) -> ReceiveStream:
        """Waits for the next stream that the peer opens and that only it sends on."""
        answer = self._native.accept_uni()
        return ReceiveStream(await answer if isinstance(answer, Operation) else answer)

    # Streams of messages

    async def open_messages(self) -> MessageSender:
        """Opens a stream of messages that only this side sends on. QUIC does not mark such streams: your
        protocol has to say which carry messages. The peer takes it with `accept_messages`."""
        answer = self._native.open_messages()
        return MessageSender(await answer if isinstance(answer, Operation) else answer)

    async def open_messages_bi(self) -> tuple[MessageSender, MessageReceiver]:
        """Opens a stream of messages that both sides send on."""
        answer = self._native.open_messages_bi()
        if isinstance(answer, Operation):
            answer = await answer
        send, receive = answer
        return MessageSender(send), MessageReceiver(receive)

    async def accept_messages(self) -> MessageReceiver:
        """Waits for the next stream that only the peer sends on, and takes it as one of messages."""
        answer = self._native.accept_messages()
        return MessageReceiver(await answer if isinstance(answer, Operation) else answer)

    async def accept_messages_bi(self) -> tuple[MessageSender, MessageReceiver]:
        """Waits for the next stream that both sides send on, and takes it as one of messages."""
        answer = self._native.accept_messages_bi()
        if isinstance(answer, Operation):
            answer = await answer
        send, receive = answer
        return MessageSender(send), MessageReceiver(receive)

    # Datagrams

    async def send_datagram(self, data: Data) -> None:
        """Sends a datagram: whole, in one packet, once or not at all. It waits while the queue is full."""
        answer = self._native.send_datagram(data)
        if isinstance(answer, Operation):
            await answer

    async def send_datagrams(self, data: Iterable[Data]) -> None:
        """Sends several datagrams, which costs less. If it is cancelled, those that had room were sent."""
        answer = self._native.send_datagrams(list(data))
        if isinstance(answer, Operation):
            await answer

    async def read_datagram(self) -> bytes:
        """Waits for the next datagram. Those that nobody reads in time are dropped for later ones."""
        answer = self._native.read_datagram()
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def read_datagrams(self, n: int = 1024) -> list[bytes]:
        """Waits until there are datagrams, and returns up to `n` of them: many together cost less."""
        answer = self._native.read_datagrams(n)
        if isinstance(answer, Operation):
            return await answer
        return answer

    @property
    def max_datagram(self) -> Optional[int]:
        """The longest datagram that can be sent now; `None` if the peer takes none."""
        return self._native.max_datagram()

    def set_datagram_protection(self, protection: str) -> None:
        """Sets how datagrams are repaired from now on."""
        self._native.set_datagram_protection(protection)

    # The connection itself

    def close(self, code: int = 0, reason: Data = b"") -> None:
        """Ends the connection at once. The peer's application gets `code` and at most 256 bytes of `reason`.

        Data that has not arrived yet is lost: where that matters, await `SendStream.finished` first. This
        does not wait. The peer is told in the background, three times within three probe timeouts in case
        that packets are lost; the end of the interpreter waits for that, a second at most.
        """
        self._native.close(code, reason)

    async def closed(self) -> ConnectionClosed:
        """Waits for the end of the connection, and returns (not raises) the exception that says why."""
        answer = self._native.closed()
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def connected(self) -> None:
        """Waits until the handshake is complete. Without early data it is when the connection is handed
        out."""
        answer = self._native.connected()
        if isinstance(answer, Operation):
            await answer

    @property
    def is_early(self) -> bool:
        """Whether data that is sent or read now is early, since the handshake is not complete. An attacker
        can replay what a client sends early."""
        return self._native.is_early()

    async def accepted_early(self) -> bool:
        """Waits until it is known whether the server took early data. If it did not, all was sent again
        behind the handshake. It is `False` without early data, too."""
        answer = self._native.accepted_early()
        return await answer if isinstance(answer, Operation) else answer

    @property
    def close_reason(self) -> Optional[ConnectionClosed]:
        """Why the connection ended; `None` while it is open."""
        return self._native.close_reason()

    def ping(self) -> None:
        """Sends a PING: it keeps the connection alive and measures the round trip."""
        self._native.ping()

    def stats(self) -> _native.ConnectionStats:
        """What was counted so far."""
        return self._native.stats()

    @property
    def remote_address(self) -> tuple[str, int]:
        """The peer's address and port."""
        return self._native.remote_address()

    @property
    def alpn(self) -> Optional[str]:
        """The application protocol agreed on."""
        return self._native.alpn()

    @property
    def server_name(self) -> Optional[str]:
        """On a server: the name that the client asked for."""
        return self._native.server_name()

    @property
    def peer_fingerprint(self) -> Optional[str]:
        """The fingerprint of the peer's key, ``sha256:…``; `None` if it showed no certificate."""
        return self._native.peer_fingerprint()

    @property
    def is_client(self) -> bool:
        """Whether this is the client's side."""
        return self._native.is_client()

    @property
    def has_fenced_streams(self) -> bool:
        """Whether both sides know fenced streams. Without them messages travel in order."""
        return self._native.has_fenced_streams()

    @property
    def has_fec(self) -> bool:
        """Whether both sides know erasure correction. Without it lost data is sent again, as usual."""
        return self._native.has_fec()

    def set_max_streams(self, *, bi: Optional[int] = None, uni: Optional[int] = None) -> None:
        """Sets how many streams of each kind the peer may have open at a time."""
        if bi is not None:
            self._native.set_max_streams(True, bi)
        if uni is not None:
            self._native.set_max_streams(False, uni)

    def export_keying_material(self, label: bytes, context: bytes, length: int) -> bytes:
        """Key material that only the two ends share (RFC 8446 §7.5)."""
        return self._native.export_keying_material(label, context, length)

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<quickset.Connection {'to' if self.is_client else 'from'} {self.remote_address}>"
