"""Early data: a connection that begins with data, a round trip sooner, and once."""

from contextlib import asynccontextmanager

import pytest
from conftest import slow_path

import quickset
from quickset import http3

#: Seconds each way. What is sent in twice that time after a client has begun is early.
DELAY = 0.1


async def echo(connection):
    """Sends back what comes, and whether it came early."""
    while True:
        send, receive = await connection.accept_bi()
        question = await receive.read_all()
        await send.write(question + (b" early" if receive.is_early else b" late"), finish=True)


async def ask(connection, question):
    send, receive = await connection.open_bi()
    await send.write(question, finish=True)
    return await receive.read_all()


@asynccontextmanager
async def served(**how):
    """A server behind a path that takes its time, and how to connect to it."""
    async with (
        await quickset.serve(echo, "127.0.0.1", alpn="echo/1", **how) as server,
        slow_path(server.port, DELAY) as port,
    ):

        def connect(**settings):
            how = {"alpn": "echo/1", "pin": server.fingerprint, **settings}
            return quickset.connect("127.0.0.1", port, **how)

        yield server, connect


def test_who_was_here_before_begins_with_data(run):
    async def case():
        async with served(early_data=True) as (_, connect):
            known = quickset.KnownServers()
            # Nothing is known of the server yet.
            async with await connect(known_servers=known, early=True) as connection:
                assert not connection.is_early and not await connection.accepted_early()
                assert await ask(connection, b"hello") == b"hello late"
            for n in range(3):
                question = bytes([n]) * 3000
                connection = await connect(known_servers=known, early=True)
                async with connection:
                    assert connection.is_early
                    assert await ask(connection, question) == question + b" early"
                    assert await connection.accepted_early()
                    await connection.connected()
                    assert not connection.is_early
                    assert await ask(connection, b"then") == b"then late"
            # Whoever does not ask for it sends nothing early.
            async with await connect(known_servers=known) as connection:
                assert not connection.is_early
                assert await ask(connection, b"careful") == b"careful late"

    run(case)


def test_a_server_that_takes_none_gets_it_again(run):
    identity = quickset.Identity.self_signed("localhost")

    async def case():
        known = quickset.KnownServers()
        # Two servers by one name: what one gives is nothing to the other.
        async with (
            served(early_data=True, identity=identity) as (_, connect),
            served(early_data=True, identity=identity) as (_, connect_other),
        ):
            # The first one only says that it would resume.
            async with await connect(known_servers=known) as connection:
                assert await ask(connection, b"hello") == b"hello late"
            async with await connect_other(known_servers=known, early=True) as connection:
                assert connection.is_early
                assert await ask(connection, b"again") == b"again late"
                assert not await connection.accepted_early()
            # Other settings have nothing in common with these.
            async with await connect(known_servers=known, early=True, keep_alive=5.0) as connection:
                assert not connection.is_early

    run(case)


def test_nonsense_is_refused(run):
    async def case():
        async with served() as (server, connect):
            with pytest.raises(ValueError, match="known_servers"):
                await connect(early=True)
            with pytest.raises(ValueError):
                await quickset.connect(
                    "127.0.0.1",
                    server.port,
                    alpn=["a/1", "b/1"],
                    insecure=True,
                    known_servers=quickset.KnownServers(),
                    early=True,
                )
            known = quickset.KnownServers()
            for attempt in (
                http3.connect("127.0.0.1", 9, insecure=True, known_servers=known, early=True),
                http3.serve(echo, "127.0.0.1", 0, early_data=True),
            ):
                with pytest.raises(ValueError, match="HTTP/3"):
                    await attempt

    run(case)


def test_an_early_connection_whose_server_is_gone(run):
    async def case():
        how = {"known_servers": quickset.KnownServers(), "early": True, "handshake_timeout": 3.0}
        async with served(early_data=True) as (server, connect):
            async with await connect(**how) as connection:
                await ask(connection, b"hello")
            server.close()
            connection = await connect(**how)
            with pytest.raises(quickset.ConnectionClosed):
                await ask(connection, b"nobody hears it")
            assert not await connection.accepted_early()
            assert (await connection.closed()).kind in ("peer", "timeout", "unreachable")

    run(case)
