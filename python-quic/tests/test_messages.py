"""Messages and datagrams."""

import asyncio

import pytest
from conftest import pair

import quickset


def test_messages_arrive_whole_and_none_crosses_a_fence(run):
    async def case():
        async with pair() as (client, server):
            sender = await client.open_messages()
            await sender.send(b"a")
            await sender.send(b"b" * 40_000)
            sender.fence()
            await sender.send_messages([b"", bytearray(b"c")])
            sender.finish()
            receiver = await server.accept_messages()
            came = [message async for message in receiver]
            assert {m.payload for m in came[:2]} == {b"a", b"b" * 40_000}
            assert {m.payload for m in came[2:]} == {b"", b"c"}
            first, second = came[0].segment, came[3].segment
            assert first < second and [m.segment for m in came] == [first, first, second, second]
            assert all(m.blocked >= 0 for m in came)
            await sender.finished()
            stats = sender.stats()
            assert (stats.queued, stats.sent, stats.on_time, stats.late) == (4, 4, 4, 0)
            assert await receiver.read() is None
            assert await receiver.read_messages() == []

    run(case)


def test_thousands_of_messages_come_in_lists(run):
    async def case():
        async with pair() as (client, server):
            sender, _ = await client.open_messages_bi()

            async def send():
                for n in range(50):
                    await sender.send_messages([(n * 100 + k).to_bytes(4, "big") * 250 for k in range(100)])
                sender.finish()

            async def receive():
                _, receiver = await server.accept_messages_bi()
                lists = []
                while found := await receiver.read_messages(64):
                    lists.append([m.payload for m in found])
                return lists

            lists, _ = await asyncio.gather(receive(), send())
            assert max(map(len, lists)) <= 64
            numbers = sorted(int.from_bytes(m[:4], "big") for found in lists for m in found)
            assert numbers == list(range(5000))
            assert all(m == m[:4] * 250 for found in lists for m in found)

    run(case)


def test_what_becomes_of_messages_is_told(run):
    async def case():
        async with pair() as (client, server):
            sender = await client.open_messages()
            outcomes = sender.outcomes()
            kept = await sender.send(b"kept")
            # Of use for no time at all.
            late = await sender.send(b"late", deadline=0.0)
            receiver = await server.accept_messages()
            assert (await receiver.read()).payload == b"kept"
            assert await kept.outcome() == "delivered"
            assert await late.outcome() in ("dropped", "abandoned")
            sender.finish()
            told = {outcome.name: outcome.outcome async for outcome in outcomes}
            assert told == {kept.name: "delivered", late.name: await late.outcome()}
            assert kept.name < late.name and kept.name != late.name
            assert kept.supersede() is False
            stats = sender.stats()
            assert (stats.on_time, stats.dropped + stats.abandoned) == (1, 1)

    run(case)


def test_settings_of_a_stream(run):
    async def case():
        async with pair(protection="rs:105/100") as (client, server):
            assert client.has_fec and client.has_fenced_streams
            sender = await client.open_messages()
            sender.set_protection("rs:3/2")
            sender.set_urgency(0)
            sender.set_ordered(True)
            sender.set_resend(False)
            await sender.send_messages([bytes([n]) * 1000 for n in range(100)])
            sender.flush()
            sender.finish()
            receiver = await server.accept_messages()
            came = [message.payload[0] async for message in receiver]
            assert came == list(range(100))
            # Half a symbol for each.
            assert client.stats().repairs_sent > 0
            await sender.drained_to(0)
            assert sender.unsent == 0
            for wrong in ("", "rs", "no such thing", "rs:1/2"):
                with pytest.raises(ValueError):
                    sender.set_protection(wrong)
            for wrong in (8, 255):
                with pytest.raises(ValueError, match=r"0 \(most\) to 7"):
                    sender.set_urgency(wrong)

    run(case)


def test_a_message_longer_than_the_peer_takes(run):
    async def case():
        async with pair(max_message=2000) as (client, server):
            sender = await client.open_messages()
            with pytest.raises(quickset.TooLong, match="2000 bytes") as error:
                await sender.send(bytes(2001))
            assert error.value.max == 2000
            await sender.send(bytes(2000))
            receiver = await server.accept_messages()
            assert len((await receiver.read()).payload) == 2000
            receiver.stop(9)
            with pytest.raises(quickset.StreamStopped, match="code 9"):
                while True:
                    await sender.send(bytes(2000))

    run(case)


def test_bytes_are_no_messages(run):
    async def case():
        async with pair() as (client, server):
            stream = await client.open_uni()
            await stream.write(b"\xff" * 100, finish=True)
            receiver = await server.accept_messages()
            with pytest.raises(quickset.MalformedMessages, match="messages"):
                await receiver.read()
            assert await receiver.read() is None
            sender = await client.open_messages()
            await sender.send(b"a message")
            came = await server.accept_uni()
            with pytest.raises(quickset.MalformedMessages, match="messages"):
                await came.read()

    run(case)


def test_datagrams(run):
    async def case():
        async with pair() as (client, server):
            await client.send_datagram(b"one")
            assert await server.read_datagram() == b"one"
            await server.send_datagrams([bytes([n]) * 100 for n in range(50)])
            came = []
            while len(came) < 50:
                some = await client.read_datagrams(7)
                assert 1 <= len(some) <= 7
                came += some
            assert came == [bytes([n]) * 100 for n in range(50)]
            longest = client.max_datagram
            assert longest is not None and longest > 1000
            with pytest.raises(quickset.TooLong) as error:
                await client.send_datagram(bytes(70_000))
            assert error.value.max >= longest
            client.set_datagram_protection("rs:3/2")
            assert server.stats().datagrams_sent == 50
            assert client.stats().datagrams_received == 50

    run(case)
