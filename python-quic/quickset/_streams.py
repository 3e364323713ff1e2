"""Streams of bytes and of messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, Optional, Union

from quickset._native import Operation
from quickset._pieces import lines_of

if TYPE_CHECKING:
    from quickset import _native

Data = Union[bytes, bytearray, memoryview]
"""What can be sent. A `bytes` of 8 KiB or more is not copied; the others are, at once."""

OutcomeWord = Literal["delivered", "recovered", "dropped", "abandoned"]
"""What became of a message: the peer has it (``recovered``: by repair), it was dropped before anything of it
was sent, or it was given up later."""


class SendStream:
    """The sending half of a stream of bytes.

    One task at a time uses it; a second one gets `BusyError` while the first waits. When the last reference
    is gone, the stream is finished: what was written is still delivered, as long as the connection lives.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeWriter) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """The id of the stream."""
        return self._native.id

    @property
    def written(self) -> int:
        """How many bytes were written so far. After a cancelled `write` this tells how far it got."""
        return self._native.written()

    async def write(self, data: Data, *, finish: bool = False) -> None:
        """Writes all of `data`, and with `finish` ends the stream behind it.

        It waits while the send buffer is full, so a writer is never far ahead of the network. If it is
        cancelled, a part may have been written: see `written`.
        """
        answer = self._native.write(data, finish)
        if isinstance(answer, Operation):
            await answer

    def finish(self) -> None:
        """Ends the stream behind what was written. It does not wait: see `finished`."""
        self._native.finish()

    async def finished(self) -> None:
        """Waits until the peer has everything, the end included. Call `finish` first."""
        answer = self._native.finished()
        if isinstance(answer, Operation):
            await answer

    def reset(self, code: int = 0) -> None:
        """Gives the stream up: what has not arrived is no longer sent, and the peer is told `code`."""
        self._native.reset(code)

    def flush(self) -> None:
        """Says that the application now waits for an answer, so that protection may add repair."""
        self._native.flush()

    def set_urgency(self, urgency: int) -> None:
        """Sets how urgent the data is: 0 (most) to 7 (least), 3 at first."""
        self._native.set_urgency(urgency)

    def set_protection(self, protection: str) -> None:
        """Sets how the data is protected against loss: ``adaptive:bulk``, ``rs:105/100``, ``none``."""
        self._native.set_protection(protection)

    def __repr__(self) -> str:
        return f"<quickset.SendStream {self.id}>"


class ReceiveStream:
    """The receiving half of a stream of bytes: an asynchronous iterator of what arrives.

    One task at a time uses it. When the last reference is gone before the end was read, the peer is asked to
    send no more. A call that is cancelled has lost no data.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeReader) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """The id of the stream."""
        return self._native.id

    async def read(self, n: int = 1 << 20) -> bytes:
        """Waits for the next bytes: at least 1 and at most `n`. It returns no bytes at the end."""
        answer = self._native.read(n)
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def read_exactly(self, n: int) -> bytes:
        """Reads exactly `n` bytes.

        If the stream ends before, it raises `asyncio.IncompleteReadError` with what there was.
        """
        answer = self._native.read_exactly(n)
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def read_all(self, limit: int = 64 << 20) -> bytes:
        """Reads everything up to the end. It raises `TooLong` for more than `limit` bytes, and these can
        still be read piece by piece."""
        answer = self._native.read_all(limit)
        if isinstance(answer, Operation):
            return await answer
        return answer

    def lines(self, limit: int = 64 << 10) -> AsyncIterator[bytes]:
        """An asynchronous iterator of the lines, without the LF at their ends; the last one may lack it. It
        raises `TooLong` at a line of more than `limit` bytes. It reads ahead: read the rest by it, too."""
        return lines_of(self.read, limit)

    @property
    def is_early(self) -> bool:
        """Whether a part of what was received came before the handshake was complete, so that an attacker may
        have replayed it. Where doing something twice does harm, await `Connection.connected` first, or refuse
        it."""
        return self._native.is_early()

    def stop(self, code: int = 0) -> None:
        """Asks the peer to send no more, with a code for its application. What was not read is lost."""
        self._native.stop(code)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    def __repr__(self) -> str:
        return f"<quickset.ReceiveStream {self.id}>"


class Outcome(NamedTuple):
    """What became of a message."""

    name: _native.TicketName
    """`Ticket.name` of the message."""
    outcome: OutcomeWord
    """See `OutcomeWord`."""


class MessageStats(NamedTuple):
    """How many messages arrived in time, late, or not at all."""

    queued: int
    """Handed over for sending."""
    sent: int
    """Of those: the first byte was sent."""
    on_time: int
    """Arrived by their deadlines, or without one."""
    late: int
    """Arrived later than their deadlines."""
    recovered: int
    """Of those that arrived: some needed repair for it."""
    dropped: int
    """Dropped before anything of them was sent."""
    abandoned: int
    """Given up after a part of them was sent."""


class MessageSender:
    """Sends messages. Each arrives whole; between two fences they arrive in whatever order, and none crosses
    a fence.

    One task at a time uses it. When the last reference is gone, the stream is finished.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeMessageSender) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """The id of the stream."""
        return self._native.id

    async def send(self, message: Data, *, deadline: Optional[float] = None) -> _native.Ticket:
        """Sends a message, and returns a handle that tells what becomes of it.

        With a `deadline`, in seconds from now, the message is of use only until then: if that cannot be met,
        it is not sent, or not again. The call waits while the send buffer is full; if it is cancelled, the
        message was not sent.
        """
        answer = self._native.send(message, deadline)
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def send_messages(self, messages: Iterable[Data], *, deadline: Optional[float] = None) -> None:
        """Sends several messages, which costs less than one by one.

        If it is cancelled, those that had room were sent: see `stats` (``queued``).
        """
        answer = self._native.send_messages(list(messages), deadline)
        if isinstance(answer, Operation):
            await answer

    def fence(self) -> None:
        """Sets a fence: messages sent after it are delivered after all messages sent before it."""
        self._native.fence()

    def set_ordered(self, ordered: bool) -> None:
        """Sets whether each message is followed by a fence, so that all arrive in order."""
        self._native.set_ordered(ordered)

    def set_resend(self, resend: bool) -> None:
        """Sets whether lost messages are sent again, as they are at first. If not, they are abandoned."""
        self._native.set_resend(resend)

    def set_urgency(self, urgency: int) -> None:
        """Sets how urgent the messages are: 0 (most) to 7 (least), 3 at first."""
        self._native.set_urgency(urgency)

    def set_protection(self, protection: str) -> None:
        """Sets how messages are protected against loss: ``adaptive:messages``, ``rs:105/100``, ``none``."""
        self._native.set_protection(protection)

    def flush(self) -> None:
        """Says that the application now waits for an answer, so that protection may add repair."""
        self._native.flush()

    @property
    def unsent(self) -> int:
        """How many bytes of messages wait to be sent, for the first time or again."""
        return self._native.unsent()

    async def drained_to(self, n: int) -> None:
        """Waits until at most `n` bytes are unsent. Make the newest content then."""
        answer = self._native.drained_to(n)
        if isinstance(answer, Operation):
            await answer

    def outcomes(self) -> Outcomes:
        """What becomes of all messages from here on. Take what it tells: with 65,536 outcomes that nobody
        takes, the stream takes no more messages."""
        return Outcomes(self._native.outcomes())

    def stats(self) -> MessageStats:
        """What was counted so far."""
        return MessageStats(*self._native.stats())

    def finish(self) -> None:
        """Ends the stream behind the messages sent so far. It does not wait: see `finished`."""
        self._native.finish()

    async def finished(self) -> None:
        """Waits until the outcome of each message is known and the peer knows of the end."""
        answer = self._native.finished()
        if isinstance(answer, Operation):
            await answer

    def reset(self, code: int = 0) -> None:
        """Gives the stream up: messages that have not arrived are no longer sent."""
        self._native.reset(code)

    def __repr__(self) -> str:
        return f"<quickset.MessageSender {self.id}>"


class Outcomes:
    """An asynchronous iterator of what becomes of messages, in the order in which it is learnt."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeOutcomes) -> None:
        self._native = native

    def __aiter__(self) -> AsyncIterator[Outcome]:
        return self

    async def __anext__(self) -> Outcome:
        answer = self._native.read()
        if isinstance(answer, Operation):
            answer = await answer
        if answer is None:
            raise StopAsyncIteration
        return Outcome(*answer)


class MessageReceiver:
    """Receives messages: an asynchronous iterator of them.

    One task at a time uses it. When the last reference is gone before the end, the peer is asked to send no
    more. A call that is cancelled has lost no message.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.NativeMessageReceiver) -> None:
        self._native = native

    @property
    def id(self) -> int:
        """The id of the stream."""
        return self._native.id

    async def read(self) -> Optional[_native.Message]:
        """Waits for the next message that its fences let pass. It returns `None` after the last one."""
        answer = self._native.read()
        if isinstance(answer, Operation):
            return await answer
        return answer

    async def read_messages(self, n: int = 1024) -> list[_native.Message]:
        """Waits until there are messages, and returns up to `n` of them: many together cost less. It returns
        an empty list after the last one."""
        answer = self._native.read_messages(n)
        if isinstance(answer, Operation):
            return await answer
        return answer

    def stop(self, code: int = 0) -> None:
        """Asks the peer to send no more. Messages that were not read are lost."""
        self._native.stop(code)

    def __aiter__(self) -> AsyncIterator[_native.Message]:
        return self

    async def __anext__(self) -> _native.Message:
        message = await self.read()
        if message is None:
            raise StopAsyncIteration
        return message

    def __repr__(self) -> str:
        return f"<quickset.MessageReceiver {self.id}>"
