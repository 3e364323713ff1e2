"""One side of what programs in C, Python and Rust say to each other; `cargo xtask languages` plays each with
each. The others are crates/ffi/tests/c/languages.c and crates/quickset/examples/languages.rs.

    peer.py server ADDRESS
    peer.py client ADDRESS FINGERPRINT

The server prints `address …` and `fingerprint …`, and how the connection ended. The client prints `fine: …`
if all was as it should be. Both exit with 0 then. By ALPN `languages/1` the client

1. opens a stream of bytes both ways, sends 300,000 bytes of which number i is the lowest byte of
   31 i + i / 251, and finishes. The server sends back the complement of each.
2. opens a stream of messages both ways, protected by `adaptive:screen`, and sends 100 updates with a fence
   behind each. An update is four parts (kind 1), a position that is of use for 40 ms (kind 2), and something
   whose time is over before it is sent (kind 3). Each begins with kind, update (two bytes, the high one
   first) and the number of the part. The server sends the four bytes of each message back, as a message, with
   a fence between updates.
   No message crosses a fence, either way. Parts all arrive, and what is of kind 3 never does. Each message
   has one outcome, and what is said to have arrived was received.
3. sends twenty datagrams of 1000 bytes, each of its own number, in a packet each. The server sends them
   back, and 15 arrive.
4. closes the connection with code 7 and the reason `done`.
"""

import asyncio
import sys

import quickset

ALPN = "languages/1"
BYTES, UPDATES, PARTS, DATAGRAMS, ANSWERS = 300_000, 100, 4, 20, 15
PART, POSITION, STALE = 1, 2, 3
#: Seconds for all of it.
LIMIT = 60


async def serve(address: str) -> None:
    host, _, port = address.rpartition(":")
    async with await quickset.serve(None, host, int(port), alpn=ALPN) as server:
        print(f"address {host}:{server.port}\nfingerprint {server.fingerprint}", flush=True)
        connection = await server.accept()
        check(connection is not None, "nobody came")
        await answer(connection)
        closed = await connection.closed()
        print(f"closed: {closed}")
        check((closed.code, closed.reason) == (7, b"done"), "the client gave another reason")


async def answer(connection: quickset.Connection) -> None:
    send, receive = await connection.accept_bi()
    question = await receive.read_all()
    await send.write(bytes(byte ^ 0xFF for byte in question), finish=True)

    heard, updates = await connection.accept_messages_bi()
    last, segment = 0, 0
    async for message in updates:
        kind, update, _ = head(message.payload)
        check(kind in (PART, POSITION), "a message whose time was over came")
        check(update >= last and message.segment >= segment, "a message crossed a fence")
        if update > last:
            heard.fence()
        last, segment = update, message.segment
        await heard.send(message.payload[:4])
    heard.finish()
    await heard.finished()

    try:
        while True:
            await connection.send_datagram(await connection.read_datagram())
    except quickset.ConnectionClosed:
        return


async def ask(address: str, pin: str) -> None:
    host, _, port = address.rpartition(":")
    async with await quickset.connect(host, int(port), alpn=ALPN, pin=pin) as connection:
        question = bytes((i * 31 + i // 251) & 255 for i in range(BYTES))
        send, receive = await connection.open_bi()
        await send.write(question, finish=True)
        check(bytes(byte ^ 0xFF for byte in await receive.read_all()) == question, "other bytes came back")

        positions = await show(connection)

        for number in range(DATAGRAMS):
            await connection.send_datagram(bytes([number]) * 1000)
        for _ in range(ANSWERS):
            datagram = await connection.read_datagram()
            check(len(datagram) == 1000 and datagram[0] < DATAGRAMS, "another datagram came")
        connection.close(7, b"done")
        await connection.closed()
    print(f"fine: {positions} of {UPDATES} positions arrived in time")


async def show(connection: quickset.Connection) -> int:
    """Sends the updates, and compares what came of each with what the server says. Returns how many positions
    arrived."""
    updates, heard = await connection.open_messages_bi()
    updates.set_protection("adaptive:screen")
    outcomes, sent = updates.outcomes(), {}
    for update in range(UPDATES):
        for part in range(PARTS):
            ticket = await updates.send(told(PART, update, part) + bytes(900))
            sent[ticket.name] = PART, update, part
        for kind, deadline in ((POSITION, 0.04), (STALE, 0.0)):
            ticket = await updates.send(told(kind, update, 0) + b"x=10 y=20", deadline=deadline)
            sent[ticket.name] = kind, update, 0
        updates.fence()
        await asyncio.sleep(0.002)
    updates.finish()
    arrived = []
    async for ticket, outcome in outcomes:
        name = sent.pop(ticket)
        is_delivered = outcome in ("delivered", "recovered")
        check(name[0] != PART or is_delivered, "a part did not arrive")
        check(name[0] != STALE or outcome == "dropped", "a message whose time was over was sent")
        if is_delivered:
            arrived.append(name)
    check(not sent, "messages have no outcome")

    told_of, last = set(), 0
    async for message in heard:
        name = head(message.payload)
        check(name[1] >= last, "an answer crossed a fence")
        last = name[1]
        check(name not in told_of, "a message came twice")
        told_of.add(name)
    check(told_of.issuperset(arrived), "what arrived was not received")
    check(all(name[0] != STALE for name in told_of), "a message whose time was over was received")
    return sum(name[0] == POSITION for name in arrived)


def told(kind: int, update: int, part: int) -> bytes:
    return bytes([kind, update >> 8, update & 255, part])


def head(message: bytes) -> tuple[int, int, int]:
    check(len(message) >= 4, "a message is too short")
    return message[0], message[1] << 8 | message[2], message[3]


def check(holds: object, otherwise: str) -> None:
    if not holds:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server", address]:
            asyncio.run(asyncio.wait_for(serve(address), LIMIT))
        case ["client", address, pin]:
            asyncio.run(asyncio.wait_for(ask(address, pin), LIMIT))
        case _:
            raise SystemExit("usage: peer.py server ADDRESS | client ADDRESS FINGERPRINT")
