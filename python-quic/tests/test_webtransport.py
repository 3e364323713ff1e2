"""WebTransport: sessions with streams and datagrams, on both sides."""

import asyncio
import gc
import hashlib
import ssl
from contextlib import asynccontextmanager

import pytest
from conftest import until

import quickset
from quickset import http3, webtransport


@asynccontextmanager
async def served(handler, path="/", **how):
    """A session with a handler."""
    server = await webtransport.serve(handler, "127.0.0.1", 0)
    async with server:
        session = await webtransport.connect("127.0.0.1", server.port, path, pin=server.fingerprint, **how)
        async with session:
            yield session, server


async def echo(request):
    """Streams and datagrams go back, as long as the session lasts."""
    session = request.accept(protocol=request.protocols[0] if request.protocols else None)

    async def both():
        while True:
            send, receive = await session.accept_bi()
            async for piece in receive:
                await send.write(piece)
            send.finish()

    async def one_way():
        while True:
            receive = await session.accept_uni()
            send = await session.open_uni()
            await send.write(await receive.read_all(), finish=True)

    async def datagrams():
        while True:
            session.send_datagram(await session.read_datagram())

    await asyncio.gather(both(), one_way(), datagrams())


def test_streams_and_datagrams_both_ways(run):
    data = bytes(range(256)) * 5000

    async def case():
        async with served(echo, protocols=["echo/2", "echo/1"]) as (session, _):
            assert session.protocol == "echo/2"
            send, receive = await session.open_bi()

            async def ask():
                await send.write(data)
                await send.write(b"the end", finish=True)

            asking = asyncio.ensure_future(ask())
            assert await receive.read_all() == data + b"the end"
            await asking
            out = await session.open_uni()
            await out.write(b"one way", finish=True)
            back = await session.accept_uni()
            assert [piece async for piece in back] == [b"one way"]
            assert session.max_datagram >= 1000
            session.send_datagram(b"datagram")
            session.send_datagram(b"")
            assert await session.read_datagram() == b"datagram"
            assert await session.read_datagram() == b""
            with pytest.raises(quickset.TooLong) as error:
                session.send_datagram(bytes(100_000))
            assert error.value.max == session.max_datagram

    run(case)


def test_a_request_is_seen_and_may_be_declined(run):
    seen = []

    async def handler(request):
        seen.append((request.path, request.authority, request.origin, request.header("X-Asked")))
        if request.path == "/not-here":
            request.decline(403, {"x-why": "no"})
        elif request.path != "/silent":
            with pytest.raises(ValueError, match="2xx"):
                request.decline(204)
            with pytest.raises(quickset.HttpError, match="offered"):
                request.accept(protocol="other/1")
            request.accept(headers={"x-told": "yes"})
            with pytest.raises(quickset.HttpError, match="answered"):
                request.accept()

    async def case():
        async with await webtransport.serve(handler, "localhost", 0) as server:

            async def begin(path):
                how = {"headers": {"origin": "https://page.example", "x-asked": "1"}}
                return await webtransport.connect(
                    "localhost", server.port, path, pin=server.fingerprint, protocols=["a/1"], **how
                )

            for path, status in (("/not-here", 403), ("/silent", 404)):
                with pytest.raises(quickset.SessionDeclined) as error:
                    await begin(path)
                assert error.value.status == status and isinstance(error.value, quickset.HttpError)
            session = await begin("/there?x=1")
            assert session.protocol is None
            session.close()
            authority = f"localhost:{server.port}"
            assert seen[-1] == ("/there?x=1", authority, "https://page.example", "1")

            # What is no session gets 404, and without sessions there are none.
            async with await http3.connect("localhost", server.port, pin=server.fingerprint) as client:
                assert (await client.get("/")).status == 404
                with pytest.raises(quickset.HttpError):
                    await client.session("/")

    run(case)


def test_how_sessions_and_streams_end(run):
    endings, failures = [], []

    async def handler(request):
        session = request.accept()
        if request.path == "/fail":
            raise LookupError("no such thing")
        send, receive = await session.accept_bi()
        with pytest.raises(quickset.StreamReset) as error:
            await receive.read_all()
        endings.append(error.value.code)
        with pytest.raises(quickset.StreamStopped) as error:
            while True:
                await send.write(bytes(10_000))
        endings.append(error.value.code)
        await session.draining()
        session.drain()
        endings.append(await session.closed())
        with pytest.raises(quickset.SessionClosed):
            await session.accept_bi()

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with served(handler) as (session, server):
            send, receive = await session.open_bi()
            await send.write(b"x")
            send.reset(77)
            assert await receive.read(10)
            receive.stop(78)
            session.drain()
            await session.draining()
            session.close(7, "that was all")
            ending = await session.closed()
            assert (ending.code, ending.reason) == (7, "that was all")
            with pytest.raises(quickset.SessionClosed, match="that was all"):
                await session.open_uni()
            with pytest.raises(quickset.SessionClosed):
                session.send_datagram(b"late")
            await until(lambda: len(endings) == 3)
            assert endings[:2] == [77, 78]
            assert (endings[2].code, endings[2].reason) == (7, "that was all")

            failing = await webtransport.connect("127.0.0.1", server.port, "/fail", pin=server.fingerprint)
            ending = await failing.closed()
            assert (ending.code, ending.reason) == (quickset.HANDLER_FAILED, "the handler failed")
        assert [type(failure["exception"]) for failure in failures] == [LookupError]
        # With the connection goes the session.
        assert (await failing.connection.closed()).kind == "application"

    run(case)


def test_a_server_of_pages_and_sessions(run):
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    async def case():
        server = await http3.serve_asgi(app, "127.0.0.1", 0, sessions=echo)
        client = await http3.connect("127.0.0.1", server.port, pin=server.fingerprint, sessions=True)
        async with server, client:
            assert await (await client.get("/")).read_all() == b"page"
            session = await client.session("/echo")
            session.send_datagram(b"beside pages")
            assert await session.read_datagram() == b"beside pages"
            assert await (await client.get("/")).read_all() == b"page"
            # One at a time; after the end there may be another one.
            with pytest.raises(quickset.HttpError):
                await client.session("/echo")
            session.close()
            while True:
                try:
                    session = await client.session("/echo")
                    break
                except quickset.HttpError:
                    await asyncio.sleep(0.001)
            session.send_datagram(b"again")
            assert await session.read_datagram() == b"again"

    run(case)


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_who_is_cancelled_loses_nothing(run, turns):
    async def cancelled(call):
        task = asyncio.ensure_future(call)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    async def case():
        async with served(echo) as (session, _):
            for wait in (session.accept_bi, session.accept_uni, session.read_datagram, session.closed):
                assert await cancelled(wait()) is None
            assert await cancelled(session.draining()) is None
            send, receive = await session.open_bi()
            assert await cancelled(receive.read()) is None
            waits = asyncio.ensure_future(receive.read())
            await asyncio.sleep(0)
            with pytest.raises(quickset.BusyError):
                await receive.read()
            await send.write(b"question", finish=True)
            assert await waits + await receive.read_all() == b"question"
            with pytest.raises(quickset.StreamEnded):
                await send.write(b"more")

    run(case)


def test_what_nobody_has_any_more_is_given_up(run):
    came = asyncio.Queue()

    async def handler(request):
        session = request.accept()
        while True:
            came.put_nowait(await session.accept_uni())

    async def case():
        async with served(handler) as (session, _):
            stream = await session.open_uni()
            await stream.write(b"half")
            receive = await came.get()
            assert await receive.read() == b"half"
            del stream
            gc.collect()
            with pytest.raises(quickset.StreamReset):
                await receive.read()

    run(case)


def test_a_certificate_for_browsers():
    identity = quickset.Identity.for_browsers("localhost")
    der = ssl.PEM_cert_to_DER_cert(identity.certificate_pem)
    assert identity.certificate_hash == hashlib.sha256(der).digest()
    with pytest.raises(ValueError, match="one name"):
        quickset.Identity.for_browsers()
