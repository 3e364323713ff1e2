"""Data of no bytes and of 4 GiB, calls from within calls, and processes that end with connections open."""

import gc
import os
import signal
import subprocess
import sys

import pytest
from conftest import pair, until


def test_no_bytes(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            for nothing in (b"", bytearray(), memoryview(b"")):
                await send.write(nothing)
            await send.write(b"", finish=True)
            back, came = await server.accept_bi()
            assert await came.read_all(0) == b""
            assert await came.read_exactly(0) == b"" == await came.read()
            back.finish()
            assert await receive.read() == b""
            sender = await client.open_messages()
            await sender.send_messages([])
            await sender.send_messages([b"", b""])
            receiver = await server.accept_messages()
            assert [(await receiver.read()).payload for _ in range(2)] == [b"", b""]
            await client.send_datagrams([])
            await client.send_datagram(b"")
            assert await server.read_datagram() == b""
            client.close(0, b"")
            assert (await server.closed()).reason == b""

    run(case)


HUGE = """
import asyncio, resource
import quickset

#: The system gives pages of it when they are written, which nobody does.
huge = bytes(1 << 32)

async def main():
    async with await quickset.serve(None, "127.0.0.1", alpn="test/1") as server:
        client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
        peer = await server.accept()
        sender = await client.open_messages()
        for call in (sender.send, client.send_datagram, lambda data: sender.send_messages([data])):
            try:
                await call(huge)
                raise SystemExit("4 GiB were taken")
            except quickset.TooLong as error:
                assert 1000 < error.max < 1 << 30, error.max
        stream = await client.open_uni()
        try:
            await asyncio.wait_for(stream.write(huge), 0.3)
            raise SystemExit("4 GiB were written")
        except asyncio.TimeoutError:
            assert 0 < stream.written < 1 << 28, stream.written
        stream.reset()
        await sender.send(b"fits")
        receiver = await peer.accept_messages()
        assert (await receiver.read()).payload == b"fits"
        reader = await client.open_uni()
        await reader.write(b"short", finish=True)
        while True:
            came = await peer.accept_uni()
            try:
                assert await came.read_all(1 << 40) == b"short"
                break
            except quickset.StreamReset:
                pass
        client.close(1, huge)
        assert (await peer.closed()).reason == bytes(256)
        # In KiB.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20

asyncio.run(asyncio.wait_for(main(), 60))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system has to give memory late")
def test_4_gib(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HUGE], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_deleted_late_may_call_the_connection(run):
    """Long data is kept until it has arrived, and may be a class with a say in its end."""
    told = []

    class Told(bytes):
        def __del__(self):
            told.append(connections[0].stats().sent_bytes)
            connections[0].ping()

    connections = []

    async def case():
        async with pair() as (client, server):
            connections.append(client)
            sender = await client.open_messages()
            await sender.send(b"first")
            receiver = await server.accept_messages()
            for _ in range(20):
                stream = await client.open_uni()
                await stream.write(Told(bytes(100_000)), finish=True)
                await sender.send(Told(bytes(20_000)))
                assert len(await (await server.accept_uni()).read_all()) == 100_000
            for _ in range(21):
                await receiver.read()

            def all_told():
                gc.collect()
                client.ping()
                return len(told) == 40

            await until(all_told)

    run(case)
    assert all(sent > 0 for sent in told)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that signal")
def test_signals_call_the_connection_in_the_middle_of_calls(run):
    times = []

    async def case():
        async with pair() as (client, server):

            def interrupt(*_):
                times.append(client.stats().rtt)
                client.ping()
                server.set_max_streams(bi=100)

            before = signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            try:
                for _ in range(200):
                    send, receive = await client.open_bi()
                    await send.write(bytes(20_000), finish=True)
                    back, came = await server.accept_bi()
                    await back.write(await came.read_all(), finish=True)
                    assert await receive.read_all() == bytes(20_000)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

    run(case)
    assert len(times) > 10


BEGIN = """
import asyncio, atexit, os, sys, threading
import quickset
from quickset import http3, webtransport

kept = []

async def begin():
    \"\"\"A server and a client that do something for ever.\"\"\"
    async def handler(connection):
        while True:
            await connection.send_datagram(await connection.read_datagram())
    server = await quickset.serve(handler, "127.0.0.1", alpn="test/1")
    client = await quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)
    async def ask():
        while True:
            await client.send_datagram(b"x")
            await client.read_datagram()
    kept.extend([server, client, asyncio.ensure_future(ask()), await client.open_bi()])
    await asyncio.sleep(0.05)
"""

ENDS = {
    "run": "asyncio.run(begin())",
    "loop": "loop = asyncio.new_event_loop(); loop.run_until_complete(begin()); kept.append(loop)",
    "exit": """
async def main():
    await begin()
    sys.exit(3)
asyncio.run(main())
""",
    "at once": """
async def main():
    await begin()
    os._exit(3)
asyncio.run(main())
""",
    "thread": """
begun = threading.Event()
async def main():
    await begin()
    begun.set()
    await asyncio.sleep(1000)
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
begun.wait()
""",
    "last words": """
class Last:
    def __del__(self):
        for call in (kept[1].close, kept[0].close, kept[1].stats):
            call()
async def main():
    await begin()
    kept.append(Last())
atexit.register(lambda: kept[1].ping())
asyncio.run(main())
""",
    "sessions": """
async def app(scope, receive, send):
    await asyncio.sleep(1000)
async def sessions(request):
    session = request.accept()
    while True:
        await session.read_datagram()
async def main():
    server = await http3.serve_asgi(app, "127.0.0.1", 0, lifespan="off", sessions=sessions)
    client = await http3.connect("127.0.0.1", server.port, pin=server.fingerprint, sessions=True)
    session = await client.session("/")
    kept.extend([server, client, session, await session.open_bi()])
    kept.append(asyncio.ensure_future(client.get("/")))
    kept.append(asyncio.ensure_future(session.read_datagram()))
    await asyncio.sleep(0.05)
asyncio.run(main())
""",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_process_ends_with_connections_open(how, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", BEGIN + ENDS[how]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == (3 if how in ("exit", "at once") else 0), done.stderr
    # Of tasks and loops that nobody ended asyncio itself may complain.
    complaints = [
        line
        for line in done.stderr.splitlines()
        if line
        and not line.startswith((" ", "Task was", "task:", "source_traceback"))
        and "ResourceWarning" not in line
    ]
    assert complaints == [], done.stderr
