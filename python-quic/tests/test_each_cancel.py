"""Each coroutine is cancelled at each step that it takes, again and again: nothing leaks, and the connection
goes on."""

import asyncio
import gc
import itertools

import pytest
from conftest import pair, until

import quickset
from quickset import http3, webtransport


async def cancelled_at(call, step):
    """Cancels a call after so many turns of the loop. Returns whether it was sooner ready."""
    task = asyncio.ensure_future(call)
    for _ in range(step):
        await asyncio.sleep(0)
        if task.done():
            break
    else:
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


def waiting():
    """How many calls wait, or are kept by something."""
    gc.collect()
    return sum(type(found).__name__ == "Operation" for found in gc.get_objects())


async def at_each_step(call, goes_on, *, steps=25):
    """Cancels what `call` makes at each step, until it is ready before that, and looks each time whether all
    goes on. Nothing may wait any more then."""
    # Of a request that is cancelled its handler is told, and would log it.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await goes_on()
    always = waiting()
    for _ in range(2):
        for step in range(steps):
            if await cancelled_at(call(), step):
                break
            await goes_on()
        await goes_on()
        # The interpreter keeps the frames of the last exception until there is another one.
        await asyncio.wait_for(until(lambda: waiting() <= always + 1), 10)
    await leaves_nothing(call, goes_on, steps)


async def leaves_nothing(call, goes_on, steps):
    """Cancels so often that an object for each other cancel would be far more than what comes and goes."""
    for round_ in range(2):
        for number in range(CANCELS):
            await cancelled_at(call(), number % steps)
            if number % 20 == 0:
                await goes_on()
        await goes_on()
        if round_ == 0:
            before = alive()
    # The other side may not be done with all of them yet.
    await asyncio.wait_for(until(lambda: alive() < before + CANCELS / 2), 10)


#: More than there are tasks, threads and exceptions that come and go.
CANCELS = 300


def alive():
    """How many objects there are, of those that may be parts of cycles: all that have others."""
    gc.collect()
    return len(gc.get_objects())


async def closes(connect):
    async with await connect():
        pass


CONNECTION = {
    "open_bi": lambda c, s: c.open_bi(),
    "open_uni": lambda c, s: c.open_uni(),
    "open_messages": lambda c, s: c.open_messages(),
    "open_messages_bi": lambda c, s: c.open_messages_bi(),
    "accept_bi": lambda c, s: s.accept_bi(),
    "accept_uni": lambda c, s: s.accept_uni(),
    "accept_messages": lambda c, s: s.accept_messages(),
    "accept_messages_bi": lambda c, s: s.accept_messages_bi(),
    "read_datagram": lambda c, s: s.read_datagram(),
    "read_datagrams": lambda c, s: s.read_datagrams(),
    "send_datagram": lambda c, s: c.send_datagram(b"x"),
    "send_datagrams": lambda c, s: c.send_datagrams([b"x"] * 100),
    "closed": lambda c, s: c.closed(),
}


@pytest.mark.parametrize("name", CONNECTION)
def test_calls_of_a_connection(run, name):
    async def case():
        async with pair(max_streams=10_000) as (client, server):
            turns = itertools.count()

            async def hears(said):
                while await server.read_datagram() != said:
                    pass

            async def goes_on():
                # A datagram can be lost: of a client that gives up so many streams at once the server drops
                # packets as if they were.
                said = b"turn %d" % next(turns)
                heard = asyncio.ensure_future(hears(said))
                while not heard.done():
                    await client.send_datagram(said)
                    await asyncio.wait([heard], timeout=0.1)
                await heard

            async def takes():
                # What is opened and forgotten takes up room until the other side has done with it.
                while True:
                    await getattr(server, name.replace("open", "accept"))()

            taking = [asyncio.ensure_future(takes())] if name.startswith("open") else []
            await at_each_step(lambda: CONNECTION[name](client, server), goes_on)
            for task in taking:
                task.cancel()
                await asyncio.wait([task])
            # What was opened and forgotten has come and gone; streams work, too.
            send, receive = await client.open_bi()
            await send.write(b"question", finish=True)
            while True:
                back, came = await server.accept_bi()
                try:
                    if await came.read_all() == b"question":
                        break
                except quickset.MalformedMessages:
                    continue
            await back.write(b"answer", finish=True)
            assert await receive.read_all() == b"answer"

    run(case)


STREAM = {
    "read": lambda send, receive: receive.read(),
    "read_exactly": lambda send, receive: receive.read_exactly(7),
    "read_all": lambda send, receive: receive.read_all(),
    "write": lambda send, receive: send.write(bytes(1_000_000)),
    "finished": lambda send, receive: send.finished(),
}


@pytest.mark.parametrize("name", STREAM)
def test_calls_of_a_stream(run, name):
    async def case():
        async with pair(send_buffer=100_000) as (client, server):
            send, receive = await client.open_bi()
            await send.write(b"x")
            back, came = await server.accept_bi()

            async def goes_on():
                # What was written of what was cancelled is all there, and nothing else is.
                await came.read_exactly(send.written - goes_on.read)
                goes_on.read = send.written

            goes_on.read = 0
            await at_each_step(lambda: STREAM[name](send, receive), goes_on)
            await send.write(b"end", finish=True)
            assert (await came.read_all())[-3:] == b"end"
            await back.write(b"answer", finish=True)
            assert await receive.read_all() == b"answer"

    run(case)


MESSAGES = {
    "send": lambda sender, receiver: sender.send(b"x"),
    "send_messages": lambda sender, receiver: sender.send_messages([b"x"] * 100),
    "drained_to": lambda sender, receiver: sender.drained_to(0),
    "finished": lambda sender, receiver: sender.finished(),
    "read": lambda sender, receiver: receiver.read(),
    "read_messages": lambda sender, receiver: receiver.read_messages(),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_calls_of_messages(run, name):
    async def case():
        async with pair() as (client, server):
            sender = await client.open_messages()
            await sender.send(b"first")
            receiver = await server.accept_messages()
            numbers = iter(range(1000))

            async def goes_on():
                word = str(next(numbers)).encode()
                ticket = await sender.send(word)
                while (await receiver.read()).payload != word:
                    pass
                assert await ticket.outcome() == "delivered"

            await goes_on()
            await at_each_step(lambda: MESSAGES[name](sender, receiver), goes_on)

    run(case)


def test_connecting_and_accepting(run):
    async def case():
        async with await quickset.serve(None, "127.0.0.1", alpn="test/1") as server:

            def connect():
                return quickset.connect("127.0.0.1", server.port, alpn="test/1", pin=server.fingerprint)

            async def goes_on():
                async with await connect() as client:
                    while True:
                        peer = await server.accept()
                        if peer.close_reason is None and peer.remote_address[1]:
                            stream = await client.open_uni()
                            await stream.write(b"x", finish=True)
                            try:
                                assert await (await peer.accept_uni()).read_all() == b"x"
                                break
                            except quickset.ConnectionClosed:
                                # One whose client was cancelled in the last moment.
                                continue

            # A handshake takes many turns; a connection that came about all the same is closed.
            await at_each_step(lambda: closes(connect), goes_on, steps=60)
            await at_each_step(server.accept, goes_on, steps=10)

    run(case)


async def answers(request):
    body = await request.read_all()
    await request.respond(200, body)


async def echo(request):
    session = request.accept()
    while True:
        send, receive = await session.accept_bi()
        try:
            await send.write(await receive.read_all(), finish=True)
        except (quickset.StreamReset, quickset.StreamStopped, quickset.HttpError):
            # Who asked was cancelled. (An `HttpError` says that both directions are gone.)
            continue


HTTP = {
    "get": lambda client: client.get("/"),
    "post": lambda client: client.post("/", bytes(100_000)),
    "read_all": lambda client: asked(client),
}


async def asked(client):
    return await (await client.post("/", bytes(100_000))).read_all()


@pytest.mark.parametrize("name", HTTP)
def test_requests(run, name):
    async def case():
        server = await http3.serve(answers, "127.0.0.1", 0)
        client = await http3.connect("127.0.0.1", server.port, pin=server.fingerprint)
        async with server, client:

            async def goes_on():
                assert await (await client.post("/", b"on")).read_all() == b"on"

            await goes_on()
            await at_each_step(lambda: HTTP[name](client), goes_on, steps=40)

    run(case)


SESSION = {
    "open_bi": lambda session: session.open_bi(),
    "open_uni": lambda session: session.open_uni(),
    "accept_bi": lambda session: session.accept_bi(),
    "accept_uni": lambda session: session.accept_uni(),
    "read_datagram": lambda session: session.read_datagram(),
    "closed": lambda session: session.closed(),
    "draining": lambda session: session.draining(),
    "asked": lambda session: asked_in(session),
}


async def asked_in(session):
    send, receive = await session.open_bi()
    await send.write(bytes(100_000), finish=True)
    return await receive.read_all()


@pytest.mark.parametrize("name", SESSION)
def test_sessions(run, name):
    async def case():
        server = await webtransport.serve(echo, "127.0.0.1", 0)
        async with server:
            session = await webtransport.connect("127.0.0.1", server.port, pin=server.fingerprint)

            async def goes_on():
                send, receive = await session.open_bi()
                await send.write(b"on", finish=True)
                assert await receive.read_all() == b"on"

            async with session:
                await goes_on()
                await at_each_step(lambda: SESSION[name](session), goes_on, steps=40)

    run(case)
