"""A client and an echo server by pywebtransport, for sessions with ours:

    main.py client URL
    main.py server CERTIFICATE KEY

The client says "fine" once all it tried went well, and "failed: ..." otherwise. The server says where it listens.
"""

import asyncio
import os
import socket
import ssl
import sys

from pywebtransport import ClientConfig, ServerConfig, WebTransportClient, WebTransportServer

PROTOCOLS = ["echo/2", "echo/1"]


async def read(stream):
    return b"".join([chunk async for chunk in stream])


async def exchange(out, reading, payload):
    """What comes back of a payload."""
    return (await asyncio.gather(out.write_all(data=payload, end_stream=True), reading))[1]


async def read_next(streams):
    return await read(await anext(streams))


async def client(url):
    config = ClientConfig(verify_mode=ssl.CERT_NONE)
    async with WebTransportClient(config=config) as endpoint:
        session = await endpoint.connect(url=url, wt_available_protocols=PROTOCOLS)
        check("the protocol", session.wt_protocol, PROTOCOLS[0])
        payload = os.urandom(300_000)
        both = await session.create_bidirectional_stream()
        check("a stream both ways", await exchange(both, read(both), payload), payload)
        out = await session.create_unidirectional_stream()
        reading = read_next(session.incoming_unidirectional_streams())
        check("a stream one way", await exchange(out, reading, payload), payload)
        await session.send_datagram(data=b"hello")
        check("a datagram", await session.read_datagram(), b"/echo hello")
        await session.close(error_code=7, reason="that was all")


def check(what, found, expected):
    if found != expected:
        raise ValueError(f"{what}: {found[:100]!r}, {len(found)} long")


async def server(certificate, key):
    # It takes no port of 0.
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
    config = ServerConfig(bind_host=host, bind_port=port, certfile=certificate, keyfile=key)
    async with WebTransportServer(config=config) as endpoint:
        await endpoint.listen()
        print(f"{host}:{port}", flush=True)
        async for connection in endpoint.incoming_connections():
            async for session in connection.incoming_sessions():
                offered = session.wt_available_protocols or [None]
                await session.accept(wt_protocol=offered[0])
                await asyncio.gather(streams(session), datagrams(session))


async def streams(session):
    """Sends streams back."""
    async for stream in session.incoming_bidirectional_streams():
        await stream.write_all(data=await read(stream), end_stream=True)


async def datagrams(session):
    """Sends datagrams back; "end" ends the session."""
    while (datagram := await session.read_datagram()) != b"end":
        await session.send_datagram(data=datagram)
    await session.close(error_code=42, reason="as you say")


async def within(seconds, what):
    await asyncio.wait_for(what, seconds)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["client", url]:
            try:
                asyncio.run(within(20, client(url)))
            except Exception as error:
                sys.exit(print(f"failed: {error!r}") or 1)
            print("fine")
        case ["server", certificate, key]:
            asyncio.run(server(certificate, key))
        case _:
            sys.exit(2)
