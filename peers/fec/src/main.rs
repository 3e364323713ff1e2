//! Quickset's Reed-Solomon beside other erasure codes: the same block, the same losses, one core, in turns.
//!
//! A block is 100 symbols of 1500 bytes and 5 repair symbols; 5 sources are lost, all 5 repair symbols come.
//! Every contestant must give the lost bytes back before it is timed.

mod codes;
#[cfg(isal)]
mod isal;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;

/// Erasure codes side by side.
#[derive(Debug, Parser)]
#[command(name = "peers-fec")]
struct FecOptions {
    /// Turns of each code, for encoding and for decoding.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Only this one.
    #[arg(long)]
    code: Option<String>,
}

/// Source symbols of a block.
const SOURCES: usize = 100;
/// Repair symbols, and losses.
const REPAIRS: usize = 5;
/// Bytes of a symbol.
const SIZE: usize = 1500;
/// The lost sources.
const LOST: [usize; REPAIRS] = [3, 17, 40, 41, 88];
/// A turn is as many blocks as fit: short enough that some turns are free of what else the machine does.
const TURN: Duration = Duration::from_micros(300);

/// Symbols in slots of whole cache lines, as a sender or a receiver keeps them.
pub(crate) struct FecBlock {
    bytes: Vec<u8>,
    first: usize,
}

impl FecBlock {
    fn new() -> Self {
        let slot = SIZE.next_multiple_of(64);
        let mut bytes = vec![0; SOURCES * slot + 64];
        let first = bytes.as_ptr().align_offset(64);
        let mut state = 1_u64;
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        Self { bytes, first }
    }

    pub(crate) fn symbol(&self, j: usize) -> &[u8] {
        let start = self.first + j * SIZE.next_multiple_of(64);
        &self.bytes[start..start + SIZE]
    }

    pub(crate) fn symbols(&self) -> Vec<&[u8]> {
        (0..SOURCES).map(|j| self.symbol(j)).collect()
    }
}

fn main() -> Result<()> {
    let options = FecOptions::parse();
    let block = FecBlock::new();
    let mut codes = codes::all(&block)?;
    codes.retain(|code| options.code.as_deref().is_none_or(|only| code.name().starts_with(only)));
    for code in &mut codes {
        code.encode();
        code.decode();
        for (lost, &j) in LOST.iter().enumerate() {
            ensure!(code.recovered(lost) == block.symbol(j), "{} gives back other bytes", code.name());
        }
    }

    let mut figures = vec![[vec![], vec![]]; codes.len()];
    for _ in 0..options.turns {
        for (code, [encode, decode]) in codes.iter_mut().zip(&mut figures) {
            encode.push(turn(|| code.encode()));
            decode.push(turn(|| code.decode()));
        }
    }

    println!(
        "Reed-Solomon {}/{SOURCES}, symbols of {SIZE} bytes, {REPAIRS} lost, one core",
        SOURCES + REPAIRS
    );
    println!("GB/s of source bytes: median (best) of {} turns\n", options.turns);
    println!("{:<46} {:>16} {:>16}", "", "encode", "decode");
    for (code, figures) in codes.iter().zip(&mut figures) {
        let [encode, decode] = figures.each_mut().map(|f| summary(f));
        println!("{:<46} {encode:>16} {decode:>16}", code.name());
    }
    #[cfg(not(isal))]
    println!("ISA-L is not here (Debian: libisal-dev)");
    Ok(())
}

/// GB/s of one turn.
fn turn(mut once: impl FnMut()) -> f64 {
    let (start, mut blocks) = (Instant::now(), 0);
    loop {
        once();
        blocks += 1;
        let elapsed = start.elapsed();
        if elapsed >= TURN {
            return (blocks * SOURCES * SIZE) as f64 / elapsed.as_secs_f64() / 1e9;
        }
    }
}

fn summary(figures: &mut [f64]) -> String {
    figures.sort_by(f64::total_cmp);
    let best = figures.last().copied().unwrap_or_default();
    format!("{:.1} ({best:.1})", figures[figures.len() / 2])
}
