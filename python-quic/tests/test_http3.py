"""HTTP/3."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from conftest import until

import quickset
from quickset import http3


@asynccontextmanager
async def served(handler, *, asgi=False):
    begin = http3.serve_asgi if asgi else http3.serve
    server = await begin(handler, "127.0.0.1", 0)
    client = await http3.connect("127.0.0.1", server.port, pin=server.fingerprint)
    async with server, client:
        yield client, server


def test_requests_and_responses(run):
    async def handler(request):
        assert (request.scheme, request.header("X-Asked")) == ("https", "yes")
        assert request.authority.startswith("127.0.0.1:")
        body = await request.read_all()
        content = f"{request.method} {request.path} ".encode() + body
        await request.respond(201, content, {"Content-Type": "text/plain", "x-length": str(len(body))})

    async def case():
        async with served(handler) as (client, _):
            asked = {"x-asked": "yes"}
            response = await client.get("/tea?hot=1", headers=asked)
            assert response.status == 201
            assert response.header("content-type") == "text/plain"
            assert ("x-length", "0") in response.headers
            assert await response.read_all() == b"GET /tea?hot=1 "
            with pytest.raises(quickset.TooLong, match="14 bytes"):
                await (await client.get("/tea?hot=1", headers=asked)).read_all(14)
            big = bytes(range(256)) * 20_000
            response = await client.post("/up", big, headers=[("x-asked", "yes")])
            assert response.header("x-length") == str(len(big))
            assert await response.read_all() == b"POST /up " + big

            async def pieces():
                for n in range(10):
                    yield bytes([n]) * 1000
                    await asyncio.sleep(0)

            response = await client.put("/up", pieces(), headers=asked)
            assert (await response.read_all())[8:] == b"".join([bytes([n]) * 1000 for n in range(10)])
            many = [client.get(f"/{n}", headers=asked) for n in range(200)]
            for n, response in enumerate(await asyncio.gather(*many)):
                assert await response.read_all() == f"GET /{n} ".encode()

    run(case)


def test_streams_both_ways_at_once_with_trailers(run):
    async def handler(request):
        request.inform(103, {"link": "</style.css>; rel=preload"})
        request.begin(200)
        async for piece in request:
            await request.send(piece.upper())
        request.finish({"x-end": "there"})

    async def case():
        async with served(handler) as (client, _):
            questions = asyncio.Queue()

            async def ask():
                while (question := await questions.get()) is not None:
                    yield question

            response = await client.post("/", ask())
            for word in (b"one", b"two", b"three"):
                await questions.put(word)
                assert await response.read() == word.upper()
            await questions.put(None)
            assert await response.read() == b""
            assert response.trailers == [("x-end", "there")]

    run(case)


def test_parts_of_any_length_and_a_reader_that_is_cancelled(run):
    data = bytes(range(251)) * 4000

    async def handler(request):
        await request.respond(200, data)

    async def case():
        async with served(handler) as (client, _):
            response, came, n = await client.get("/"), b"", 0
            while len(came) < len(data):
                n = n * 7 % 5003 + 1
                task = asyncio.ensure_future(response.read(n))
                await asyncio.sleep(0)
                task.cancel()
                try:
                    piece = await task
                except asyncio.CancelledError:
                    continue
                assert 1 <= len(piece) <= n
                came += piece
            assert came == data and await response.read() == b""

    run(case)


def test_what_fails(run):
    failures = []

    async def handler(request):
        if request.path == "/raise":
            raise LookupError("no such thing")
        if request.path == "/silent":
            return
        if request.path == "/broken":
            request.begin(200, {"content-length": "1000"})
            await request.send(b"x" * 10)
            await asyncio.sleep(0.001)
            request.cancel()
        if request.path == "/reject":
            request.reject()
        if request.path == "/twice":
            await request.respond(204)
            with pytest.raises(quickset.HttpError, match="answered"):
                await request.respond(204)

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with served(handler) as (client, server):
            for path in ("/raise", "/silent", "/reject"):
                with pytest.raises(quickset.HttpError) as error:
                    await client.get(path)
                assert error.value.unprocessed is (path == "/reject")
            assert [type(failure["exception"]) for failure in failures] == [LookupError]
            for n in range(30):
                # Whether or not what came before the reset is read together with it.
                with pytest.raises(quickset.HttpError):
                    response = await client.get("/broken")
                    await asyncio.sleep(n % 3 * 0.002)
                    await response.read_all()
            assert (await client.get("/twice")).status == 204
            for wrong in ("no slash", "/\u20ac", ""):
                with pytest.raises((quickset.HttpError, ValueError)):
                    await client.get(wrong)
            for wrong in ({"bad name": "x"}, {"x": "a\nb"}, {":path": "/"}):
                with pytest.raises((quickset.HttpError, ValueError)):
                    await client.get("/twice", headers=wrong)
            with pytest.raises(ValueError):
                http3.Client(client.connection, "again")
            server.close(0x100, b"over")
            with pytest.raises(quickset.ConnectionClosed):
                await client.get("/twice")

    run(case)
    assert len(failures) == 1


def test_a_request_that_is_cancelled_is_given_up(run):
    ended = asyncio.Event()

    async def handler(request):
        if request.path == "/wait":
            try:
                request.begin(200)
                while True:
                    await request.send(b"x" * 10_000)
            except quickset.HttpError:
                ended.set()
        else:
            await asyncio.Event().wait()

    async def case():
        async with served(handler) as (client, _):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.get("/never"), 0.05)
            response = await client.get("/wait")
            assert await response.read()
            response.stop()
            await ended.wait()

    run(case)


@pytest.mark.parametrize("way", ["content", "answer"])
def test_a_request_is_given_up_although_its_task_is_kept(run, way):
    begun, cancelled, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(request):
        begun.set()
        await cancelled.wait()
        try:
            if way == "content":
                await request.read_all()
            else:
                request.begin(200)
                while True:
                    await request.send(b"x" * 100_000)
        except quickset.HttpError as error:
            assert "H3_REQUEST_CANCELLED" in str(error)
            ended.set()

    async def endless():
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0.01)

    async def case():
        async with served(handler) as (client, _):
            content = endless() if way == "content" else None
            asked = asyncio.ensure_future(client.request("POST", "/", content=content))
            await begun.wait()
            asked.cancel()
            cancelled.set()
            # The task has the exception, and its traceback.
            await asyncio.wait_for(ended.wait(), 10)
            assert asked.cancelled()

    run(case)


@pytest.mark.parametrize("way", ["begin", "respond", "asgi", "read", "late"])
def test_a_request_that_its_client_cancels_is_no_failure(run, way):
    failures, begun, cancelled, ended = [], asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(request):
        try:
            if way == "late":
                begun.set()
                await cancelled.wait()
            if way == "read":
                begun.set()
                await request.read_all()
            elif way == "respond":
                begun.set()
                await request.respond(200, b"x" * 50_000_000)
            else:
                request.begin(200)
                begun.set()
                while True:
                    await request.send(b"x" * 100_000)
        except quickset.HttpError as error:
            assert isinstance(error, quickset.HttpCancelled) and error.code == 0x10C
            raise
        finally:
            ended.set()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            raise ValueError("of no lifespan")
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        # It returns without an answer, which nobody waits for.
        ended.set()

    async def endless():
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0.01)

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        is_asgi = way == "asgi"
        async with served(app if is_asgi else handler, asgi=is_asgi) as (client, _):
            content = endless() if way in ("asgi", "read") else None
            asked = asyncio.ensure_future(client.request("POST", "/", content=content))
            await begun.wait()
            if way in ("begin", "respond"):
                (await asked).stop()
            else:
                # The task is kept, and what it kept of the request does not keep that.
                asked.cancel()
                cancelled.set()
            await asyncio.wait_for(ended.wait(), 10)
            # What the handler raised has come to where it would be reported.
            await asyncio.sleep(0.05)

    run(case)
    assert not failures


def test_a_client_that_goes_away_is_no_failure(run):
    failures, begun = [], asyncio.Event()

    async def handler(request):
        request.begin(200)
        begun.set()
        while True:
            await request.send(b"x" * 100_000)

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with served(handler) as (client, server):
            waits = asyncio.ensure_future(client.get("/"))
            await begun.wait()
            await waits
            client.connection.close(0x100)
            await until(lambda: server.connections == 0)

    run(case)
    assert failures == []


def test_asgi(run):
    failures = []

    async def app(scope, receive, send):
        assert (scope["type"], scope["http_version"], scope["scheme"]) == ("http", "3", "https")
        if scope["path"] == "/fail":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            raise LookupError
        body, more = b"", True
        while more:
            event = await receive()
            assert event["type"] == "http.request"
            body, more = body + event["body"], event["more_body"]
        headers = dict(scope["headers"])
        told = [scope["method"], scope["path"], scope["query_string"].decode(), headers[b"host"].decode()]
        await send(
            {"type": "http.response.start", "status": 203, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": " ".join(told).encode() + b" ", "more_body": True})
        await send({"type": "http.response.body", "body": body})

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with served(app, asgi=True) as (client, server):
            response = await client.post("/caf%C3%A9?q=1", b"y" * 100_000)
            assert (response.status, response.header("content-type")) == (203, "text/plain")
            expected = f"POST /café q=1 127.0.0.1:{server.port} "
            assert await response.read_all() == expected.encode() + b"y" * 100_000
            with pytest.raises(quickset.HttpError):
                await (await client.get("/fail")).read_all()
            await until(lambda: len(failures) == 1)

    run(case)
    assert type(failures[0]["exception"]) is LookupError
