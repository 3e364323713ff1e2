"""An ASGI application by HTTP/3, and a client of it.

python web.py                        both in one process
python web.py serve PORT CERT KEY    the server, with a certificate and its key in files of PEM
"""

import asyncio
import sys

from quickset import Identity, http3


async def app(scope, receive, send):
    """Counts what it is sent. Any ASGI application will do, such as one of Starlette or FastAPI."""
    count, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return
        count, more = count + len(event["body"]), event["more_body"]
    text = f"{scope['method']} {scope['path']}: {count} bytes"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text.encode()})


async def pieces(n: int):
    for _ in range(n):
        yield bytes(1000)


async def main() -> None:
    match sys.argv[1:]:
        case ["serve", port, certificates, key]:
            identity = Identity.load(certificates, key)
            await http3.serve_asgi(app, port=int(port), identity=identity)
            await asyncio.Event().wait()
        case _:
            async with await http3.serve_asgi(app, "127.0.0.1", 0) as server:
                pin = server.fingerprint
                async with await http3.connect("127.0.0.1", server.port, pin=pin) as client:
                    response = await client.post("/upload", pieces(1000))
                    print(response.status, (await response.read_all()).decode())


if __name__ == "__main__":
    asyncio.run(main())
