//! Content that goes to standard output.

use anyhow::Context as _;
use tokio::io::{AsyncWriteExt as _, BufWriter, Stdout};

/// Standard output, written in large parts: content comes by the packet, and each write goes to another
/// thread, since whoever reads may be slow.
#[derive(Debug)]
pub(super) struct Printer(BufWriter<Stdout>);

impl Printer {
    pub(super) fn new() -> Self {
        Self(BufWriter::with_capacity(BUFFER, tokio::io::stdout()))
    }

    /// Takes all of `data`, of which some may wait to be written.
    pub(super) async fn write(&mut self, data: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(data).await.context(UNWRITTEN)
    }

    /// True when [`flush`](Self::flush) has something to write.
    pub(super) fn waits(&self) -> bool {
        !self.0.buffer().is_empty()
    }

    /// Writes what waits.
    pub(super) async fn flush(&mut self) -> anyhow::Result<()> {
        self.0.flush().await.context(UNWRITTEN)
    }
}

/// Bytes that are written at a time.
const BUFFER: usize = 256 << 10;

const UNWRITTEN: &str = "standard output cannot be written";
