//! What field sections cost, for a browser's request whose lines are in the table, and for one that is all
//! literals.

#![expect(missing_docs, reason = "criterion writes the main function")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quickset_h3::Field;
use quickset_h3::qpack::{Decoder, Encoder};

const LINES: [(&str, &str); 14] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "www.example.com"),
    (":path", "/api/v1/item?id=12345"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9"),
    ("accept-language", "en-US,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("referer", "https://www.example.com/"),
    ("cookie", "sid=31d4d96e407aad42e7a1a5b2c8d9; theme=dark; consent=yes"),
    ("sec-fetch-dest", "empty"),
    ("sec-fetch-mode", "cors"),
    ("sec-fetch-site", "same-origin"),
    ("te", "trailers"),
];

fn sections(c: &mut Criterion) {
    let lines: Vec<Field> = LINES.iter().map(|&(name, value)| Field::new(name, value)).collect();
    let text: usize = LINES.iter().map(|(name, value)| name.len() + value.len()).sum();
    let mut group = c.benchmark_group("qpack");
    group.throughput(Throughput::Bytes(text as u64));
    for (what, table) in [("table", 4096), ("literals", 0)] {
        let mut encoder = Encoder::new(table);
        let mut decoder = Decoder::new(table, 100, 1 << 16);
        encoder.apply(table, 100);
        // Both sides know the lines from then on.
        for stream in 0..3 {
            let section = encoder.encode(stream, &lines);
            decoder.on_instructions(&encoder.take_instructions()).expect("our own");
            decoder.section(stream, &section).expect("our own");
            encoder.on_instructions(&decoder.take_instructions()).expect("our own");
        }
        let section = encoder.encode(3, &lines);
        decoder.section(3, &section).expect("our own");
        encoder.on_instructions(&decoder.take_instructions()).expect("our own");
        println!("{what}: {} of {text} bytes", section.len());
        group.bench_function(format!("{what}/encode"), |b| {
            b.iter(|| {
                let section = encoder.encode(4, black_box(&lines));
                // The acknowledgement is part of the cost; without references there is none.
                if section[0] != 0 {
                    encoder.on_instructions(&[0x84]).expect("an acknowledgement");
                }
                section
            });
        });
        group.bench_function(format!("{what}/decode"), |b| {
            b.iter(|| {
                let read = decoder.section(4, black_box(&section)).expect("our own");
                black_box(decoder.take_instructions());
                read
            });
        });
    }
    group.finish();
}

criterion_group!(benches, sections);
criterion_main!(benches);
