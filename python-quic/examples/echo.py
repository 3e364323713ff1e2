"""A server that sends everything back, and a client that checks it.

python echo.py                                  both in one process
python echo.py serve [PORT]                     the server; it prints its fingerprint
python echo.py ask HOST PORT FINGERPRINT TEXT   the client
"""

import asyncio
import sys

import quickset

ALPN = "echo/1"


async def echo(connection: quickset.Connection) -> None:
    """Answers each stream in a task of its own, until the client closes the connection."""
    async with asyncio.TaskGroup() as tasks:
        while True:
            send, receive = await connection.accept_bi()
            tasks.create_task(answer(send, receive))


async def answer(send: quickset.SendStream, receive: quickset.ReceiveStream) -> None:
    async for data in receive:
        # This waits while the client does not read, and then nothing more is read of it here.
        await send.write(data)
    send.finish()


async def ask(host: str, port: int, pin: str, text: str) -> str:
    async with await quickset.connect(host, port, alpn=ALPN, pin=pin) as connection:
        send, receive = await connection.open_bi()
        await send.write(text.encode(), finish=True)
        return (await receive.read_all()).decode()


async def main() -> None:
    match sys.argv[1:]:
        case ["serve", *port]:
            server = await quickset.serve(echo, port=int(port[0]) if port else 0, alpn=ALPN)
            print(f"port {server.port}, {server.fingerprint}")
            await asyncio.Event().wait()
        case ["ask", host, port, pin, text]:
            print(await ask(host, int(port), pin, text))
        case _:
            async with await quickset.serve(echo, "127.0.0.1", alpn=ALPN) as server:
                print(await ask("127.0.0.1", server.port, server.fingerprint, "hello"))


if __name__ == "__main__":
    asyncio.run(main())
