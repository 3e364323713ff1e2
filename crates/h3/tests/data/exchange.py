#!/usr/bin/env python3
"""Makes exchange.txt: what a client and a server of aioquic (PyPI) say to each other, for ours to read.

    pip install aioquic && python3 exchange.py > exchange.txt

Lines: `client <stream> <hex> <fin>` and `server ...` are bytes on a stream, in the order in which they were sent, but for
decoder streams, which answer a peer that is not there; `fields <side> <stream> <head or trailers> <name>=<value>...` and
`content <side> <stream> <hex>` are what the other side understood. Hex is `-` for nothing.
"""
import random
from types import SimpleNamespace

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.events import StreamDataReceived


class Quic:
    """The verbs that H3Connection needs of a QUIC connection."""

    _quic_logger = None
    _remote_max_datagram_frame_size = 1200

    def __init__(self, name):
        self.name, self.out, self.unidirectional = name, [], 0
        self.configuration = SimpleNamespace(is_client=name == "client")

    def get_next_available_stream_id(self, is_unidirectional=False):
        assert is_unidirectional
        self.unidirectional += 1
        return 4 * (self.unidirectional - 1) + (2 if self.configuration.is_client else 3)

    def send_stream_data(self, stream, data, end_stream=False):
        if data or end_stream:
            self.out.append((stream, bytes(data), end_stream))

    def close(self, **reason):
        raise RuntimeError(reason)


def hexed(data):
    return data.hex() or "-"


class Pair:
    def __init__(self):
        self.quic = {name: Quic(name) for name in ("client", "server")}
        self.h3 = {name: H3Connection(quic) for name, quic in self.quic.items()}
        self.content, self.heads = {}, {}

    def deliver(self, name, delay=None):
        """What `name` said reaches the other; what is on a stream of `delay` comes last."""
        other = "server" if name == "client" else "client"
        said = sorted(self.quic[name].out, key=lambda entry: entry[0] == delay)
        self.quic[name].out = []
        for stream, data, fin in said:
            shown = data
            if stream == self.h3[name]._local_decoder_stream_id:
                shown = data if data == b"\x03" else b""
            if shown or fin:
                print(name, stream, hexed(shown), int(fin))
            for event in self.h3[other].handle_event(StreamDataReceived(data, fin, stream)):
                self.told(name, event)

    def told(self, name, event):
        key = (name, event.stream_id)
        if isinstance(event, DataReceived):
            self.content[key] = self.content.get(key, b"") + event.data
        elif isinstance(event, HeadersReceived):
            what = "trailers" if key in self.heads else "head"
            self.heads[key] = True
            fields = (n.hex() + "=" + v.hex() for n, v in event.headers)
            print("fields", name, event.stream_id, what, *fields)
        if event.stream_ended:
            print("content", *key, hexed(self.content.get(key, b"")))


def main():
    rng = random.Random(1)
    pair = Pair()
    pair.deliver("client")
    pair.deliver("server")
    for n in range(24):
        stream, client, server = 4 * n, pair.h3["client"], pair.h3["server"]
        head = [
            (b":method", b"POST" if n % 2 else b"GET"),
            (b":scheme", b"https"),
            (b":authority", b"quickset.example"),
            (b":path", b"/%d" % (n % 5)),
            (b"user-agent", b"aioquic"),
            (b"cookie", b"session=%032x" % (n % 3)),
        ]
        client.send_headers(stream, head, end_stream=n % 2 == 0)
        if n % 2:
            client.send_data(stream, rng.randbytes(rng.randrange(200)), end_stream=False)
            client.send_headers(stream, [(b"x-checksum", b"%d" % n)], end_stream=True)
        # Every third time the instructions for the table come behind the section.
        pair.deliver("client", client._local_encoder_stream_id if n % 3 == 0 else None)
        pair.deliver("server")
        if n % 4 == 0:
            server.send_headers(stream, [(b":status", b"103"), (b"link", b"</style.css>")])
        server.send_headers(stream, [(b":status", b"200"), (b"server", b"aioquic"), (b"x-n", b"%d" % (n % 4))])
        server.send_data(stream, rng.randbytes(rng.randrange(300)), end_stream=True)
        pair.deliver("server", server._local_encoder_stream_id if n % 3 == 1 else None)
        pair.deliver("client")


main()
