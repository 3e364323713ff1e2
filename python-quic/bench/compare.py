"""Quickset beside aioquic: two processes over the loopback, the stacks in turns.

    python bench/compare.py [--runs N] [--seconds S]

*bulk* is one stream from the server to the client. *requests* are 1 kB there and 1 kB back on a stream of
their own, 32 at a time. *messages* are 1 kB each from the client to the server: on a fenced stream, and with
aioquic, which has none, one after the other on a stream. The server says how many came.

Each figure is the median of the runs. *CPU* is the time of both processes for the same work, which depends
less on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

KIB = bytes(1024)
BULK, REQUEST, MESSAGES = b"B", b"R", b"M"
ALPN = "bench/1"
AT_A_TIME = 32


class Quickset:
    """Both sides with Quickset."""

    @staticmethod
    async def serve(folder: pathlib.Path) -> int:
        import quickset

        async def one(send, receive):
            with contextlib.suppress(quickset.QuicksetError):
                kind = await receive.read_exactly(1)
                if kind == BULK:
                    data = bytes(1 << 20)
                    while True:
                        await send.write(data)
                elif kind == REQUEST:
                    await receive.read_all()
                    await send.write(KIB, finish=True)

        async def messages(connection):
            """The first stream of all tells what comes."""
            back, receiver = await connection.accept_messages_bi()
            count = 0
            while found := await receiver.read_messages():
                count += len(found)
            await back.send(count.to_bytes(8, "big"))
            back.finish()

        async def handler(connection):
            tasks = set()
            with contextlib.suppress(quickset.ConnectionClosed):
                if (await connection.read_datagram()) == MESSAGES:
                    return await messages(connection)
                while True:
                    task = asyncio.ensure_future(one(*await connection.accept_bi()))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)

        identity = quickset.Identity.load(folder / "cert.pem", folder / "key.pem")
        server = await quickset.serve(handler, "127.0.0.1", alpn=ALPN, identity=identity)
        globals()["server"] = server
        return server.port

    @staticmethod
    @contextlib.asynccontextmanager
    async def connect(port: int, kind: bytes):
        import quickset

        async with await quickset.connect("127.0.0.1", port, alpn=ALPN, insecure=True) as connection:
            await connection.send_datagram(kind)
            yield connection

    @staticmethod
    async def bulk(connection, until: float) -> int:
        send, receive = await connection.open_bi()
        await send.write(BULK, finish=True)
        total = 0
        while time.monotonic() < until:
            total += len(await receive.read())
        return total

    @staticmethod
    async def request(connection) -> None:
        send, receive = await connection.open_bi()
        await send.write(REQUEST + KIB, finish=True)
        assert len(await receive.read_all()) == len(KIB)

    @staticmethod
    async def messages(connection, until: float) -> int:
        sender, receiver = await connection.open_messages_bi()
        some = [KIB] * 64
        while time.monotonic() < until:
            await sender.send_messages(some)
        sender.finish()
        return int.from_bytes((await receiver.read()).payload, "big")


class Aioquic:
    """Both sides with aioquic, with windows as wide as ours begin."""

    @staticmethod
    def configuration(**more):
        from aioquic.quic.configuration import QuicConfiguration

        return QuicConfiguration(alpn_protocols=[ALPN], max_data=12 << 20, max_stream_data=8 << 20, **more)

    @staticmethod
    async def drain(writer) -> None:
        """Waits for room. aioquic has no back-pressure, so this looks into its buffer, and a sender of much
        need not move megabytes with each acknowledgement."""
        protocol, number = writer.transport.protocol, writer.transport.stream_id
        while True:
            stream = protocol._quic._streams.get(number)
            if stream is None or len(stream.sender._buffer) < 1 << 20:
                return
            await asyncio.sleep(0.001)

    @classmethod
    async def serve(cls, folder: pathlib.Path) -> int:
        from aioquic.asyncio import serve

        async def one(reader, writer):
            kind = await reader.readexactly(1)
            if kind == BULK:
                data = bytes(64 << 10)
                while True:
                    writer.write(data)
                    await cls.drain(writer)
            elif kind == REQUEST:
                await reader.read()
                writer.write(KIB)
                writer.write_eof()
            else:
                count = 0
                with contextlib.suppress(asyncio.IncompleteReadError):
                    while True:
                        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                        count += 1
                writer.write(count.to_bytes(8, "big"))
                writer.write_eof()

        tasks = set()

        def begun(reader, writer):
            task = asyncio.ensure_future(one(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        configuration = cls.configuration(is_client=False)
        configuration.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        server = await serve("127.0.0.1", 0, configuration=configuration, stream_handler=begun)
        globals()["server"] = server
        return server._transport.get_extra_info("sockname")[1]

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, port: int, kind: bytes):
        import ssl

        from aioquic.asyncio import connect

        configuration = cls.configuration(is_client=True)
        configuration.verify_mode = ssl.CERT_NONE
        async with connect("127.0.0.1", port, configuration=configuration) as connection:
            yield connection

    @staticmethod
    async def bulk(connection, until: float) -> int:
        reader, writer = await connection.create_stream()
        writer.write(BULK)
        writer.write_eof()
        total = 0
        while time.monotonic() < until:
            total += len(await reader.read(1 << 20))
        return total

    @staticmethod
    async def request(connection) -> None:
        reader, writer = await connection.create_stream()
        writer.write(REQUEST + KIB)
        writer.write_eof()
        assert len(await reader.read()) == len(KIB)

    @classmethod
    async def messages(cls, connection, until: float) -> int:
        reader, writer = await connection.create_stream()
        writer.write(MESSAGES)
        message = len(KIB).to_bytes(4, "big") + KIB
        while time.monotonic() < until:
            for _ in range(64):
                writer.write(message)
            await cls.drain(writer)
        writer.write_eof()
        return int.from_bytes(await reader.read(), "big")


STACKS = {"quickset": Quickset, "aioquic": Aioquic}
KINDS = {"bulk": BULK, "requests": REQUEST, "messages": MESSAGES}


async def serve(stack: str, folder: pathlib.Path) -> None:
    print(await STACKS[stack].serve(folder), flush=True)
    await asyncio.Event().wait()


async def load(stack: str, kind: str, port: int, pid: int, seconds: float) -> dict:
    """Plays one run and tells how much was done in what time."""
    plays = STACKS[stack]
    async with plays.connect(port, KINDS[kind]) as connection:
        begin, cpu = time.monotonic(), spent(pid)
        until = begin + seconds
        if kind == "bulk":
            done = await plays.bulk(connection, until)
        elif kind == "messages":
            done = await plays.messages(connection, until)
        else:

            async def ask() -> int:
                count = 0
                while time.monotonic() < until:
                    await plays.request(connection)
                    count += 1
                return count

            done = sum(await asyncio.gather(*(ask() for _ in range(AT_A_TIME))))
        return {"done": done, "wall": time.monotonic() - begin, "cpu": spent(pid) - cpu}


def spent(pid: int) -> float:
    """The CPU time of this process and the server."""
    ours = resource.getrusage(resource.RUSAGE_SELF)
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ours.ru_utime + ours.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def played(stack: str, kind: str, folder: pathlib.Path, seconds: float) -> dict:
    """A run with processes of its own."""
    this = [sys.executable, __file__]
    server = subprocess.Popen([*this, "serve", stack, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = [*this, "load", stack, kind, port, str(server.pid), str(seconds)]
        return json.loads(subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True).stdout)
    finally:
        server.kill()
        server.wait()


def compare(runs: int, seconds: float, kinds: list[str]) -> None:
    import quickset

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        identity = quickset.Identity.self_signed("localhost")
        (folder / "cert.pem").write_text(identity.certificate_pem)
        (folder / "key.pem").write_text(identity.private_key_pem)
        print(f"{runs} runs of {seconds:g} s each, in turns; medians")
        for kind in kinds:
            rates: dict[str, list[float]] = {stack: [] for stack in STACKS}
            costs: dict[str, list[float]] = {stack: [] for stack in STACKS}
            for _ in range(runs):
                for stack in STACKS:
                    run = played(stack, kind, folder, seconds)
                    rates[stack].append(run["done"] / run["wall"])
                    costs[stack].append(run["cpu"] / max(run["done"], 1))
            tell(kind, rates, costs)


def tell(kind: str, rates: dict[str, list[float]], costs: dict[str, list[float]]) -> None:
    unit, per = ("MB/s", 1e6) if kind == "bulk" else ("a second", 1.0)
    for stack in STACKS:
        rate, cost = statistics.median(rates[stack]) / per, statistics.median(costs[stack]) * per
        each = "ms/MB" if kind == "bulk" else "us each"
        cost *= 1e3 if kind == "bulk" else 1e6
        print(f"{kind:9} {stack:9} {rate:10.1f} {unit:9} {cost:9.1f} {each} of CPU")
    by_time = statistics.median(a / b for a, b in zip(rates["quickset"], rates["aioquic"], strict=True))
    by_cpu = statistics.median(b / a for a, b in zip(costs["quickset"], costs["aioquic"], strict=True))
    print(f"{kind:9} ratio     {by_time:10.1f} by time   {by_cpu:9.1f} by CPU")


def main() -> None:
    match sys.argv[1:]:
        case ["serve", stack, folder]:
            asyncio.run(serve(stack, pathlib.Path(folder)))
        case ["load", stack, kind, port, pid, seconds]:
            print(json.dumps(asyncio.run(load(stack, kind, int(port), int(pid), float(seconds)))))
        case _:
            parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
            parser.add_argument("--runs", type=int, default=5)
            parser.add_argument("--seconds", type=float, default=3.0)
            parser.add_argument("--only", choices=list(KINDS), nargs="*", default=list(KINDS))
            given = parser.parse_args()
            compare(given.runs, given.seconds, given.only)


if __name__ == "__main__":
    main()
