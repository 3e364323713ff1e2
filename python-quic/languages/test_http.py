"""HTTP/3 between the package for Python and others: aioquic, the command `quickset`, and Chromium."""

import asyncio
import contextlib
import shutil

import pytest
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from programs import FOLDER, chromium, limited, line, lossy_path, output, started

from quickset import Identity, http3

BODY = bytes(range(256)) * 2000


class AioquicServer(QuicConnectionProtocol):
    """Answers each request with its method, its path, and what it had as content."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._http = H3Connection(self._quic)
        self._requests = {}

    def quic_event_received(self, event):
        for http in self._http.handle_event(event):
            head, body = self._requests.setdefault(http.stream_id, ({}, bytearray()))
            if isinstance(http, HeadersReceived):
                head.update(http.headers)
            if isinstance(http, DataReceived):
                body += http.data
            if http.stream_ended:
                told = head[b":method"] + b" " + head[b":path"] + b" " + body
                fields = [(b":status", b"201"), (b"x-length", str(len(body)).encode())]
                self._http.send_headers(http.stream_id, fields)
                self._http.send_data(http.stream_id, told, True)
                self.transmit()


class AioquicClient(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._http = H3Connection(self._quic)
        self._answers = {}

    def quic_event_received(self, event):
        for http in self._http.handle_event(event):
            done, head, body = self._answers[http.stream_id]
            if isinstance(http, HeadersReceived):
                head.update(http.headers)
            if isinstance(http, DataReceived):
                body += http.data
            if http.stream_ended:
                done.set_result((head, bytes(body)))

    async def ask(self, method, path, content=b""):
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self._answers[stream] = done, {}, bytearray()
        head = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        fields = [(name.encode(), value.encode()) for name, value in head.items()]
        self._http.send_headers(stream, fields, not content)
        if content:
            self._http.send_data(stream, content, True)
        self.transmit()
        return await done


class Application:
    """An ASGI application that answers with the method, the path, and what it is sent, as it comes; or with a
    page."""

    def __init__(self):
        #: Whether a page has shown all.
        self.shown = asyncio.Event()

    async def __call__(self, scope, receive, send):
        async def begin(status, name, value):
            fields = [(name.encode(), value.encode())]
            await send({"type": "http.response.start", "status": status, "headers": fields})

        if scope["path"] == "/page":
            await begin(200, "content-type", "text/html")
            await send({"type": "http.response.body", "body": PAGE})
            return
        if scope["path"] == "/held":
            # Until this has come, the page is not loaded.
            await self.shown.wait()
        if scope["path"] == "/shown":
            self.shown.set()
        await begin(201, "x-length", str(len(BODY)))
        head = f"{scope['method']} {scope['path']} "
        await send({"type": "http.response.body", "body": head.encode(), "more_body": True})
        more = True
        while more:
            event = await receive()
            more = event["more_body"]
            await send({"type": "http.response.body", "body": event["body"], "more_body": more})


#: Fetches three things by HTTP/3, of which one has content, and shows what came.
PAGE = b"""<!doctype html><body><script>
(async () => {
  const lines = [];
  const content = new Uint8Array(512000).map((_, i) => i);
  for (const [path, ask] of [["/one", {}], ["/two?x=1", {}], ["/three", {method: "POST", body: content}]]) {
    const answer = await fetch(path, ask);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const head = new TextDecoder().decode(bytes.slice(0, 12));
    const sum = bytes.reduce((sum, byte) => sum + byte, 0);
    const protocol = performance.getEntriesByName(new URL(path, location).href)[0]?.nextHopProtocol;
    lines.push(`${answer.status} ${head} ${bytes.length} ${sum} by ${protocol};`);
  }
  document.body.append(lines.join(" ") + " that was all");
})().catch(error => document.body.append(`failed: ${error}`)).finally(() => fetch("/shown"));
</script><img src="/held"></body>
"""


@contextlib.asynccontextmanager
async def served(path):
    """The application by our server; its identity, and its port on a path."""
    identity = Identity.self_signed("localhost")
    async with await http3.serve_asgi(Application(), "127.0.0.1", 0, identity=identity) as server:
        if path == "loopback":
            yield identity, server.port
        else:
            async with lossy_path(f"127.0.0.1:{server.port}", seed=11) as lossy:
                yield identity, int(lossy.address.rpartition(":")[2])


@pytest.mark.parametrize("path", ["loopback", "lossy"])
def test_a_client_by_aioquic(path):
    async def case():
        async with served(path) as (identity, port):
            config = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
            config.load_verify_locations(cadata=identity.certificate_pem.encode())
            async with connect(
                "127.0.0.1", port, configuration=config, create_protocol=AioquicClient
            ) as client:
                many = await asyncio.gather(*(client.ask("GET", f"/{n}") for n in range(20)))
                assert [body for _, body in many] == [f"GET /{n} ".encode() for n in range(20)]
                head, body = await client.ask("POST", "/up", BODY)
                assert head[b":status"] == b"201" and head[b"x-length"] == b"512000"
                assert body == b"POST /up " + BODY

    limited(case())


@pytest.mark.parametrize("path", ["loopback", "lossy"])
def test_a_server_by_aioquic(path, tmp_path):
    identity = Identity.self_signed("localhost")
    (tmp_path / "cert.pem").write_text(identity.certificate_pem)
    (tmp_path / "key.pem").write_text(identity.private_key_pem)

    async def case():
        config = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        config.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        server = await serve("127.0.0.1", 0, configuration=config, create_protocol=AioquicServer)
        port = server._transport.get_extra_info("sockname")[1]
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(server.close)
            if path == "lossy":
                lossy = await stack.enter_async_context(lossy_path(f"127.0.0.1:{port}", seed=12))
                port = int(lossy.address.rpartition(":")[2])
            how = {"ca": tmp_path / "cert.pem", "server_name": "localhost"}
            client = await stack.enter_async_context(await http3.connect("127.0.0.1", port, **how))
            many = await asyncio.gather(*(client.get(f"/{n}") for n in range(20)))
            for n, response in enumerate(many):
                assert await response.read_all() == f"GET /{n} ".encode()
            response = await client.post("/up", BODY)
            assert (response.status, response.header("x-length")) == (201, "512000")
            assert await response.read_all() == b"POST /up " + BODY

    limited(case())


def test_the_command_as_client():
    async def case():
        async with served("lossy") as (identity, port):
            url = f"https://127.0.0.1:{port}/some/path?q=1"
            said = await output(FOLDER / "quickset", "http", "get", url, "--pin", identity.fingerprint)
            assert said == "GET /some/path "

    limited(case())


def test_the_command_as_server(tmp_path):
    identity = Identity.self_signed("localhost")
    for name, text in (("cert.pem", identity.certificate_pem), ("key.pem", identity.private_key_pem)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "file").write_bytes(BODY)

    async def case():
        words = ["--listen", "127.0.0.1:0", "--cert", tmp_path / "cert.pem", "--key", tmp_path / "key.pem"]
        async with started(FOLDER / "quickset", "http", "serve", tmp_path / "site", *words) as serving:
            address = (await line(serving, "listening on ")).split()[0]
            async with lossy_path(address, seed=13) as lossy:
                port = int(lossy.address.rpartition(":")[2])
                how = {"pin": identity.fingerprint, "server_name": "localhost"}
                async with await http3.connect("127.0.0.1", port, **how) as client:
                    response = await client.get("/file")
                    assert response.status == 200
                    assert await response.read_all() == BODY
                    assert (await client.get("/nothing")).status == 404

    limited(case())


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
@pytest.mark.parametrize("path", ["loopback", "lossy"])
def test_chromium_fetches_from_an_asgi_application(path, tmp_path):
    async def case():
        async with served(path) as (identity, port):
            text = await output(*chromium(identity, port, tmp_path), f"https://localhost:{port}/page")
            total = 2000 * sum(range(256))
            expected = [(201, "GET /one ", 0), (201, "GET /two ", 0), (201, "POST /three ", total)]
            for status, head, content in expected:
                length = len(head) + (len(BODY) if content else 0)
                assert f"{status} {head} {length} {content + sum(head.encode())} by h3;" in text, text
            assert "that was all" in text

    limited(case())
