"""The programs that talk to each other, and the path between them."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Optional

from quickset import Identity

HERE = Path(__file__).parent

#: Where `cargo xtask languages` has put the programs in C and Rust.
FOLDER = Path(os.environ["QUICKSET_LANGUAGES"])

#: Where the programs of `cargo xtask interop` are.
INTEROP = HERE.parent.parent / "peers" / "interop" / "programs"

#: What plays either side, by its language.
PEERS = {
    "c": [FOLDER / "languages-c"],
    "python": [sys.executable, HERE / "peer.py"],
    "rust": [FOLDER / "languages-rust"],
}

#: What plays either side of a session of WebTransport.
SESSIONS = {"python": [sys.executable, HERE / "sessions.py"], "rust": PEERS["rust"]}

#: Seconds for anything here, unless it hangs.
LIMIT = 90.0


class LossyPath(asyncio.DatagramProtocol):
    """Passes datagrams of one client on to a server and back, 10 ms later, and loses one in a hundred."""

    def __init__(self, server: tuple[str, int], seed: int) -> None:
        self.lost = 0
        self._server = server
        self._random = random.Random(seed)
        self._client: Optional[tuple[str, int]] = None
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, sender: Any) -> None:
        if sender != self._server:
            self._client = sender
        to = self._client if sender == self._server else self._server
        if self._random.random() < 0.01:
            self.lost += 1
        else:
            asyncio.get_running_loop().call_later(0.01, self._send, data, to)

    def _send(self, data: bytes, to: Any) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, to)

    def error_received(self, error: OSError) -> None:
        """A side that has ended gets nothing more."""

    @property
    def address(self) -> str:
        host, port = self._transport.get_extra_info("sockname")
        return f"{host}:{port}"

    def close(self) -> None:
        self._transport.close()


@asynccontextmanager
async def lossy_path(server: str, seed: int) -> AsyncIterator[LossyPath]:
    """A path to the server at an address, which loses one datagram in a hundred."""
    host, _, port = server.rpartition(":")
    loop = asyncio.get_running_loop()
    _, path = await loop.create_datagram_endpoint(
        lambda: LossyPath((host, int(port)), seed), local_addr=("127.0.0.1", 0)
    )
    try:
        yield path
    finally:
        path.close()


@asynccontextmanager
async def started(*words: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that does not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        *map(str, words), stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line(process: asyncio.subprocess.Process, word: str) -> str:
    """The next line of a program, which begins with this word; what is behind it."""
    text = (await process.stdout.readline()).decode()
    assert text.startswith(word), f"{text!r} has no {word!r}"
    return text[len(word) :].strip()


async def output(*words: object) -> str:
    """What a program prints, which has to end well."""
    async with started(*words) as process:
        text, _ = await process.communicate()
        assert process.returncode == 0, f"{words[0]} ended with {process.returncode}: {text.decode()}"
        return text.decode()


def limited(case: Any, seconds: float = LIMIT) -> Any:
    """Runs a coroutine, which may take so long."""

    async def play() -> Any:
        return await asyncio.wait_for(case, seconds)

    return asyncio.run(play())


def chromium(identity: Identity, port: int, folder: Path) -> list[str]:
    """The command of a browser that goes to our port by HTTP/3 alone, and believes this key."""
    spki = base64.b64encode(bytes.fromhex(identity.fingerprint.removeprefix("sha256:"))).decode()
    return [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--timeout=20000",
        "--dump-dom",
        f"--user-data-dir={folder / 'profile'}",
        f"--host-resolver-rules=MAP localhost 127.0.0.1:{port}",
        f"--origin-to-force-quic-on=localhost:{port}",
        f"--ignore-certificate-errors-spki-list={spki}",
    ]
