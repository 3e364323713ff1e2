"""The start and the end of ASGI applications."""

import asyncio

import pytest

import quickset
from quickset import http3


class Application:
    """One that tells what it was told."""

    def __init__(self, how=""):
        self.how, self.told = how, []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            assert scope["state"] == {"database": "open"}
            scope["state"]["mine"] = 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"answer"})
            return
        event = await receive()
        self.told.append(event["type"])
        await asyncio.sleep(0.01)
        if self.how == "cannot":
            await send({"type": "lifespan.startup.failed", "message": "no database"})
            return
        scope["state"]["database"] = "open"
        await send({"type": "lifespan.startup.complete"})
        if self.how == "returns":
            return
        event = await receive()
        self.told.append(event["type"])
        if self.how == "breaks":
            raise LookupError("at the end")
        if self.how == "refuses":
            await send({"type": "lifespan.shutdown.failed", "message": "still busy"})
            return
        await send({"type": "lifespan.shutdown.complete"})


async def serve(app, **how):
    return await http3.serve_asgi(app, "127.0.0.1", 0, **how)


async def ask(server):
    async with await http3.connect("127.0.0.1", server.port, pin=server.fingerprint) as client:
        return await (await client.get("/")).read_all()


@pytest.mark.parametrize("how", ["", "returns", "breaks", "refuses"])
def test_an_application_is_told_of_its_start_and_its_end(run, how):
    failures, app = [], Application(how)

    async def case():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        async with await serve(app, lifespan="on") as server:
            assert app.told == ["lifespan.startup"]
            # What a request does to the state is its own.
            assert [await ask(server) for _ in range(2)] == [b"answer"] * 2
        assert app.told[1:] == ([] if how == "returns" else ["lifespan.shutdown"])

    run(case)
    messages = [str(failure["message"]) for failure in failures]
    assert len(messages) == (how in ("breaks", "refuses"))
    assert how != "refuses" or "still busy" in messages[0]
    assert how != "breaks" or type(failures[0]["exception"]) is LookupError


def test_wait_closed_tells_it_of_the_end_once(run):
    app = Application()

    async def case():
        server = await serve(app)
        server.close()
        await server.wait_closed()
        await server.wait_closed()
        assert app.told == ["lifespan.startup", "lifespan.shutdown"]

    run(case)


def test_one_that_cannot_start(run):
    async def case():
        with pytest.raises(quickset.LifespanError, match="no database"):
            await serve(Application("cannot"))
        with pytest.raises(ValueError, match="auto, on or off"):
            await serve(Application(), lifespan="maybe")
        # A start that is cancelled leaves nothing behind.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(serve(Application()), 0.001)
        # One whose server cannot be made is told of its end.
        app = Application()
        with pytest.raises(ValueError):
            await serve(app, max_message=3)
        assert app.told == ["lifespan.startup", "lifespan.shutdown"]
        assert len(asyncio.all_tasks()) <= 2

    run(case)


def test_one_that_does_not_know_of_it(run):
    async def app(scope, receive, send):
        assert scope["type"] == "http" and "state" not in scope
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"old"})

    async def case():
        for how in ("auto", "off"):
            async with await serve(app, lifespan=how) as server:
                assert await ask(server) == b"old"
        with pytest.raises(quickset.LifespanError, match="does not know"):
            await serve(app, lifespan="on")

    run(case)
