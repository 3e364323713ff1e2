#!/usr/bin/env python3
"""Makes the seeds of the h3_ targets: from what aioquic and ls-qpack said (crates/h3/tests/data), and by hand.

    python3 fuzz/seeds.py
"""
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "../crates/h3/tests/data"


def seed(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(bytes(data))


def words(file):
    for line in (DATA / file).read_text().splitlines():
        yield line.split(" ")


def unhex(text):
    return b"" if text == "-" else bytes.fromhex(text)


def frames():
    """Whole streams, as the other side reads them: 496 bytes of a field section, in pieces of 8."""
    streams = defaultdict(bytes)
    for line in words("exchange.txt"):
        if line[0] in ("client", "server"):
            streams[line[0], int(line[1])] += unhex(line[2])
    for (speaker, stream), data in streams.items():
        reader = 2 if speaker == "client" else 0
        if stream in (2, 3):
            seed("h3_frames", f"{speaker}_control", [31 << 3 | reader, 7, *data[1:]])
        elif stream in (0, 4, 20):
            seed("h3_frames", f"{speaker}_request_{stream}", [31 << 3 | reader | 1, 7, *data[:2000]])
    update = bytes([0x04, 0, 0x80, 0x0F, 7, 0, 4, 8]) + b"u=1"
    seed("h3_frames", "priority_update", [2, 7, *update])
    seed("h3_frames", "goaway", [0, 7, 4, 0, 7, 1, 8])
    seed("h3_frames", "session", [5, 7, 0x40, 0x41, 0, *b"raw"])


def qpack():
    """Connections of ls-qpack's encoder, each as far as a seed is to be long, and scripts for ours."""
    n, data = 0, []
    def end():
        if len(data) > 4:
            seed("h3_qpack", f"ls_qpack_{n}", data)
    for line in words("qpack.txt"):
        if line[0] == "settings":
            end()
            n, data = n + 1, [0, min(int(line[1]) // 16, 255), int(line[2]) % 8, 255]
        elif line[0] in ("encoder", "section") and len(data) < 2000:
            coded = unhex(line[-1])
            if line[0] == "encoder":
                for i in range(0, len(coded), 255):
                    piece = coded[i : i + 255]
                    data += [0, len(piece), *piece]
            elif len(coded) <= 255:
                data += [1 | (int(line[1]) // 4 % 64) << 2, len(coded), *coded]
    end()
    section = [3, 0x0B, 0x13, 0x1C]
    seed("h3_qpack", "ours_in_order", [1, 64, 4, 100] + [0, *section, 0xFB, 2, 0xFC] * 6)
    seed("h3_qpack", "ours_behind", [1, 64, 4, 100] + [0, *section, 2, 8, *section, 10, 0xFB, 0xFC] * 4)
    seed("h3_qpack", "ours_given_up", [1, 8, 2, 100] + [0, *section, 2, 5, 0xFB, 0xFC, 7, 4, 7, 8] * 4)


def priorities():
    for name, value in {
        "plain": "u=1, i",
        "fields": "u=1\ni\nu=4",
        "tolerance": "u=1, exp_b=3, exp_d=20",
        "further": 'u=1, i, exp_w=0.5, exp_p=("ivp";u=3;i;exp_w=0.4 "img";u=1), b=:aGVq:, t=tok, n=?0, d=@1',
        "ignored": "u=8, i=1, exp_b=-1, exp_d=2.5",
    }.items():
        seed("h3_priority", name, b"\0" + value.encode())
    seed("h3_priority", "made", [1, 2, 0b01_01_01, 0, 3, 0, 20])
    seed("h3_priority", "made_wrong", [1, 9, 0b10_11_11, 0, 3, 0, 20])


def capsules():
    close, drain = [0x68, 0x43, 5, 0, 0, 0, 1, 0x21], [0x80, 0, 0x78, 0xAE, 0]
    seed("h3_capsule", "datagrams", [20, 2, 0, 3, *b"one", 0, 0, 0, 3, *b"two"])
    seed("h3_capsule", "session", [20, 0, *drain, *close])
    seed("h3_capsule", "unknown", [20, 4, 0x17, 2, 9, 9, 0, 1, 0x78])
    seed("h3_capsule", "large", [0, 1, 0, 4, 1, 2, 3, 4, 0x68, 0x43, 4])


def connections():
    """Operations of three bytes; the highest bit of the second one is the server's."""
    server = 0x80
    turns = [0, server, 0, 0, 0, 0]
    exchange = [2, 0, 27, 4, 0, 100, *turns, 3, 0, 16, 4, server, 200, 5, server, 1, 5, 0, 0, *turns]
    reads = [6, 0, 200, 6, 0, 200, 6, server, 200, 6, server, 200]
    seed("h3_connection", "exchange", [0, 255, 0, 64, *exchange, *reads])
    seed("h3_connection", "exchanges_cut", [0xA0, 4, 9, 16, *(exchange + reads) * 4])
    session = [2, 0, 0, *turns, 3, 0, 5, *turns, 13, 0, 1, 13, server, 0, 10, 0, 5, *turns, 13, 0, 8, 13, server, 7, *turns]
    seed("h3_connection", "session", [6, 255, 0, 64, *session])
    seed("h3_connection", "given_up", [0, 255, 0, 64, *exchange[:9], 8, server, 0, *turns, 6, 0, 9])
    # What aioquic's client wrote: streams open with op 0 (unidirectional) and 2, and go on with 4.
    script, opened, order = [], {}, [0]
    for line in words("exchange.txt"):
        if line[0] != "client":
            continue
        stream, data = int(line[1]), unhex(line[2])[:255]
        op = 4 if stream in opened else 2 if stream % 4 == 0 else 0
        if stream not in opened:
            opened[stream] = len(order)
            order.append(stream)
        script += [0xF0 | op, opened[stream], len(data), *data]
        if len(script) > 1500:
            break
    seed("h3_connection", "aioquic_client", [1, 0, 0, 255, 0xFF, 0, 0, *script])


for make in (frames, qpack, priorities, capsules, connections):
    make()
