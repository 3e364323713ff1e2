"""Sessions of WebTransport with what speaks another language; `cargo xtask languages` plays them. The other
program is crates/quickset/examples/languages.rs.

    sessions.py echo ADDRESS
    sessions.py session ADDRESS FINGERPRINT

The server sends back each stream in both directions on itself, each in one direction on one of its own, and
datagrams with the path and a blank in front. The datagram `end` closes the session with code 42, `as you
say`. Of the protocols that a client speaks it chooses the first. It prints as that of peer.py does.
"""

import asyncio
import sys

from peer import LIMIT, check

from quickset import SessionClosed, webtransport

BYTES, DATAGRAMS, ANSWERS, SIZE = 300_000, 20, 15, 1000


async def echo(request):
    if not request.path.startswith("/echo"):
        request.decline()
        return
    session = request.accept(protocol=request.protocols[0] if request.protocols else None)

    async def back(send, receive):
        async for piece in receive:
            await send.write(piece)
        send.finish()

    async def streams(tasks):
        while True:
            tasks.create_task(back(*await session.accept_bi()))

    async def one_way():
        while True:
            receive = await session.accept_uni()
            await back(await session.open_uni(), receive)

    async def datagrams():
        while True:
            datagram = await session.read_datagram()
            if datagram == b"end":
                session.close(42, "as you say")
            session.send_datagram(request.path.encode() + b" " + datagram)

    try:
        async with asyncio.TaskGroup() as tasks:
            for task in (streams(tasks), one_way(), datagrams()):
                tasks.create_task(task)
    except* SessionClosed:
        print(f"closed: {await session.closed()}", flush=True)


async def send_back(address):
    host, _, port = address.rpartition(":")
    async with await webtransport.serve(echo, host, int(port)) as server:
        print(f"address {host}:{server.port}\nfingerprint {server.fingerprint}", flush=True)
        while server.connections == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while server.connections > 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def visit(address, pin):
    host, _, port = address.rpartition(":")
    how = {"pin": pin, "protocols": ["echo/2", "echo/1"]}
    session = await webtransport.connect(host, int(port), "/echo", **how)
    check(session.protocol == "echo/2", "another protocol was chosen")
    question = bytes(range(251)) * (BYTES // 251)
    send, receive = await session.open_bi()
    answer, _ = await asyncio.gather(receive.read_all(), send.write(question, finish=True))
    check(answer == question, "other bytes came back")
    send = await session.open_uni()
    await send.write(question[:1000], finish=True)
    check(await (await session.accept_uni()).read_all() == question[:1000], "not one way back")
    for number in range(DATAGRAMS):
        session.send_datagram(bytes([number]) * SIZE)
    for _ in range(ANSWERS):
        datagram = await session.read_datagram()
        check(len(datagram) == SIZE + 6 and datagram.startswith(b"/echo "), "another datagram came")
    closing = asyncio.ensure_future(session.closed())
    while not closing.done():
        # It may be lost.
        session.send_datagram(b"end")
        await asyncio.wait([closing], timeout=0.2)
    ending = closing.result()
    check((ending.code, ending.reason) == (42, "as you say"), "it ended in another way")
    session.connection.close(0x100)
    print(f"fine: {ending}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["echo", address]:
            asyncio.run(asyncio.wait_for(send_back(address), LIMIT))
        case ["session", address, pin]:
            asyncio.run(asyncio.wait_for(visit(address, pin), LIMIT))
        case _:
            raise SystemExit("usage: sessions.py echo ADDRESS | session ADDRESS FINGERPRINT")
