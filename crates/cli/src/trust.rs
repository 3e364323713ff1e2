//! Whom a client of HTTP believes.

use std::path::PathBuf;

use anyhow::Context as _;
use quickset::{Fingerprint, Trust};

use crate::say::{named, note};

/// How a server proves who it is; unless told, by the system's certificate authorities.
#[derive(Debug, clap::Args)]
#[group(id = "trust", multiple = false)]
pub(crate) struct TrustArgs {
    /// Certificate authorities to believe, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The fingerprint that the server printed
    #[arg(long, value_name = "sha256:…")]
    pin: Option<Fingerprint>,
    /// Do not check who the server is
    #[arg(long)]
    insecure: bool,
}

impl TrustArgs {
    /// # Errors
    /// When there are no authorities, or a file of them cannot be used.
    pub(crate) fn trust(&self) -> anyhow::Result<Trust> {
        if let Some(fingerprint) = self.pin {
            return Ok(Trust::pinned(fingerprint));
        }
        if self.insecure {
            note!("quickset: warning: with --insecure anybody can pose as the server");
            return Ok(Trust::insecure());
        }
        let own = self.ca.clone().or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
        let file = own
            .or_else(|| BUNDLES.iter().map(PathBuf::from).find(|file| file.is_file()))
            .context("this system's certificate authorities are not found; name a file with --ca")?;
        let pem = std::fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read; name another file with --ca", named(&file)))?;
        Trust::roots(&pem).with_context(|| format!("{} cannot be used", file.display()))
    }
}

/// Where systems keep the authorities that they believe.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];
