//! Encodes field sections for other decoders to read; `tests/data/qpack_check.py` is one that does.
//!
//! Lines on the standard input: `settings <capacity> <blocked streams>`, `field <name> <value>` (hex),
//! `section <stream>` for the fields so far, `answer <hex>` for bytes of the decoder stream. Each section is
//! answered with a line of two words: what goes on the encoder stream, and the section; `-` is nothing.

use std::fmt::Write as _;
use std::io::{BufRead, Write as _};

use quickset_h3::Field;
use quickset_h3::qpack::Encoder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = Encoder::new(4096);
    let mut fields = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["settings", capacity, blocked] => {
                encoder = Encoder::new(4096);
                encoder.apply(capacity.parse()?, blocked.parse()?);
            }
            ["field", name, value] => fields.push(Field::new(bytes(name)?, bytes(value)?)),
            ["section", stream] => {
                let section = encoder.encode(stream.parse()?, &fields);
                println!("{} {}", hex(&encoder.take_instructions()), hex(&section));
                std::io::stdout().flush()?;
                fields.clear();
            }
            ["answer", answer] => encoder.on_instructions(&bytes(answer)?)?,
            _ => return Err(format!("not understood: {line}").into()),
        }
    }
    Ok(())
}

fn bytes(hex: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16)).collect()
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
