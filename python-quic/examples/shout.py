"""The program of docs/from/aioquic.md with quickset: a server that answers in capitals what comes on streams
and in datagrams, and a client that asks."""

import asyncio

import quickset

ended = asyncio.Event()


async def serve(connection: quickset.Connection) -> None:
    """Ends with the connection: what waits then raises `ConnectionClosed`, and that is no failure."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ticks(connection))
        tasks.create_task(said(connection))
        while True:
            tasks.create_task(answer(*await connection.accept_bi()))


async def answer(send: quickset.SendStream, receive: quickset.ReceiveStream) -> None:
    await send.write((await receive.read_all()).upper(), finish=True)


async def ticks(connection: quickset.Connection) -> None:
    while True:
        await connection.send_datagram((await connection.read_datagram()).upper())


async def said(connection: quickset.Connection) -> None:
    closed = await connection.closed()
    print("server: the connection ended:", closed.reason.decode())
    ended.set()


async def ask(connection: quickset.Connection, question: bytes) -> bytes:
    send, receive = await connection.open_bi()
    await send.write(question, finish=True)
    return await receive.read_all()


async def main() -> None:
    async with await quickset.serve(serve, "127.0.0.1", alpn="shout/1") as server:
        async with await quickset.connect(
            "127.0.0.1", server.port, alpn="shout/1", pin=server.fingerprint
        ) as client:
            one, other = await asyncio.gather(ask(client, b"live fence"), ask(client, b"of cuttings"))
            assert (one, other) == (b"LIVE FENCE", b"OF CUTTINGS"), (one, other)
            for n in range(1, 4):
                await client.send_datagram(b"tick %d" % n)
            # Each may be lost; here one that comes back is enough.
            tick = await asyncio.wait_for(client.read_datagram(), 5)
            assert tick.startswith(b"TICK "), tick
            print("client:", one, other, tick)
            client.close(0, b"done")
        # The end of the server's block would close this side, too, before it has heard.
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
