//! What every stack does in this comparison, and what it tells about it.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::os::cpu_time;
use crate::pattern::{Sum, expected};

/// The UDP payload of every data packet, both stacks: an Ethernet frame of 1500 bytes.
pub(crate) const MTU: u16 = 1472;

/// Receive windows and send buffers, both stacks: far more than loopback's bandwidth times its delay.
pub(crate) const WINDOW: u32 = 16 << 20;

/// The system's socket buffers, both stacks.
pub(crate) const SOCKET_BUFFER: usize = 4 << 20;

/// Chunks taken from a stream at a time.
pub(crate) const CHUNKS: usize = 32;

/// The first line of a server: where it is, and what to trust.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    /// DER, in hexadecimal.
    pub(crate) certificate: String,
}

/// The last line of either side.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Done {
    pub(crate) bytes: u64,
    /// From the first byte of data to the last.
    pub(crate) seconds: f64,
    /// CPU time of the process within these seconds.
    pub(crate) cpu_s: f64,
    /// As the stack counts them: sent by the server, received by the client.
    pub(crate) datagrams: u64,
    /// Declared lost by the sender.
    pub(crate) lost: u64,
}

/// A clock for wall and CPU time, started at the first byte.
pub(crate) struct Meter {
    wall: Instant,
    cpu: std::time::Duration,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu_time() }
    }

    pub(crate) fn done(&self, bytes: u64, datagrams: u64, lost: u64) -> Done {
        Done {
            bytes,
            seconds: self.wall.elapsed().as_secs_f64(),
            cpu_s: cpu_time().saturating_sub(self.cpu).as_secs_f64(),
            datagrams,
            lost,
        }
    }
}

/// Prints one line for the process that waits for it.
pub(crate) fn say(line: &impl Serialize) -> Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Fails unless `sum` is that of the whole pattern.
pub(crate) fn check(sum: &Sum, bytes: u64) -> Result<()> {
    if sum.bytes() != bytes {
        bail!("{} bytes arrived instead of {bytes}", sum.bytes());
    }
    if sum.value() != expected(bytes) {
        bail!("{bytes} bytes arrived, but not those that were sent");
    }
    Ok(())
}

impl Listening {
    pub(crate) fn new(address: SocketAddr, certificate: &CertificateDer<'_>) -> Self {
        let digit = |n: u8| char::from_digit(n.into(), 16).expect("below 16");
        let certificate = certificate.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        Self { address, certificate }
    }

    pub(crate) fn trusted(&self) -> Result<CertificateDer<'static>> {
        let digits = self.certificate.as_bytes();
        let bytes: Option<Vec<u8>> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        Ok(bytes.context("the certificate is not hexadecimal")?.into())
    }
}
