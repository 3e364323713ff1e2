"""How connections end, and what was in flight then."""

import asyncio
import gc
import weakref

import pytest
from conftest import pair, until

import quickset


def test_code_and_reason_arrive_and_all_that_waits_fails(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x")
            sender = await client.open_messages()
            await sender.send(b"x")
            calls = [
                client.accept_bi(),
                client.accept_uni(),
                client.accept_messages(),
                client.read_datagram(),
                client.read_datagrams(),
                receive.read(),
                send.finished(),
                sender.finished(),
            ]
            tasks = [asyncio.ensure_future(call) for call in calls]
            waits = asyncio.ensure_future(client.closed())
            await asyncio.sleep(0.05)
            assert client.close_reason is None and not any(task.done() for task in tasks)
            server.close(7, b"enough")
            for task in tasks:
                with pytest.raises(quickset.ConnectionClosed, match="code 7: enough") as error:
                    await task
                told = error.value
                assert (told.kind, told.code, told.reason) == ("application", 7, b"enough")
                assert isinstance(told, ConnectionError) and isinstance(told, quickset.QuicksetError)
            assert (await waits).code == 7
            assert client.close_reason.code == 7
            assert server.close_reason.kind == "local"
            for call in (client.open_bi(), client.open_messages(), send.write(b"y"), sender.send(b"y")):
                with pytest.raises(quickset.ConnectionClosed):
                    await call
            with pytest.raises(quickset.ConnectionClosed):
                send.finish()
            # Closing again changes nothing.
            client.close(8)
            assert client.close_reason.code == 7

    run(case)


def test_a_connection_that_nobody_has_any_more_ends(run):
    async def case():
        async with await quickset.serve(None, "127.0.0.1", alpn="test/1") as listener:
            client = await quickset.connect(
                "127.0.0.1", listener.port, alpn="test/1", pin=listener.fingerprint
            )
            peer = await listener.accept()
            send, _ = await client.open_bi()
            await send.write(b"x")
            del client
            gc.collect()
            # Its streams keep it.
            assert await (await peer.accept_bi())[1].read() == b"x"
            assert peer.close_reason is None
            del send, _
            gc.collect()
            assert (await peer.closed()).code == 0

    run(case)


def test_what_is_in_flight_may_be_forgotten(run):
    async def case():
        async with await quickset.serve(None, "127.0.0.1", alpn="test/1") as listener:
            client = await quickset.connect(
                "127.0.0.1", listener.port, alpn="test/1", pin=listener.fingerprint
            )
            peer = await listener.accept()
            streams = [await client.open_bi() for _ in range(10)]
            tasks = [asyncio.ensure_future(receive.read()) for _, receive in streams]
            tasks += [asyncio.ensure_future(client.accept_uni()), asyncio.ensure_future(client.closed())]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            seen = weakref.ref(client)
            del client, streams, tasks, task
            # The step of this task that began with the exceptions still has them.
            await asyncio.sleep(0)
            gc.collect()
            assert seen() is None
            assert (await peer.closed()).code == 0

    run(case)


def test_a_loop_that_is_left_with_tasks_that_wait(run):
    """Tasks that nobody cancelled go with their loop, and the connection with them."""
    told = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    async def begin():
        server = await quickset.serve(None, "127.0.0.1", alpn="test/1")
        client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
        task = asyncio.ensure_future(client.accept_uni())
        await asyncio.sleep(0)
        return server, weakref.ref(client), weakref.ref(task)

    server, client, task = loop.run_until_complete(begin())
    loop.close()
    assert task() is not None
    del loop
    gc.collect()
    assert task() is None and client() is None
    with pytest.raises(RuntimeError):
        asyncio.run(server.accept())


def test_handlers(run):
    async def case():
        failures = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

        async def handler(connection):
            send, receive = await connection.accept_bi()
            question = await receive.read_all()
            if question == b"fail":
                raise LookupError("no such thing")
            await send.write(b"answer to " + question, finish=True)

        async with await quickset.serve(handler, "127.0.0.1", alpn="test/1") as server:

            async def ask(question):
                async with await quickset.connect(
                    "127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint
                ) as connection:
                    send, receive = await connection.open_bi()
                    await send.write(question, finish=True)
                    return await receive.read_all()

            # What a handler has written when it returns still arrives.
            big = b"x" * 3_000_000
            assert await ask(big) == b"answer to " + big
            with pytest.raises(quickset.ConnectionClosed, match="the handler failed") as error:
                await ask(b"fail")
            assert error.value.code == quickset.HANDLER_FAILED
            assert [type(failure["exception"]) for failure in failures] == [LookupError]
            # A client that goes away is no failure of the handler.
            client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
            client.close()
            await until(lambda: server.connections == 0)
        assert len(failures) == 1

    run(case)


def test_a_server_that_closes_says_so(run):
    async def case():
        server = await quickset.serve(None, "127.0.0.1", alpn="test/1")
        client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
        peer = await server.accept()
        waits = asyncio.ensure_future(server.accept())
        await asyncio.sleep(0)
        server.close(3, b"over")
        assert await waits is None
        assert [connection async for connection in server] == []
        assert (await client.closed()).code == 3
        assert peer.close_reason.kind == "local"
        await server.wait_closed()
        assert server.connections == 0

    run(case)


def test_a_handler_that_never_returns_is_cancelled(run):
    async def case():
        begun, ends = asyncio.Event(), []

        async def handler(connection):
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                ends.append(connection.close_reason.kind)

        async with await quickset.serve(handler, "127.0.0.1", alpn="test/1") as server:
            client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
            await begun.wait()
            assert client.close_reason is None
        assert ends == ["local"]

    run(case)


def test_silence_ends_a_connection(run):
    async def case():
        async with pair(idle_timeout=0.3) as (client, _):
            closed = await client.closed()
            assert closed.kind == "timeout" and "does not answer" in str(closed)

    run(case)
