"""curl, over ngtcp2 and nghttp3, as the client of one case; the contract is in src/play/mod.rs."""

import asyncio
import os

from aioquic_peer import arguments, connections
from curl_cffi import CurlOpt
from curl_cffi.requests import AsyncSession


async def fetch(options, session, path):
    answer = await session.get(f"https://{options.address}{path}", timeout=120)
    answer.raise_for_status()
    if answer.http_version != 30:
        raise ValueError(f"not HTTP/3, but {answer.http_version}")
    with open(os.path.join(options.dir, path.lstrip("/")), "wb") as file:
        file.write(answer.content)


async def client(options):
    for paths in connections(options):
        verify = f"{options.identity}/cert.pem"
        # As browsers have them: by itself it sends no share of the first.
        groups = {CurlOpt.SSL_EC_CURVES: b"X25519MLKEM768:X25519:P-256:P-384"}
        async with AsyncSession(http_version="v3only", verify=verify, max_clients=50, curl_options=groups) as session:
            # The first makes the connection on which the others go.
            await fetch(options, session, paths[0])
            await asyncio.gather(*(fetch(options, session, path) for path in paths[1:]))


if __name__ == "__main__":
    asyncio.run(client(arguments()))
