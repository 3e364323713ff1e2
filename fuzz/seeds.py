#!/usr/bin/env python3
"""Makes seeds: of the h3_ targets from what aioquic and ls-qpack said (crates/h3/tests/data), and by hand.

Those of quic_peer are what ours say in the simulator: see examples/seeds.rs.

    python3 fuzz/seeds.py
"""
import zlib
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
        "classes": 'i=?0, exp_w=100.001, exp_p=("a";u=8;exp_w=0 "b";i;exp_w=0.01 "\\\\\\"")',
        "no_classes": 'exp_w="1", exp_p=("a" b "")',
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


def pairs():
    """How both are configured, and operations of three bytes; the highest bit of the second one is the server's."""
    server, clean, lossy, awful = 0x80, [1, 0], [0x22, 0], [0xA2, 11]
    wide, narrow = [0xF3, 0x2A, 0xC3, 1, 0], [0x10, 0x00, 0x03, 1, 0]

    def pair(name, script, flags=0, links=clean, sides=(wide, wide), more=0):
        head = [flags | 0x10, *links, *links, *sides[0], *sides[1], more]
        seed("quic_pair", name, head + [byte for op in script for byte in op])

    wait, later = (0, 0, 255), (1, 0, 50)
    begin = [later, (8, 0, 1), (8, 0, 0), (8, server, 0)]
    bytes_ = [(11, n, 100) for n in (0, 1, 2)] + [wait, (11, server, 90), (11, server | 1, 90), (12, 0, 0), later]
    messages = [later, (8, 0, 2), (8, server, 3), (15, 0, 200), (15, 0, 20), (17, 0, 0), (15, 0, 9), (16, 1, 80), wait]
    late = [(15, 0, 100), (17, 0, 0), (15, 6, 3), (15, 7, 200), (17, 0, 7), (17, 0, 12), (15, 0, 255), later, (12, 0, 0)]
    posts = [later, *[(19, n | side, 40 + n) for n in range(8) for side in (0, server)], wait, (20, 0, 0), later]
    pair("streams", begin + bytes_ * 2)
    pair("streams_lossy", begin + bytes_ * 2, links=lossy)
    pair("streams_awful", begin + bytes_ * 2, links=awful)
    pair("streams_in_small_windows", begin + bytes_ * 3, sides=(narrow, narrow), more=4)
    pair("streams_read_by_hand", begin + bytes_ + [(21, server, 1), (21, server, 0), (14, 0, 9), (14, server, 90)], more=4)
    pair("streams_given_up", begin + bytes_ + [(13, n, 16 * n + n % 4) for n in range(6)] + [later], links=lossy)
    pair("messages", messages + late)
    pair("messages_lossy", messages + late * 3, links=lossy)
    pair("messages_awful", messages + late * 3, links=awful)
    for n in range(18):
        for mode in (2, 3):
            side = [0xF3, 0x2A, 0xC3, mode | n << 2, 0]
            if n % 2 == mode % 2:
                pair(f"protected_{n}", messages + begin + bytes_ + late + posts, links=lossy, sides=(side, side))
    pair("datagrams", posts * 3, links=lossy)
    pair("datagrams_protected", [later, (23, 4, 1), (23, server | 11, 1), *posts * 3], links=lossy)
    pair("early", begin[1:] + bytes_ + messages[1:] + late, flags=1, more=0xF0)
    pair("early_rejected", begin[1:] + bytes_ + messages[1:] + late, flags=1, more=0xF2)
    pair("early_reset", begin[1:] + bytes_ + messages[1:] + late, flags=1, more=0xF3)
    pair("early_awful", begin[1:] + bytes_ + messages[1:] + late, flags=9, more=0x90, links=awful)
    pair("early_with_a_window", [(22, 0, 0xC6), *begin[1:], later], flags=1, more=0xF0)
    pair("a_window_nobody_asked_for", [(22, 0, 0xC6), later], sides=(wide, [0xF3, 0x2A, 0xC3, 0, 0]))
    pair("retry", begin + bytes_, flags=8, links=lossy)
    pair("versions", begin + bytes_, sides=([0xF7, 0x2A, 0xC3, 1, 0], [0xFB, 0x2A, 0xC3, 1, 0]))
    pair("versions_in_common_none", begin, sides=([0xFF, 0x2A, 0xC3, 1, 0], [0xFB, 0x2A, 0xC3, 1, 0]))
    pair("no_extensions", begin + bytes_ + messages + late + posts, sides=([0xF3, 0x2A, 0xE3, 0, 1],) * 2, links=lossy)
    pair("a_large_certificate", begin + bytes_, flags=6, links=lossy)
    moves = [(3, 0, n) for n in (0, 4, 1, 2, 3)]
    pair("moves", begin + [op for move in moves for op in (*bytes_, move, later)])
    pair("moves_lossy", begin + [op for move in moves for op in (*bytes_, move, wait)], links=lossy)
    pair("keys", begin + [op for n in range(4) for op in (*bytes_, (6, server * (n % 2), 0), later)])
    pair("naps", begin + bytes_ + [(4, server, 200), *bytes_, (4, 0, 200), later, *bytes_])
    pair("closed_and_again", begin + bytes_ + [(4, 0, 255), *[(1, 0, 255)] * 6, (5, 0, 0), *begin, *bytes_])
    pair("links_that_change", begin + [op for n in range(14) for op in ((2, n * 16, n), *bytes_)])
    pair("marks", begin + bytes_ * 3, links=[5, 5])


def endpoints():
    """Operations of two bytes: 2 is an Initial packet, 6 a good hello, 7 Retry, 8 another version, 15 a while."""
    frames = bytes([6, 0, 3, 1, 0, 0])
    for flags in (0, 1, 2, 12, 18):
        hellos = [(6 | host << 4, 0, 0) for host in range(4)]
        script = [byte for op in hellos for byte in op] + [15, 50]
        seed("quic_endpoint", f"hellos_{flags}", [flags, *script, 15, 255])
    seed("quic_endpoint", "initials", [2, 2, 0, len(frames) - 1, *frames, 3, 3, *range(9), len(frames) - 1, *frames])
    seed("quic_endpoint", "coalesced", [2, 5, 0, 5, *frames, 5, *frames, *range(40)])
    seed("quic_endpoint", "retried", [0, 6, 0, 0, 2, 8, 0, 5, *frames, 15, 9, 2, 8, 0, 5, *frames])
    forged = [2, *[0] * 8, 4, 10, 0, 0, 10, *[0] * 30]
    seed("quic_endpoint", "forged_token", [2, 2, 16, *forged, *[0] * 60, 5, *frames])
    seed("quic_endpoint", "another_version", [2, 8, 0, 0x1A, 0x2A, 0x3A, 0x4A, 8, *range(8), 4, *range(4)])
    seed("quic_endpoint", "client_retried", [18, 0x87, 8, 1, 2, 3, 4, 5, 6, 7, 8, 15, 9])
    seed("quic_endpoint", "client_told_versions", [18, 0x8A, 4, 0, 0, 0, 0, 0, 1, 0x6B, 0x33, 0x43, 0xCF, 15, 9])
    seed("quic_endpoint", "strays", [2, *[byte for n in range(15) for byte in (9, 60, *range(60))]])


def hellos():
    """RFC 8446 §4.1.2, with transport parameters and a session to go on with."""
    def extension(kind, value):
        return bytes([kind >> 8, kind & 255, len(value) >> 8, len(value) & 255, *value])

    def hello(*extensions):
        rest = b"".join(extensions)
        body = bytes([3, 3, *range(32), 2, 9, 9, 0, 2, 0x13, 1, 1, 0, len(rest) >> 8, len(rest) & 255]) + rest
        return bytes([1, 0, len(body) >> 8, len(body) & 255]) + body

    params = extension(0x39, bytes([1, 2, 0x40, 0x64, 4, 1, 9]))
    seed("tls_hello", "params", hello(extension(0, b"name"), params))
    seed("tls_hello", "resumes", hello(params, extension(41, bytes(30))) + b"behind")
    seed("tls_hello", "cut", hello(params)[:-3])
    seed("tls_hello", "something_else", bytes([2, 0, 0, 1, 0]))


def sites():
    """A byte of options, then lines of text; 1 and 2 in a value are the entity tag and the date of the file."""
    def ask(name, path, *fields, flags=0, method="GET"):
        seed("cli_site", name, bytes([flags]) + "\n".join([f"{method} {path}", *fields]).encode())

    ask("index", "/", "accept-encoding: br;q=0.5, gzip", "if-none-match: \1")
    ask("head", "/sub/?x=/../y", "if-modified-since: \2", flags=2, method="HEAD")
    ask("encoded", "/caf%C3%A9%26%22%3C.html", "if-match: W/\"x\", \1")
    ask("part", "/ten.txt", "range: bytes=2-5", "if-range: \1", "accept-encoding: *")
    ask("end", "/large.bin", "range: bytes=-500", "if-range: \2")
    ask("rest", "/link.txt", "range: bytes=9-", "if-unmodified-since: Sun, 06 Nov 1994 08:49:37 GMT")
    ask("parts", "/large.bin", "range: bytes=0-0, -1", "if-none-match: *")
    ask("nothing_of_it", "/empty", "range: bytes=0-")
    ask("behind_it", "/one", "range: BYTES= 1-18446744073709551616")
    ask("lists", "/old", "if-none-match: \"a,b\"", "if-none-match: W/\1,", "if-modified-since: \2")
    ask("to_come", "/to%20come", "if-modified-since: Saturday, 01-Jan-50 00:00:00 GMT")
    ask("listed", "/bare/", flags=1)
    ask("no_text", "/%FF%c3%0a%0D%3f%23%1b", "range: bytes=1-")
    ask("no_text_beside", "/%fe/%FE.txt", "accept-encoding: br", "if-none-match: \1")
    ask("no_text_listed", "/", flags=1)
    ask("no_text_folder", "/%fe?%ff")
    ask("all_listed", "/round/sub/deep/", flags=7)
    ask("folder", "/round/bare?q", flags=4)
    ask("options", "*", "origin: https://other.example", flags=4, method="OPTIONS")
    for n, way in enumerate(["/%2e%2e/secret.txt", "/out.txt", "/out/secret.txt", "/..%2fsecret.txt", "/.git/config", "/c:name",
                             "/ten.txt/", "/bare/pipe", "/ten.txt%00", "/itself", "//bare/", "/back%5C..%5Cslash", "/%2541..%252e"]):
        ask(f"way_{n}", way)


def pools():
    """A byte says what, two a length or whose; of what is received two more, how long each datagram is."""
    def number(n):
        return [n >> 8, n & 255]

    def got(length, stride, buffer=0):
        return [buffer << 3, *number(length), *number(stride)]

    drop, write, share, rest = ([op, 0, n] for op, n in ((4, 3), (5, 2), (6, 4), (7 | 31 << 3, 0)))
    seed("net_pool", "large", (got(60_000, 1452) + drop * 5 + write + share + got(60_000, 1452, 1)) * 4 + rest)
    seed("net_pool", "small", (got(1200, 1200) + got(30, 30) + got(2904, 1452)) * 8 + drop * 9 + write * 4 + share)
    seed("net_pool", "limits", got(65535, 65535) + got(65535, 0) + got(32768, 1) + got(32767, 9) + got(0, 0) + drop * 9)
    seed("net_pool", "held", (got(65_000, 9000) + share * 3 + drop) * 9 + rest)


def kernels():
    """The kernel, the call, how many sources, how long; by source how much shorter, and where; then the rows, and what is left."""
    for call, name in enumerate(("combine", "sum", "scale", "hashes", "cauchy")):
        for kernel, (count, rows, length) in enumerate(((5, 3, 1200), (39, 8, 1452), (4, 19, 70), (100, 5, 1500), (0, 1, 0))):
            shape = [kernel, call, count, length >> 8, length & 255, *[0, 3, 140, 9] * (count // 2), *[0, 0] * (count % 2), rows]
            seed("fec_kernels", f"{name}_{count}_{rows}", [*shape, *range(rows), *(n * 37 & 255 for n in range(200))])


def sessions():
    """Operations of three bytes; the highest bit of the second one is the server's."""
    server, all_ = 0x80, [15, 0, 0]
    begin = [2, 0, 0, *all_, 3, 0, 0, *all_]
    opens = [4, 0, 0, 4, 0, 1, 4, server, 0, 4, server, 1, *all_]
    says = [byte for n in range(4) for side in (0, server) for byte in (6, n | side, 30)] + all_
    hears = [byte for n in range(6) for side in (0, server) for byte in (7, n | side, 200)]
    seed("h3_sessions", "all_is_said", [0, 255, 0, *begin, *opens, *says, *hears, 12, 0, 9, 12, server, 8, *all_, 13, server, 4])
    seed("h3_sessions", "in_pieces", [1, 2, 3, *begin, *opens, *says, *hears * 3, 13, 0, 1, 13, 0, 4])
    ends = [9, 0, 0, 10, 1, 31, 11, server | 2, 7, 10, server, 29, *all_, *hears]
    seed("h3_sessions", "given_up", [0, 255, 0, *begin, *opens, *says, *ends, 14, server, 255, *all_])
    seed("h3_sessions", "one_after_another", [0, 255, 9, *(begin + opens + says + [13, 0, 2] + all_) * 3])
    seed("h3_sessions", "refused", [0, 255, 0, 2, 0, 0, *all_, 3, 0, 4, *all_, *begin, 12, 0, 3, 13, server, 6, 13, 0, 6])


def handles():
    """Who says anything, the end, protocols; then operations of three bytes; the highest bit of the second one is the server's."""
    server, rest = 0x80, [15, 0, 8] * 3
    opens = [byte for side in (0, server) for arg in (0, 1, 2, 3) for byte in (0, side, arg)] + rest
    says = [byte for n in range(3) for side in (0, server) for byte in (2, n | side, 90)] + rest
    sends = [byte for n in range(3) for side in (0, server) for byte in (4, n | side, 99)] + rest
    accepts = [byte for side in (0, server) for arg in (0, 1, 2, 3) for byte in (1, side, arg)] + rest
    hears = [byte for n in range(6) for side in (0, server) for byte in (5, n | side, 40 + n)] + rest
    waits = [byte for side in (0, server) for op, arg in ((7, 200), (13, 3), (13, 5), (1, 2), (1, 3)) for byte in (op, side, arg)]
    ends = [8, 0, 0, 8, server, 1, 9, 0, 9, 9, server, 0, 10, 0, 9, 10, server, 0] + rest
    datagrams = [11, 0, 9, 11, 0, 200, 11, server, 9, *rest, 12, 0, 0, 12, server, 0, 12, server, 0]
    scripts = {
        "arrives": opens + says + sends + accepts + hears,
        "waits": waits + opens + says + accepts + waits + hears,
        "given_up": opens + says + accepts + ends + hears + sends + ends,
        "dropped": waits + opens + sends + accepts + [14, 0, 0, 14, server, 0] * 4 + rest,
        "datagrams": datagrams * 3,
        "many": (opens + sends + accepts + hears + [8, 0, 0, 8, server, 0] * 3) * 2,
    }
    for name, script in scripts.items():
        for end, how in ((0, "by_client"), (2, "by_server"), (4, "by_nobody"), (0x81, "with_all")):
            seed("webtransport_handles", f"{name}_{how}", [0, end, 0x12, *script])
    for code, how in ((0, "closed"), (1, "drained"), (4, "let_go")):
        script = [*opens, *says, *waits, *accepts, 13, server, code, *hears, *sends]
        seed("webtransport_handles", f"in_between_{how}", [0, 0, 0, *script])
    # A capsule that is longer than it says or never comes, streams of sessions and of none, anything, datagrams, the end.
    lies = [0, 0, 9, 0, 7, *b"closing", 0, 0, 9, 2, 255, *b"closing", 2, 0, 5, *b"early", 3, 0, 6, *b"unknown", 2, 0, 7, *b"nowhere"]
    lies += [0, 4, 0, 5, *b"plain", 0, 5, 0, 5, 0, *b"whole", 6, 0, 5, *b"short", 7, 0, 3, 7, 0, 0]
    of_server = [0, 128, 9, 3, 4, 0, 0, 0, 7, 2, 128, 5, *b"early", 3, 128, 5, *b"early", 5, 128, 5, 0, *b"whole"]
    for who, name, script in ((2, "client", lies), (3, "server", of_server), (4, "both", [0xe2, 0, 5, *b"early", 0xe3, 0, 6, *b"unknown"])):
        seed("webtransport_handles", f"lies_{name}", [who, 0, 0, *script, *waits, *opens, *accepts, *hears, *script])


def screens():
    """The order, how long messages are, a size, operations; or what a VNC server says (corpus/rfb_client)."""
    def draw(how, x=10, y=10, w=60, h=40, colour=77):
        return [0, x, y, w, h, how, colour]

    def copy(x, y, w, h, to_x, to_y):
        return [3, x, y, w, h, to_x, to_y]

    end, send, late = [5], [6 | 3 << 4], [9, 100]
    carry, lost, told = [7, 1], [8, 1], [8, 0x80]
    for order, name in enumerate(("ordered", "fenced", "latest")):
        some = [byte for how in range(5) for byte in draw(how, how * 9, 5) + end + send + carry]
        seed("desktop_sender", f"drawn_{name}", [order, 40, 90, 80, *some, *late, *send, *carry])
        moves = draw(1) + end + send + copy(5, 5, 50, 40, 9, 20) + draw(2, 5, 5, 20, 9) + end + send * 2 + carry + copy(9, 9, 30, 30, 1, 0)
        seed("desktop_sender", f"moved_{name}", [order | 4, 10, 120, 100, *moves, *carry, *lost, *send, *told, *late, *moves])
        sizes = [*draw(3), *end, *send, 10, 200, 90, *draw(4), *send, *carry, 10, 0, 0, 10, 30, 30, 14, 4, 0, 14, 4, 1]
        seed("desktop_sender", f"resized_{name}", [order, 0, 60, 60, *sizes, *draw(0), 11, 20, 20])
        asks = [13 | 16, *draw(3, w=90), *end, *send, 12, 1, 1, 12 | 16, 3, 9, 12 | 128, 5, 0, 13, *carry, 15, 15 | 64]
        seed("desktop_sender", f"asked_{name}", [order, 255, 99, 99, *asks * 2])
    for name in ("every_rectangle", "last_rectangle_bell_colours", "fences_and_continuous_updates"):
        said = (HERE / "corpus/rfb_client" / name).read_bytes()
        seed("desktop_sender", f"heard_{name}", bytes([17, 30]) + said[1:])


def recordings():
    """Whether sums are mended, where to begin, then the file of spec/recording.md."""
    def record(kind, time, *body):
        head = len(body).to_bytes(4, "big") + bytes([kind]) + time.to_bytes(8, "big")
        return head + bytes(body) + zlib.crc32(head + bytes(body)).to_bytes(4, "big")

    def picture(time, side, colour):
        size, solid = (1, 1, 0, side, 9), (1, 2, 1, 0, 0, side, 9, 0, 0, colour)
        return record(1, time) + record(3, time, len(size), *size, len(solid), *solid)

    def pixel(kind, time, colour):
        return record(kind, time, 10, 1, 3, 1, 1, 1, 2, 2, colour, 0, 0)

    head, start = b"\x89QSR\r\n\x1a\n\x01", record(0, 0, 42)
    name = record(4, 900, 0x0A, 4, *b"desk")
    pointer, end = record(5, 1500, 3, 4), record(6, 9000)
    copy = record(3, 3000, 10, 1, 4, 7, 3, 3, 2, 2, 1, 1, 0)
    resized = record(3, 4000, 5, 2, 5, 0, 20, 20)
    files = {
        "whole": [start, picture(800, 12, 7), name, pointer, pixel(3, 2000, 9), copy, end],
        "pictures": [start, *(piece for n in range(4) for piece in (picture(n * 1000, 9 + n, n), pixel(3, n * 1000 + 500, 9)))],
        "parts": [picture(0, 9, 1), pixel(2, 2000, 8), pixel(2, 2000, 7), pixel(3, 2000, 9), end],
        "sizes": [picture(0, 9, 1), resized, record(1, 5000), record(3, 5000, 5, 1, 1, 0, 5, 5), end],
        "cut": [start, picture(0, 9, 1), pixel(2, 1000, 9)],
        "unknown": [start, record(99, 0, *b"what"), picture(0, 9, 1), record(98, 1), end],
    }
    for name, pieces in files.items():
        seed("desktop_recording", name, b"\1\x80\0" + head + b"".join(pieces))
        seed("desktop_recording", f"{name}_mended", b"\0\x20\0" + head + b"".join(pieces))


def handshakes():
    """What both want, then for each piece: whose, what becomes of it, where."""
    for flags in range(16):
        seed("tls_sessions", f"as_it_is_{flags}", [flags])
    whole = [[0, 0, 0, 0], [1, 0, 0, 0]] * 3
    for name, change in {
        "cut": [0, 1, 0, 40],
        "changed": [0, 5, 0, 90, 1],
        "shortened": [0, 6, 0, 50],
        "more": [0, 7, 0, 0, 4, 1, 2, 3, 4],
        "twice": [0, 8, 0, 0],
        "in_another_order": [1, 9, 0, 0],
        "another": [0, 10, 0, 0, 5, 2, 0, 0, 1, 0],
        "of_another_length": [1, 11, 0, 2, 9],
    }.items():
        for n in range(3):
            script = [byte for piece in [*whole[:n], change, *whole] for byte in piece]
            seed("tls_sessions", f"{name}_{n}", [n, *script])


def pieces():
    """Who ours is, then for each piece: what is said, of which level, from where, how much of it, and what else."""
    forth = [[0, level, at >> 8, at & 255, 1, 244, 0, 0] for level in range(3) for at in range(0, 3000, 500)]
    scripts = {
        "in_order": forth,
        "backwards": forth[::-1],
        "twice": forth + forth,
        "overlapping": [[0, level, 0, at, 3, 231, 0, 0] for level in (0, 1, 0) for at in range(200, 0, -20)],
        "slowly": [[8, level, 0, at, 0, 40, 0, 20] for level in (0, 1) for at in range(0, 200, 40)],
        "changed": [*forth[1:6], [5, 0, 0, 0, 1, 244, 0, 9], *forth],
        "ahead": [[6 | bits << 3, 0, 0, 0, 0, 50, 1, 0] for bits in (0, 2, 4, 6)],
        "elsewhere": [[7, level, 0, 0, 1, 0, 0, other] for level in (0, 1) for other in (0, 1, 2)],
    }
    for name, script in scripts.items():
        for side, whose in enumerate(("server", "client")):
            seed("quic_crypto", f"{name}_{whose}", [side, *(byte for piece in script for byte in piece)])


def manifests():
    """The rule and the link, then the manifest."""
    rows = '<Representation id="a" bandwidth="1000000"/><Representation id="b" bandwidth="5000000"/>'
    line = '<SegmentTimeline><S t="9" d="40" r="3"/><S d="20" r="-1"/></SegmentTimeline>'
    sets = {
        "number": f'<SegmentTemplate media="$RepresentationID$/$Number%05d$" initialization="i" duration="4"/>{rows}',
        "time": f'<SegmentTemplate media="$Bandwidth$-$Time$" timescale="10" presentationTimeOffset="9">{line}</SegmentTemplate>{rows}',
        "list": f'<SegmentList duration="9"><Initialization range="0-9"/><SegmentURL media="x"/><SegmentURL mediaRange="1-2"/></SegmentList>{rows}',
        "index": '<Representation bandwidth="9"><BaseURL>../v.mp4</BaseURL><SegmentBase indexRange="80-123"/></Representation>',
    }
    for choice, (name, content) in enumerate(sets.items()):
        period = f'<Period duration="PT30S"><BaseURL>c/</BaseURL><AdaptationSet mimeType="video/mp4">{content}</AdaptationSet></Period>'
        text = f'<MPD mediaPresentationDuration="PT1M0.5S">{period}{period}</MPD>'
        seed("play_manifest", name, [choice, *text.encode()])


for make in (manifests, pieces, sites, pools, kernels, sessions, handles, screens, recordings, handshakes, frames, qpack, priorities, capsules, connections, pairs, endpoints, hellos):
    make()
