//! One side of a cell: a process, what it says, and its end.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

/// A running program; killed when dropped.
pub(super) struct MatrixProgram {
    child: Child,
    /// Its standard input, which waiting for the child would close.
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl MatrixProgram {
    /// Starts it; what it says on its standard error goes to a file.
    pub(super) fn start(program: &[OsString], arguments: &[OsString], log: &Path) -> Result<Self> {
        let (name, first) = program.split_first().context("an empty command")?;
        let mut child = Command::new(name)
            .args(first)
            .args(arguments)
            .env("RUST_BACKTRACE", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", name.to_string_lossy()))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let output = BufReader::new(child.stdout.take().context("it was asked for")?);
        let reader = tokio::spawn({
            let said = lines.clone();
            async move {
                let mut output = output.lines();
                while let Ok(Some(line)) = output.next_line().await {
                    said.lock().expect("nobody panics with it").push(line);
                }
            }
        });
        let input = child.stdin.take();
        Ok(Self { child, input, lines, reader })
    }

    /// What it said so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("nobody panics with it").clone()
    }

    /// Where a server listens.
    pub(super) async fn listening(&mut self) -> Result<SocketAddr> {
        for _ in 0..2000 {
            for line in self.lines() {
                if let Some(address) = line.strip_prefix("listening ") {
                    return Ok(address.parse()?);
                }
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once ({status})");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the server did not say where it listens");
    }

    /// Waits for its own end; the status that it ends with.
    pub(super) async fn ended(&mut self) -> Result<i32> {
        let status = self.child.wait().await?;
        let _ = (&mut self.reader).await;
        Ok(status.code().unwrap_or(-1))
    }

    /// The status that it has ended with, if it has.
    pub(super) fn status(&mut self) -> Option<i32> {
        let status = self.child.try_wait().ok()??;
        Some(status.code().unwrap_or(-1))
    }

    /// Tells it that it may go, and makes it if it does not; the status that it went with by itself.
    pub(super) async fn dismiss(&mut self) -> Result<Option<i32>> {
        self.input = None;
        if let Ok(status) = tokio::time::timeout(Duration::from_secs(3), self.ended()).await {
            return Ok(Some(status?));
        }
        self.child.kill().await?;
        Ok(None)
    }

    /// The sum of the values that it noted under a name.
    pub(super) fn noted(&self, name: &str) -> u64 {
        let value = |line: String| {
            let mut words =
                line.strip_prefix("note ")?.split(' ').map(str::to_owned).collect::<Vec<_>>().into_iter();
            (words.next()? == name).then_some(())?;
            words.next()?.parse::<u64>().ok()
        };
        self.lines().into_iter().filter_map(value).sum()
    }
}
