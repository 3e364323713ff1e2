"""Streams of bytes."""

import asyncio
import hashlib
import random

import pytest
from conftest import pair, until

import quickset


def noise(n: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(n)


def test_bytes_arrive_both_ways_and_end(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"there", finish=True)
            back, came = await server.accept_bi()
            assert (send.id, back.id) == (0, 0)
            assert await came.read_all() == b"there"
            await back.write(bytearray(b"and "))
            await back.write(memoryview(b"xback")[1:], finish=True)
            assert await receive.read_all() == b"and back"
            assert await receive.read() == b""
            await send.finished()
            assert send.written == 5
            assert (client.is_client, server.is_client) == (True, False)
            assert client.alpn == server.alpn == "test/1"

    run(case)


def test_a_megabyte_is_the_same_on_the_other_side(run):
    data = noise(5_000_000)

    async def case():
        async with pair() as (client, server):

            async def send():
                stream = await client.open_uni()
                # Above and below what is copied, and across all sizes of packets.
                at, step = 0, 1
                while at < len(data):
                    await stream.write(data[at : at + step])
                    at, step = at + step, min(step * 2, 1 << 20)
                stream.finish()
                await stream.finished()

            async def receive():
                stream, all_of_it = await server.accept_uni(), hashlib.sha256()
                async for piece in stream:
                    all_of_it.update(piece)
                return all_of_it.digest()

            digest, _ = await asyncio.gather(receive(), send())
            assert digest == hashlib.sha256(data).digest()
            assert client.stats().stream_bytes >= len(data)
            assert server.stats().received_bytes > len(data)

    run(case)


def test_parts_of_any_length_are_read_in_order(run):
    data = noise(300_000, 2)

    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(data, finish=True)
            came, pieces, random_ = await server.accept_uni(), [], random.Random(3)
            while len(b"".join(pieces)) < 200_000:
                n = random_.randrange(1, 5000)
                piece = await came.read(n)
                assert 1 <= len(piece) <= n
                pieces.append(piece)
                n = random_.randrange(1, 5000)
                exact = await came.read_exactly(n)
                assert len(exact) == n
                pieces.append(exact)
            assert await came.read_exactly(0) == b""
            rest = await came.read_all()
            assert b"".join(pieces) + rest == data

    run(case)


def test_a_stream_that_ends_too_early_says_what_there_was(run):
    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(b"12345", finish=True)
            with pytest.raises(asyncio.IncompleteReadError) as error:
                await (await server.accept_uni()).read_exactly(6)
            assert (error.value.partial, error.value.expected) == (b"12345", 6)

    run(case)


def test_what_is_longer_than_the_limit_can_still_be_read(run):
    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(b"x" * 5000, finish=True)
            came = await server.accept_uni()
            with pytest.raises(quickset.TooLong, match="longer than 4999 bytes") as error:
                await came.read_all(4999)
            assert error.value.max == 4999
            assert await came.read_all(5000) == b"x" * 5000

    run(case)


def test_lines(run):
    async def case():
        async with pair() as (client, server):
            send, _ = await client.open_bi()
            lines = [b"one", b"", b"x" * 1000, "ä".encode(), b"no end"]
            text = b"\n".join(lines)
            # Cut anywhere, within a line and within a character.
            for at in range(0, len(text), 7):
                await send.write(text[at : at + 7])
                await asyncio.sleep(0)
            send.finish()
            _, receive = await server.accept_bi()
            assert [line async for line in receive.lines()] == lines
            for content, limit in ((b"12345678\n1\n", 7), (b"12345678", 7)):
                send, _ = await client.open_bi()
                await send.write(content, finish=True)
                _, receive = await server.accept_bi()
                with pytest.raises(quickset.TooLong, match="7 bytes"):
                    [line async for line in receive.lines(limit)]
            send, _ = await client.open_bi()
            await send.write(b"whole\n", finish=True)
            _, receive = await server.accept_bi()
            assert [line async for line in receive.lines(5)] == [b"whole"]

    run(case)


def test_a_writer_waits_for_a_slow_reader(run):
    """No more is taken than the buffers of both sides hold, and the rest follows."""

    async def case():
        async with pair(send_buffer=1 << 20) as (client, server):
            stream = await client.open_uni()
            data = bytes(64 << 20)
            writer = asyncio.ensure_future(stream.write(data, finish=True))
            came = await server.accept_uni()
            total = len(await came.read())
            # It stops growing, since nobody reads.
            before = -1
            while (now := client.stats().stream_bytes) != before:
                before = now
                await asyncio.sleep(0.2)
            assert not writer.done() and before < 63 << 20
            async for piece in came:
                total += len(piece)
            assert total == len(data)
            await writer

    run(case)


def test_codes_of_resets_and_stops_arrive(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x")
            back, came = await server.accept_bi()
            assert await came.read() == b"x"
            send.reset(42)
            with pytest.raises(quickset.StreamReset, match="code 42") as reset:
                await came.read()
            assert reset.value.code == 42
            receive.stop(43)
            with pytest.raises(quickset.StreamStopped, match="code 43") as stopped:
                while True:
                    await back.write(b"y" * 1000)
            assert stopped.value.code == 43
            with pytest.raises(quickset.StreamEnded):
                await receive.read()
            with pytest.raises(quickset.StreamEnded):
                await send.write(b"more")

    run(case)


def test_a_stream_that_nobody_has_any_more_is_finished(run):
    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(b"last words")
            del stream
            assert await (await server.accept_uni()).read_all() == b"last words"

    run(case)


def test_one_task_at_a_time(run):
    async def case():
        async with pair() as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x")
            reader = asyncio.ensure_future(receive.read())
            await asyncio.sleep(0)
            with pytest.raises(quickset.BusyError, match="another task"):
                await receive.read()
            with pytest.raises(quickset.BusyError):
                receive.stop()
            back, _ = await server.accept_bi()
            await back.write(b"y")
            assert await reader == b"y"

    run(case)


def test_no_task_keeps_the_loop_for_itself(run):
    """A reader that always finds something lets others have their turns."""

    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(bytes(100_000), finish=True)
            came = await server.accept_uni()
            await until(lambda: server.stats().received_bytes > 100_000)
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(other())
            for _ in range(1000):
                await came.read(1)
            task.cancel()
            assert turns >= 10

    run(case)


def test_many_streams_at_once(run):
    async def case():
        async with pair() as (client, server):

            async def answer():
                for _ in range(300):
                    send, receive = await server.accept_bi()
                    await send.write((await receive.read_all())[::-1], finish=True)

            async def ask(n):
                send, receive = await client.open_bi()
                question = str(n).encode() * 100
                await send.write(question, finish=True)
                assert await receive.read_all() == question[::-1]

            await asyncio.gather(answer(), *(ask(n) for n in range(300)))

    run(case)
