#!/usr/bin/env python3
"""Lets ls-qpack's decoder, by way of pylsqpack (PyPI), read what our encoder makes.

    pip install pylsqpack && cargo build -p quickset-h3 --example qpack
    python3 qpack_check.py ../../../../target/debug/examples/qpack
"""
import random
import subprocess
import sys

from pylsqpack import Decoder, StreamBlocked

from qpack import REQUEST


def main(program):
    ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(*words):
        print(*words, file=ours.stdin, flush=True)

    sections = blocked_sections = size = plain = 0
    for seed in range(200):
        rng = random.Random(seed)
        capacity, blocked = rng.choice([0, 128, 220, 512, 1024, 4096, 65536]), rng.choice([0, 1, 4, 100])
        decoder, waiting, held = Decoder(capacity, blocked), {}, []
        say("settings", capacity, blocked)
        for n in range(100):
            stream = 4 * n
            fields = [(name, rng.choice(values)) for name, values in REQUEST if rng.random() < 0.8]
            if rng.random() < 0.2:
                fields.append((b"x-other-%d" % rng.randrange(8), b"v" * rng.randrange(60)))
            for name, value in fields:
                say("field", name.hex(), value.hex())
            say("section", stream)
            instructions, section = (bytes.fromhex(w.replace("-", "")) for w in ours.stdout.readline().split())
            size += len(instructions) + len(section)
            plain += sum(len(n) + len(v) for n, v in fields)
            sections += 1
            held.append(instructions)
            try:
                answer, read = decoder.feed_header(stream, section)
                assert read == fields
                if answer:
                    say("answer", answer.hex())
            except StreamBlocked:
                blocked_sections += 1
                waiting[stream] = fields
            if rng.random() < 0.3:
                for ready in decoder.feed_encoder(b"".join(held)):
                    if rng.random() < 0.2:
                        answer = decoder.cancel_stream(ready)
                    else:
                        answer, read = decoder.resume_header(ready)
                        assert read == waiting[ready]
                    del waiting[ready]
                    say("answer", answer.hex())
                held.clear()
    ours.stdin.close()
    print(f"{sections} sections read, {blocked_sections} of them had to wait; {size / plain:.1%} of the text")


main(sys.argv[1])
