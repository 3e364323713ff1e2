//! Clients as people start them: each is a process of its own, which fetches the file once.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use quickset::Fingerprint;
use quickset_stacks::StackIdentity;

use super::{FileCase, FileWay};
use crate::cases::{CaseFound, TimedSpan};
use crate::os;
use crate::wire::say;

/// Where the server is, and whom to trust.
pub(super) struct ServerFound {
    pub(super) address: SocketAddr,
    pub(super) identity: StackIdentity,
}

/// Has as many processes at a time as the case has clients, again and again until the time is over and all
/// have ended.
pub(super) fn fetch(
    way: FileWay,
    case: FileCase,
    program: &Path,
    server: &ServerFound,
    time: Duration,
) -> Result<()> {
    let (began, own) = (Instant::now(), os::cpu_s_of_children()?);
    let (span, mut times) = (TimedSpan::begin()?, Vec::new());
    while began.elapsed() < time {
        let begun = Instant::now();
        let children = (0..case.clients()).map(|_| start(way, case, program, server));
        for child in children.collect::<Result<Vec<_>>>()? {
            let output = child.wait_with_output()?;
            ensure!(output.status.success(), "{} failed ({})", program.display(), output.status);
            let bytes = fetched(way, &output.stdout)?;
            ensure!(bytes == case.size(), "{bytes} bytes arrived instead of {}", case.size());
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    let found = span.end(case.size() * times.len() as u64, times);
    say(&CaseFound { cpu_s: found.cpu_s + os::cpu_s_of_children()? - own, ..found })
}

fn start(way: FileWay, case: FileCase, program: &Path, server: &ServerFound) -> Result<Child> {
    let url = format!("https://{}{}", server.address, case.path());
    let mut command = Command::new(program);
    match way {
        FileWay::QuicksetH3 => {
            let pin = Fingerprint::of(&server.identity.certificate).context("the certificate has no key")?;
            command.args(["http", "get", "--json", "--pin", &pin.to_string()]);
        }
        // It knows no fingerprints of certificates.
        FileWay::QuicksetH1 | FileWay::NginxH1 => {
            command.args(["--silent", "--show-error", "--insecure", "--http1.1", "--tls13-ciphers"]);
            command.args([
                "TLS_AES_128_GCM_SHA256",
                "--output",
                "/dev/null",
                "--write-out",
                "%{size_download}",
            ]);
        }
    }
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// How many bytes the process says have come.
fn fetched(way: FileWay, said: &[u8]) -> Result<u64> {
    let said = std::str::from_utf8(said)?;
    match way {
        FileWay::QuicksetH3 => {
            let rows: serde_json::Value = serde_json::from_str(said)?;
            rows[0]["bytes"].as_u64().with_context(|| format!("http get says {said:?}"))
        }
        FileWay::QuicksetH1 | FileWay::NginxH1 => said.parse().with_context(|| format!("curl says {said:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_read_of_what_clients_say() {
        let rows = br#"[{"url": "https://a/b", "status": 200, "bytes": 12, "error": null}]"#;
        assert_eq!(fetched(FileWay::QuicksetH3, rows).unwrap(), 12);
        assert_eq!(fetched(FileWay::NginxH1, b"268435456").unwrap(), 268_435_456);
        for (way, said) in
            [(FileWay::QuicksetH3, &b"[]"[..]), (FileWay::QuicksetH3, b""), (FileWay::NginxH1, b"curl: (7)")]
        {
            assert!(fetched(way, said).is_err());
        }
    }
}
