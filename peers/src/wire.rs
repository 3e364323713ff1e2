//! What the processes of one run say to each other: lines of JSON.

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::os::taken;

/// The first line of a server: where it is, and what to trust.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    /// DER, in hexadecimal.
    certificate: String,
}

/// Prints one line for the process that waits for it.
pub(crate) fn say(line: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Answers each line on stdin with what this process has taken, and ends it with stdin.
pub(crate) fn answer_on_stdin() {
    std::thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || say(&taken()).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
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
