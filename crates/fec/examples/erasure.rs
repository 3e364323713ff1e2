//! A block that loses packets on its way: `cargo run -p quickset-fec --example erasure -- 100 5 3 17 40`
//! (sources, repair symbols, numbers of the lost sources).

use std::process::ExitCode;

use quickset_fec::reed_solomon::{Decoder, Encoder, Error};

/// Bytes of a symbol; the last ones of a block are shorter.
const SIZE: usize = 1200;

fn main() -> ExitCode {
    let numbers: Option<Vec<usize>> = std::env::args().skip(1).map(|n| n.parse().ok()).collect();
    let (sources, repairs, lost) = match numbers.as_deref() {
        Some([]) => (100, 5, vec![3, 17, 40, 41, 88]),
        Some([sources, repairs, lost @ ..]) => (*sources, *repairs, lost.to_vec()),
        _ => {
            eprintln!("numbers are expected: sources, repair symbols, lost sources");
            return ExitCode::FAILURE;
        }
    };
    match transfer(sources, repairs, &lost) {
        Ok(recovered) => println!("recovered: {recovered:?}"),
        Err(error) => {
            println!("not recovered: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn transfer(sources: usize, repairs: usize, lost: &[usize]) -> Result<Vec<usize>, Error> {
    let symbols: Vec<Vec<u8>> =
        (0..sources).zip((0..=u8::MAX).cycle()).map(|(j, byte)| vec![byte; SIZE - j % 7]).collect();

    // The sender adds each symbol as it goes out, and sends the repair symbols at the end.
    let mut encoder = Encoder::new(repairs)?;
    let mut decoder = Decoder::new(sources)?;
    for (j, symbol) in symbols.iter().enumerate() {
        encoder.add(symbol)?;
        if !lost.contains(&j) {
            decoder.source(j, symbol)?;
        }
    }
    for (i, repair) in encoder.repairs().enumerate() {
        decoder.repair(i, repair)?;
    }

    let recovered = decoder.decode()?;
    for &j in &recovered {
        // Lengths are not coded: what is behind the end is zero.
        let found = decoder.get(j).unwrap_or_default();
        assert!(found.starts_with(&symbols[j]) && found[symbols[j].len()..].iter().all(|&b| b == 0));
    }
    Ok(recovered)
}
