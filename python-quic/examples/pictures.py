"""Pictures as messages on a fenced stream: the parts of a picture may overtake each other, pictures may not.

Each part is of use for a quarter of a second, and repaired beforehand where the path loses packets. The
server tells of each picture when all of it that can come is there.
"""

import asyncio

import quickset

ALPN = "pictures/1"
PARTS, PICTURES = 20, 10


async def watch(connection: quickset.Connection) -> None:
    parts = await connection.accept_messages()
    shown: dict[int, int] = {}
    async for part in parts:
        # A segment is what lies between two fences: a picture.
        shown[part.segment] = shown.get(part.segment, 0) + len(part.payload)
    for number, size in enumerate(shown.values()):
        print(f"picture {number}: {size} bytes")
    connection.close()


async def show(port: int, pin: str) -> None:
    async with await quickset.connect("127.0.0.1", port, alpn=ALPN, pin=pin) as connection:
        sender = await connection.open_messages()
        sender.set_protection("adaptive:screen")
        outcomes = asyncio.create_task(count(sender.outcomes()))
        for picture in range(PICTURES):
            await sender.send_messages([bytes([picture]) * 1000] * PARTS, deadline=0.25)
            sender.fence()
        sender.finish()
        await sender.finished()
        print(await outcomes)
        await connection.closed()


async def count(outcomes: quickset.Outcomes) -> dict[str, int]:
    found: dict[str, int] = {}
    async for _, outcome in outcomes:
        found[outcome] = found.get(outcome, 0) + 1
    return found


async def main() -> None:
    async with await quickset.serve(watch, "127.0.0.1", alpn=ALPN) as server:
        await show(server.port, server.fingerprint)


if __name__ == "__main__":
    asyncio.run(main())
