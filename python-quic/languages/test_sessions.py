"""WebTransport: Python with Rust, with Chromium, and with pywebtransport."""

import asyncio
import os
import shutil

import pytest
from programs import INTEROP, SESSIONS, chromium, limited, line, lossy_path, output, started
from sessions import echo

from quickset import Identity, http3, webtransport


@pytest.mark.parametrize("path", ["loopback", "lossy"])
@pytest.mark.parametrize(("server", "client"), [("python", "rust"), ("rust", "python"), ("python", "python")])
def test_each_with_each(server, client, path):
    async def case():
        async with started(*SESSIONS[server], "echo", "127.0.0.1:0") as serving:
            address = await line(serving, "address ")
            pin = await line(serving, "fingerprint ")
            if path == "loopback":
                said = await output(*SESSIONS[client], "session", address, pin)
            else:
                async with lossy_path(address, seed=17) as lossy:
                    said = await output(*SESSIONS[client], "session", lossy.address, pin)
                    assert lossy.lost > 0
            assert said.startswith("fine: ")
            # What is said of the end may be lost, and then the server waits as it does in silence.
            await asyncio.wait_for(serving.wait(), 45)

    limited(case())


#: Sends two streams and a datagram, and shows what comes back.
PAGE = """<!doctype html><body><script>
(async () => {
  const text = new TextDecoder();
  const hash = Uint8Array.from("HASH".match(/../g), digits => parseInt(digits, 16));
  const session = new WebTransport(location.origin + "/echo?page",
    {serverCertificateHashes: [{algorithm: "sha-256", value: hash}]});
  await session.ready;
  const all = async readable => text.decode(await new Response(readable).arrayBuffer());
  const both = await session.createBidirectionalStream();
  const asking = both.writable.getWriter();
  asking.write(new Uint8Array(300000).fill(65));
  asking.write(new TextEncoder().encode("both ways"));
  asking.close();
  const back = await all(both.readable);
  const lines = [`${back.length} ${back.slice(-9)}`];
  const out = (await session.createUnidirectionalStream()).getWriter();
  out.write(new TextEncoder().encode("one way"));
  out.close();
  const incoming = session.incomingUnidirectionalStreams.getReader();
  lines.push(await all((await incoming.read()).value));
  const datagrams = session.datagrams.readable.getReader();
  const say = session.datagrams.writable.getWriter();
  const saying = setInterval(() => say.write(new TextEncoder().encode("datagram")), 50);
  lines.push(text.decode((await datagrams.read()).value));
  clearInterval(saying);
  const ending = setInterval(() => say.write(new TextEncoder().encode("end")), 50);
  const closed = await session.closed;
  clearInterval(ending);
  lines.push(`${closed.closeCode} ${closed.reason}`);
  document.body.append(lines.join("; ") + " that was all");
})().catch(error => document.body.append(`failed: ${error}`)).finally(() => fetch("/shown"));
</script><img src="/held"></body>
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
@pytest.mark.parametrize("path", ["loopback", "lossy"])
def test_chromium_has_a_session(path, tmp_path):
    identity = Identity.for_browsers("localhost")
    page = PAGE.replace("HASH", identity.certificate_hash.hex()).encode()

    async def case():
        shown = asyncio.Event()

        async def handler(request):
            if request.path == "/shown":
                shown.set()
            if request.path == "/held":
                # Until this has come, the page is not loaded.
                await shown.wait()
            await request.respond(
                200, page if request.path == "/page" else b"", {"content-type": "text/html"}
            )

        server = await http3.serve(handler, "127.0.0.1", 0, identity=identity, sessions=echo)
        async with server, lossy_path(f"127.0.0.1:{server.port}", seed=19) as lossy:
            port = server.port if path == "loopback" else int(lossy.address.rpartition(":")[2])
            words = chromium(identity, port, tmp_path)
            text = await output(*words, f"https://localhost:{port}/page")
        assert "300009 both ways; one way; /echo?page datagram; 42 as you say that was all" in text, text

    limited(case())


#: The program of `cargo xtask interop` that speaks by pywebtransport, and a Python that has it.
OTHER = [os.environ.get("QUICKSET_PYWEBTRANSPORT", ""), INTEROP / "webtransport_py" / "main.py"]
needs_other = pytest.mark.skipif(not OTHER[0], reason="pywebtransport needs Python 3.12")


@needs_other
def test_a_client_by_pywebtransport():
    async def case():
        identity = Identity.self_signed("localhost", "127.0.0.1")
        async with await webtransport.serve(echo, "127.0.0.1", 0, identity=identity) as server:
            said = await output(*OTHER, "client", f"https://127.0.0.1:{server.port}/echo")
            assert said == "fine\n"

    limited(case())


@needs_other
def test_a_server_by_pywebtransport(tmp_path):
    identity = Identity.self_signed("localhost")
    (tmp_path / "cert.pem").write_text(identity.certificate_pem)
    (tmp_path / "key.pem").write_text(identity.private_key_pem)

    async def case():
        async with started(*OTHER, "server", tmp_path / "cert.pem", tmp_path / "key.pem") as serving:
            host, _, port = (await line(serving, "")).rpartition(":")
            how = {"pin": identity.fingerprint, "server_name": "localhost", "protocols": ["echo/1"]}
            session = await webtransport.connect(host, int(port), "/echo", **how)
            assert session.protocol == "echo/1"
            question = bytes(range(250)) * 1000
            send, receive = await session.open_bi()
            answer, _ = await asyncio.gather(receive.read_all(), send.write(question, finish=True))
            assert answer == question
            session.send_datagram(b"hello")
            assert await session.read_datagram() == b"hello"
            session.send_datagram(b"end")
            ending = await session.closed()
            assert (ending.code, ending.reason) == (42, "as you say")

    limited(case())
