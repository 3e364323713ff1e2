//! Chromium, headless, as a client: a page fetches the files and says in its text what they hold.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quickset_stacks::NAME;
use tokio::process::Command;

use super::{PlayJob, dismissed};

/// The page, for the folder that is served.
pub(crate) const PAGE: &str = r#"<!doctype html><body><script>
const lines = [];
for (const path of location.search.slice(1).split(",")) {
  const ask = new XMLHttpRequest();
  ask.open("GET", path, false);
  // Bytes above 127 come as U+F780 and up.
  ask.overrideMimeType("text/plain; charset=x-user-defined");
  ask.send();
  const protocol = performance.getEntriesByName(new URL(path, location).href)[0]?.nextHopProtocol ?? "";
  const bytes = Array.from(ask.responseText, c => String.fromCharCode(c.charCodeAt(0) & 255)).join("");
  lines.push("file " + path + " " + ask.status + " h3:" + protocol + " " + btoa(bytes) + " end");
}
document.body.textContent = lines.join("\n");
</script></body>
"#;

pub(super) async fn play(job: PlayJob) -> Result<()> {
    tokio::select! {
        // What is given up here is killed: nobody else knows of the browser.
        () = dismissed() => bail!("sent away"),
        ended = browse(job) => ended,
    }
}

async fn browse(job: PlayJob) -> Result<()> {
    let pin = std::fs::read_to_string(job.identity.join("pin"))?;
    let profile = job.identity.join("profile");
    if job.is("priorities") {
        load(&job, &pin, &profile).await?;
        return Ok(std::fs::remove_dir_all(profile)?);
    }
    for paths in job.connections() {
        let text = visit(&job, (&pin, &profile), &format!("page.html?{}", paths.join(",")), &[]).await?;
        for path in paths {
            let line = text
                .split_once(&format!("file {path} "))
                .with_context(|| format!("{path} did not come: {text}"))?;
            let (line, _) = line.1.split_once(" end").context("the page is cut off")?;
            let mut words = line.split(' ');
            ensure!(words.next() == Some("200"), "{path}: {line}");
            let protocol = words.next().unwrap_or_default();
            ensure!(protocol == "h3:h3" || protocol == "h3:", "{path} came by {protocol}");
            let content = STANDARD.decode(words.next().unwrap_or_default());
            job.store(&path, &content.with_context(|| format!("{path} is not in base64"))?)?;
        }
    }
    let _ = std::fs::remove_dir_all(profile);
    Ok(())
}

/// A page with all that belongs to it, and the browser's log of its network.
async fn load(job: &PlayJob, pin: &str, profile: &Path) -> Result<()> {
    let seen = job.seen.as_ref().context("--seen is where its log goes")?;
    let log = format!("--log-net-log={}", seen.join("net.json").display());
    let text = visit(job, (pin, profile), "site.html", &[&log]).await?;
    ensure!(text.contains("loaded ") && text.contains(" by h3"), "the page was not loaded: {text}");
    Ok(())
}

/// What Chromium makes of a page of the server's.
async fn visit(job: &PlayJob, (pin, profile): (&str, &Path), page: &str, words: &[&str]) -> Result<String> {
    // By name: Chromium 156 takes addresses of IPv6 for no origin to force QUIC on, and goes there by TCP.
    let origin = format!("{NAME}:{}", job.address.port());
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--timeout=20000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--host-resolver-rules=MAP {NAME} {}", job.address))
        .arg(format!("--origin-to-force-quic-on={origin}"))
        .arg(format!("--ignore-certificate-errors-spki-list={}", pin.trim()))
        .args(words)
        .arg(format!("https://{origin}/{page}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Why a page did not come is there, and belongs into the log.
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .context("chromium does not start")?
        .wait_with_output()
        .await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
