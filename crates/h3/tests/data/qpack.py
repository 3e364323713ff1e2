#!/usr/bin/env python3
"""Makes qpack.txt: sections of ls-qpack's encoder, by way of pylsqpack (PyPI), for our decoder to read.

    pip install pylsqpack && python3 qpack.py > qpack.txt

Lines: `settings <capacity> <blocked streams>` begins a connection; `encoder <hex>` is what came on the encoder
stream; `section <stream> <hex>` is an encoded field section; `field <stream> <name> <value>` (hex) is one of its
field lines; `read <stream>` is where it must be decoded. Seeds are fixed.
"""
import random

from pylsqpack import Decoder, Encoder, StreamBlocked

REQUEST = [
    (b":method", [b"GET", b"POST"]),
    (b":scheme", [b"https"]),
    (b":authority", [b"quickset.example", b"static.quickset.example"]),
    (b":path", [b"/", b"/index.html", b"/style.css", b"/picture?id=1", b"/picture?id=2"]),
    (b"user-agent", [b"quickset/0.1 (a test)"]),
    (b"accept", [b"*/*", b"text/html,application/xhtml+xml"]),
    (b"accept-encoding", [b"gzip, deflate, br"]),
    (b"cookie", [b"session=0123456789abcdef0123456789abcdef"]),
    (b"x-binary", [bytes(range(1, 255)), b""]),
    (b"priority", [b"u=1", b"u=5, i"]),
]


def connection(seed, capacity, blocked, delay):
    rng = random.Random(seed)
    encoder, decoder = Encoder(), Decoder(capacity, blocked)
    print(f"settings {capacity} {blocked}")
    pending = encoder.apply_settings(capacity, blocked)
    held = []  # instructions that are late
    waiting = []
    for n in range(16):
        stream = 4 * n
        fields = [(name, rng.choice(values)) for name, values in REQUEST if rng.random() < 0.8]
        instructions, section = encoder.encode(stream, fields)
        held.append(pending + instructions)
        pending = b""
        print(f"section {stream} {section.hex()}")
        for name, value in fields:
            print(f"field {stream} {name.hex()} {value.hex()}")
        try:
            answer, read = decoder.feed_header(stream, section)
            assert read == fields
            encoder.feed_decoder(answer)
            print(f"read {stream}")
        except StreamBlocked:
            waiting.append((stream, fields))
        if n % delay == delay - 1:
            flush(encoder, decoder, held, waiting)
    flush(encoder, decoder, held, waiting)
    assert not waiting


def flush(encoder, decoder, held, waiting):
    data = b"".join(held)
    held.clear()
    if not data:
        return
    print(f"encoder {data.hex()}")
    ready = decoder.feed_encoder(data)
    for stream, fields in list(waiting):
        if stream in ready:
            answer, read = decoder.resume_header(stream)
            assert read == fields
            encoder.feed_decoder(answer)
            waiting.remove((stream, fields))
            print(f"read {stream}")


SETUPS = [(0, 0, 1), (256, 0, 1), (256, 8, 1), (512, 4, 3), (1024, 16, 5), (4096, 16, 1), (4096, 100, 4), (220, 2, 2)]

if __name__ == "__main__":
    for seed, setup in enumerate(SETUPS):
        connection(seed, *setup)
