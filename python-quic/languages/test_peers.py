"""C, Python and Rust, each with each: streams, fenced messages with deadlines, datagrams."""

import asyncio
import itertools

import pytest
from programs import PEERS, limited, line, lossy_path, output, started


async def meet(server, client, path):
    """Plays a server and a client. Returns what the client says, and how many datagrams were lost."""
    async with started(*PEERS[server], "server", "127.0.0.1:0") as serving:
        address = await line(serving, "address ")
        pin = await line(serving, "fingerprint ")
        if path == "loopback":
            said, lost = await output(*PEERS[client], "client", address, pin), 0
        else:
            async with lossy_path(address, seed=7) as lossy:
                said = await output(*PEERS[client], "client", lossy.address, pin)
                lost = lossy.lost
        closed = await line(serving, "closed: ")
        # A farewell that is lost is not said again by a program that has ended.
        silent = path == "lossy" and "does not answer" in closed
        assert silent or ("7" in closed and "done" in closed)
        assert await asyncio.wait_for(serving.wait(), 10) == 0
    return said, lost


@pytest.mark.parametrize("path", ["loopback", "lossy"])
@pytest.mark.parametrize(("server", "client"), list(itertools.product(PEERS, PEERS)))
def test_each_with_each(server, client, path):
    said, lost = limited(meet(server, client, path))
    assert said.startswith("fine: ")
    # 600 messages and 300,000 bytes each way are some 700 datagrams at least.
    assert path == "loopback" or lost >= 3
