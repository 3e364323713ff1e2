"""Threads, loops, forks, and the end of the interpreter."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from conftest import pair

import quickset


def test_another_loop_is_an_error(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            errors = []

            def elsewhere():
                for call in (client.open_uni, client.read_datagram, receive.read, lambda: send.write(b"x")):
                    try:
                        asyncio.run(call())
                    except quickset.WrongLoopError as error:
                        errors.append(error)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
            assert len(errors) == 4 and all("event loop" in str(error) for error in errors)
            # Here it goes on.
            await send.write(b"x", finish=True)
            assert await (await server.accept_bi())[1].read_all() == b"x"
            # Closing is for any thread.
            thread = threading.Thread(target=client.close, args=(5,))
            thread.start()
            assert (await server.closed()).code == 5
            thread.join()

    run(case)
    with pytest.raises(RuntimeError):
        quickset.connect("127.0.0.1", 9, alpn="a/1", insecure=True).send(None)


def test_a_loop_without_add_reader():
    """As on Windows: a thread calls the loop."""

    class Loop(asyncio.SelectorEventLoop):
        def add_reader(self, fd, callback, *args):
            if getattr(callback, "__name__", "") == "answer":
                raise NotImplementedError
            return super().add_reader(fd, callback, *args)

    async def case():
        async with pair() as (client, server):
            for n in range(100):
                send, receive = await client.open_bi()
                await send.write(bytes(n * 1000), finish=True)
                back, came = await server.accept_bi()
                await back.write(await came.read_all(), finish=True)
                assert await receive.read_all() == bytes(n * 1000)

    loop = Loop()
    try:
        loop.run_until_complete(asyncio.wait_for(case(), 30))
    finally:
        loop.close()


def test_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x" * 1_000_000, finish=True)
            back, came = await server.accept_bi()
            waits = asyncio.ensure_future(receive.read())
            assert await came.read_all() == b"x" * 1_000_000
            await back.write(b"y")
            assert await waits == b"y"

    uvloop.run(asyncio.wait_for(case(), 30))


def test_two_loops_in_two_threads():
    results = []

    async def case():
        async with pair() as (client, server):
            send, _ = await client.open_bi()
            await send.write(b"x" * 100_000, finish=True)
            results.append(len(await (await server.accept_bi())[1].read_all()))

    threads = [threading.Thread(target=lambda: asyncio.run(case())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [100_000] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_to_begin_anew(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"before")
            waits = asyncio.ensure_future(receive.read())
            await asyncio.sleep(0)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    code = in_child(client, send)
                finally:
                    os._exit(code)
            _, status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            # The parent did not notice.
            back, came = await server.accept_bi()
            assert await came.read() == b"before"
            await back.write(b"after")
            assert await waits == b"after"

    def in_child(client, send):
        for call in (client.stats, client.close, send.finish, client.ping):
            try:
                call()
                return 2
            except quickset.ForkedError as error:
                if "forked child" not in str(error):
                    return 3

        async def anew():
            try:
                await send.write(b"x")
                return 4
            except quickset.ForkedError:
                pass
            async with pair() as (client, server):
                await client.send_datagram(b"child")
                return 0 if await server.read_datagram() == b"child" else 5

        return asyncio.new_event_loop().run_until_complete(asyncio.wait_for(anew(), 20))

    run(case)


SCRIPT = """
import asyncio, sys, quickset

async def main():
    client = await quickset.connect("127.0.0.1", int(sys.argv[1]), alpn="test/1", insecure=True)
    send, receive = await client.open_bi()
    await send.write(b"hello")
    asyncio.ensure_future(receive.read())
    globals()["kept"] = client, send, receive
    await asyncio.sleep(0.05)
    {last}

{how}
"""


@pytest.mark.parametrize(
    ("last", "how", "code"),
    [
        ("", "asyncio.run(main())", 0),
        ("sys.exit(3)", "asyncio.run(main())", 3),
        # Tasks still wait when the interpreter ends.
        ("", "loop = asyncio.new_event_loop(); loop.run_until_complete(main())", 0),
    ],
)
def test_the_interpreter_ends_in_peace_and_the_peer_hears_of_it(run, tmp_path, last, how, code):
    async def case():
        async with await quickset.serve(None, "127.0.0.1", alpn="test/1") as server:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                SCRIPT.format(last=last, how=how),
                str(server.port),
                stderr=subprocess.PIPE,
                # Where no folder has the name of the package.
                cwd=tmp_path,
            )
            peer = await server.accept()
            closed = await peer.closed()
            assert (closed.kind, closed.code) == ("application", 0)
            _, errors = await process.communicate()
            assert process.returncode == code
            assert b"panicked" not in errors and b"Fatal" not in errors, errors

    run(case)
