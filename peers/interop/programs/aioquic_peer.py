"""aioquic as one side of one case; the contract is in src/play/mod.rs."""

import argparse
import asyncio
import os
import socket
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h0.connection import H0_ALPN, H0Connection
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated
from aioquic.quic.packet import QuicProtocolVersion


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=["client", "server"], required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--identity", required=True)
    parser.add_argument("--h3", action="store_true")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    options.host, options.port = host.strip("[]"), int(port)
    return options


def configuration(options):
    common = {"alpn_protocols": H3_ALPN if options.h3 else H0_ALPN, "idle_timeout": 30.0}
    if options.role == "server":
        config = QuicConfiguration(is_client=False, **common)
        config.load_cert_chain(f"{options.identity}/cert.pem", f"{options.identity}/key.pem")
        return config
    config = QuicConfiguration(is_client=True, server_name="localhost", **common)
    config.load_verify_locations(cafile=f"{options.identity}/cert.pem")
    if options.case.startswith("hello-"):
        # It knows no group whose share is larger than a datagram: these make the hello so.
        config.alpn_protocols = config.alpn_protocols + [f"{'long name ' * 20}{n}" for n in range(6)]
    if options.case == "v2":
        config.original_version = QuicProtocolVersion.VERSION_1
        config.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    return config


class Server(QuicConnectionProtocol):
    """Answers requests with files."""

    options = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            kind = H3Connection if event.alpn_protocol in H3_ALPN else H0Connection
            self._http = kind(self._quic)
        if self._http is None:
            return
        for http in self._http.handle_event(event):
            if isinstance(http, HeadersReceived):
                path = dict(http.headers).get(b":path", b"").decode().split("?")[0]
                self._answer(http.stream_id, path)

    def _answer(self, stream, path):
        name = os.path.basename(path)
        try:
            with open(os.path.join(self.options.dir, name), "rb") as file:
                content = file.read()
            status = b"200"
        except OSError:
            content, status = b"", b"404"
        self._http.send_headers(stream, [(b":status", status)])
        self._http.send_data(stream, content, True)
        self.transmit()


class Client(QuicConnectionProtocol):
    """Asks for files."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._http = (H3Connection if self._quic.configuration.alpn_protocols[0] in H3_ALPN else H0Connection)(self._quic)
        self._files = {}
        self.received = 0
        self.over = None

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.over = f"{event.error_code:#x} {event.reason_phrase}"
            for waiter, _ in self._files.values():
                if not waiter.done():
                    waiter.set_exception(ConnectionError(self.over))
        for http in self._http.handle_event(event):
            waiter, chunks = self._files.get(http.stream_id, (None, None))
            if waiter is None or waiter.done():
                continue
            if isinstance(http, HeadersReceived) and dict(http.headers).get(b":status", b"200") != b"200":
                waiter.set_exception(ValueError(f"status {http.headers}"))
            if isinstance(http, DataReceived):
                chunks.append(http.data)
                self.received += len(http.data)
            if http.stream_ended:
                waiter.set_result(b"".join(chunks))

    def ask(self, path):
        stream = self._quic.get_next_available_stream_id()
        waiter = asyncio.get_running_loop().create_future()
        self._files[stream] = (waiter, [])
        headers = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        self._http.send_headers(stream, headers, True)
        return waiter

    async def move(self):
        """To another port, with another connection id."""
        family = self._transport.get_extra_info("socket").family
        sock = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        old = self._transport
        self._quic.change_connection_id()
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)
        self.transmit()
        del old


async def server(options):
    tickets = {}
    Server.options = options
    running = await serve(
        options.host,
        options.port,
        configuration=configuration(options),
        create_protocol=Server,
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        retry=options.case == "retry" or options.case.startswith("hello-retry"),
    )
    host, port = running._transport.get_extra_info("sockname")[:2]
    print(f"listening [{host}]:{port}" if ":" in host else f"listening {host}:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    running.close()


def connections(options):
    if options.case in ("handshakeloss", "handshakecorruption"):
        return [[path] for path in options.paths]
    if options.case in ("resumption", "zerortt"):
        return [options.paths[:1], options.paths[1:]]
    return [options.paths]


async def client(options):
    tickets = []
    config = configuration(options)
    for number, paths in enumerate(connections(options)):
        if number and options.case in ("resumption", "zerortt"):
            config.session_ticket = tickets[-1]
        early = number > 0 and options.case == "zerortt"
        async with connect(
            options.host,
            options.port,
            configuration=config,
            create_protocol=Client,
            session_ticket_handler=tickets.append,
            wait_connected=not early,
        ) as protocol:
            waiters = [protocol.ask(path) for path in paths]
            protocol.transmit()
            while options.case in ("keyupdate", "connectionmigration") and protocol.received < 100_000:
                await asyncio.sleep(0.005)
            if options.case == "keyupdate":
                protocol.request_key_update()
            if options.case == "connectionmigration":
                await protocol.move()
            for path, content in zip(paths, await asyncio.gather(*waiters)):
                with open(os.path.join(options.dir, path.lstrip("/")), "wb") as file:
                    file.write(content)
            print("note resumed", int(protocol._quic.tls.session_resumed))


if __name__ == "__main__":
    given = arguments()
    asyncio.run(server(given) if given.role == "server" else client(given))
