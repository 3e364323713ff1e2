"""Whoever is cancelled loses the waiting and nothing else."""

import asyncio
import random

import pytest
from conftest import pair

import quickset

#: Moments at which a call is cancelled: at once, after some turns of the loop, after a time.
TURNS = [0, 1, 2, 3, 5, 8]


async def cancelled(call, turns):
    """Cancels a call after some turns; returns its result if it was faster."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


@pytest.mark.parametrize("turns", TURNS)
def test_each_call_that_waits_can_be_cancelled_and_made_again(run, turns):
    async def case():
        async with pair() as (client, server):
            for accept in (server.accept_bi, server.accept_uni, server.accept_messages, server.closed):
                assert await cancelled(accept(), turns) is None
            assert await cancelled(server.read_datagram(), turns) is None
            assert await cancelled(server.read_datagrams(), turns) is None

            send, receive = await client.open_bi()
            for read in (receive.read, lambda: receive.read_exactly(5), receive.read_all):
                assert await cancelled(read(), turns) is None
            assert await cancelled(send.finished(), turns) is None
            await send.write(b"question", finish=True)
            back, came = await server.accept_bi()
            assert await came.read_all() == b"question"
            await back.write(b"answer", finish=True)
            assert await receive.read_exactly(6) == b"answer"

            sender = await client.open_messages()
            await sender.send(b"first")
            receiver = await server.accept_messages()
            assert (await receiver.read()).payload == b"first"
            assert await cancelled(receiver.read(), turns) is None
            assert await cancelled(receiver.read_messages(), turns) is None
            assert await cancelled(sender.finished(), turns) is None
            ticket = await sender.send(b"second")
            await cancelled(asyncio.wait_for(ticket.outcome(), 10), turns)
            assert (await receiver.read()).payload == b"second"
            assert await ticket.outcome() == "delivered"

            await client.send_datagram(b"datagram")
            assert await server.read_datagram() == b"datagram"

    run(case)


def test_bytes_are_all_there_however_often_the_reader_is_cancelled(run):
    data = random.Random(5).randbytes(400_000)

    async def case():
        async with pair() as (client, server):

            async def write():
                stream = await client.open_uni()
                for at in range(0, len(data), 1000):
                    await stream.write(data[at : at + 1000])
                    if at % 20_000 == 0:
                        await asyncio.sleep(0.001)
                stream.finish()
                await stream.finished()

            async def read():
                stream, came, cancels, random_ = await server.accept_uni(), [], 0, random.Random(6)
                while sum(map(len, came)) < len(data):
                    left = len(data) - sum(map(len, came))
                    n = random_.randrange(1, 3000)
                    call = stream.read(n) if random_.random() < 0.5 else stream.read_exactly(min(n, left))
                    piece = await cancelled(call, random_.randrange(4))
                    if piece is None:
                        cancels += 1
                    else:
                        came.append(piece)
                # Whoever forgets a stream before its end wants no more of it.
                assert await stream.read() == b""
                return came, cancels

            (came, cancels), _ = await asyncio.gather(read(), write())
            assert b"".join(came) == data
            assert cancels > 10 and len(came) > 10

    run(case)


def test_no_message_is_lost_or_sent_twice(run):
    async def case():
        async with pair() as (client, server):
            sent, came, random_ = set(), [], random.Random(7)

            async def send():
                sender = await client.open_messages()
                for n in range(2000):
                    ticket = await cancelled(sender.send(n.to_bytes(4, "big") * 100), random_.randrange(3))
                    if ticket is not None:
                        sent.add(n)
                sender.finish()

            async def receive():
                receiver = await server.accept_messages()
                while True:
                    call = receiver.read_messages(3) if random_.random() < 0.5 else receiver.read()
                    task = asyncio.ensure_future(call)
                    for _ in range(random_.randrange(3)):
                        await asyncio.sleep(0)
                    task.cancel()
                    try:
                        found = await task
                    except asyncio.CancelledError:
                        continue
                    if not found:
                        return
                    came.extend(found if isinstance(found, list) else [found])

            await asyncio.gather(receive(), send())
            assert sorted(int.from_bytes(m.payload[:4], "big") for m in came) == sorted(sent)
            assert len(sent) > 100

    run(case)


def test_a_cancelled_write_tells_how_far_it_got(run):
    async def case():
        async with pair(send_buffer=100_000) as (client, server):
            stream = await client.open_uni()
            data = random.Random(8).randbytes(100 << 20)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(stream.write(data), 0.3)
            written = stream.written
            assert 0 < written < len(data)
            came = await server.accept_uni()
            assert await came.read_exactly(written) == data[:written]
            await stream.write(b"the rest", finish=True)
            assert await came.read_all() == b"the rest"

    run(case)


def test_a_timeout_frees_the_stream_at_once(run):
    """Although the traceback of the timeout still has the frames of the call."""

    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x")
            try:
                await asyncio.wait_for(receive.read(), 0.01)
            except asyncio.TimeoutError as error:
                back, _ = await server.accept_bi()
                await back.write(b"late")
                assert await receive.read() == b"late"
                assert error.__traceback__ is not None

    run(case)


def test_an_attempt_to_connect_is_given_up(run):
    async def case():
        import socket

        # Somebody is there, and says nothing.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            port = silent.getsockname()[1]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(quickset.connect("127.0.0.1", port, alpn="test/1", insecure=True), 0.2)

    run(case)
