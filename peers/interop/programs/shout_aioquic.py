"""The program of docs/from/aioquic.md with aioquic: the left side of crates/quickset/examples/shout.rs."""

import asyncio
import datetime
import os
import tempfile

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, DatagramFrameReceived
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_certificate(cert, key):
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(private.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    with open(cert, "wb") as file:
        file.write(builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with open(key, "wb") as file:
        file.write(private.private_bytes(serialization.Encoding.PEM, pkcs8, plain))


class Server(QuicConnectionProtocol):
    """Answers datagrams; streams go to `answer`."""

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, DatagramFrameReceived):
            self._quic.send_datagram_frame(event.data.upper())
            self.transmit()
        if isinstance(event, ConnectionTerminated):
            print(f"server: the connection ended: {event.reason_phrase}")


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datagrams = asyncio.Queue()

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, DatagramFrameReceived):
            self.datagrams.put_nowait(event.data)

    def send_datagram(self, data):
        self._quic.send_datagram_frame(data)
        self.transmit()


def new_stream(reader, writer):
    task = asyncio.ensure_future(answer(reader, writer))
    tasks.add(task)
    task.add_done_callback(tasks.discard)


# The loop keeps no strong reference to a task.
tasks = set()


async def answer(reader, writer):
    writer.write((await reader.read()).upper())
    writer.write_eof()


async def ask(client, question):
    reader, writer = await client.create_stream()
    writer.write(question)
    writer.write_eof()
    return await reader.read()


async def main(folder):
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    make_certificate(cert, key)
    common = {"alpn_protocols": ["shout/1"], "max_datagram_frame_size": 65536}
    config = QuicConfiguration(is_client=False, **common)
    config.load_cert_chain(cert, key)
    server = await serve(
        "127.0.0.1", 0, configuration=config, create_protocol=Server, stream_handler=new_stream
    )
    port = server._transport.get_extra_info("sockname")[1]

    config = QuicConfiguration(is_client=True, server_name="localhost", **common)
    config.load_verify_locations(cafile=cert)
    async with connect("127.0.0.1", port, configuration=config, create_protocol=Client) as client:
        answers = await asyncio.gather(ask(client, b"live fence"), ask(client, b"of cuttings"))
        assert answers == [b"LIVE FENCE", b"OF CUTTINGS"], answers
        for n in range(1, 4):
            client.send_datagram(b"tick %d" % n)
        # Each may be lost; here one that comes back is enough.
        tick = await asyncio.wait_for(client.datagrams.get(), 5)
        assert tick.startswith(b"TICK "), tick
        print("client:", answers, tick)
    server.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(folder))
