//! The servers, as their operators start them.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use quickset_stacks::StackIdentity;
use tempfile::TempDir;

use super::FileCase;
use crate::os;
use crate::pattern::pieces;

/// What is served, and the certificate and key of all servers.
pub(super) struct ServedFolder {
    home: TempDir,
}

impl ServedFolder {
    pub(super) fn new(cases: &[FileCase]) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let site = home.path().join("site");
        std::fs::create_dir(&site)?;
        for case in cases {
            let mut file = std::fs::File::create(site.join(case.path().trim_start_matches('/')))?;
            for piece in pieces(case.size()) {
                file.write_all(&piece)?;
            }
        }
        StackIdentity::create(home.path(), &[])?;
        Ok(Self { home })
    }

    /// Where the certificate and the key are.
    pub(super) fn identity(&self) -> String {
        self.home.path().display().to_string()
    }
}

/// One that runs; ended if dropped.
pub(super) struct FileServer {
    child: Child,
    pub(super) address: SocketAddr,
}

impl FileServer {
    /// As it comes, but that its clients acknowledge so many packets at a time where that is said.
    pub(super) fn quickset(
        program: &Path,
        folder: &ServedFolder,
        core: Option<usize>,
        ack: Option<u64>,
    ) -> Result<Self> {
        let home = folder.home.path();
        let mut command = Command::new(program.canonicalize()?);
        command.args(["http", "serve", "site", "--listen", "127.0.0.1:0", "--cert", "cert.pem"]);
        command.args(["--key", "key.pem"]).current_dir(home).stdout(Stdio::piped());
        if let Some(every) = ack {
            command.args(["--ack", &format!("{every}:fixed")]);
        }
        let mut child = on(core, command)?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it was asked for")?).read_line(&mut line)?;
        let address = line.split(' ').nth(2).and_then(|address| address.parse().ok());
        let server = Self { child, address: address.unwrap_or_else(|| ([0; 4], 0).into()) };
        if server.address.port() == 0 {
            bail!("quickset says {line:?} and not where it listens");
        }
        Ok(server)
    }

    /// With what its manual says of speed: one worker for its core, files kept open, no log. Over TLS by a
    /// library it reads files by itself; `sendfile` counts where the kernel does TLS.
    pub(super) fn nginx(program: &Path, folder: &ServedFolder, core: Option<usize>) -> Result<Self> {
        let home = folder.home.path();
        // It cannot be told to find a port and say which.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        std::fs::write(home.join("nginx.conf"), configuration(home, address)?)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(home).arg("-c").arg(home.join("nginx.conf"));
        command.arg("-e").arg(home.join("nginx.log"));
        let mut server = Self { child: on(core, command)?, address };
        let since = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                let log = std::fs::read_to_string(home.join("nginx.log")).unwrap_or_default();
                bail!("nginx ended ({status}): {log}");
            }
            if since.elapsed() > LIMIT {
                bail!("nginx takes no connection");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// CPU time that it has taken so far.
    pub(super) fn cpu_s(&self) -> Result<f64> {
        os::cpu_s_of(self.child.id())
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process that runs on this core only: it inherits that from the thread that starts it.
fn on(core: Option<usize>, mut command: Command) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = move || {
        if let Some(core) = core {
            os::pin(core)?;
        }
        anyhow::Ok(command.spawn()?)
    };
    let started = std::thread::spawn(start).join().unwrap_or_else(|_| bail!("there was a panic"));
    started.with_context(|| format!("cannot start {program}"))
}

fn configuration(home: &Path, address: SocketAddr) -> Result<String> {
    let home = home.to_str().context("the folder for temporary files has a name that is no text")?;
    let mut text = String::new();
    writeln!(text, "daemon off; master_process off; worker_processes 1; pid {home}/nginx.pid;")?;
    writeln!(text, "events {{ worker_connections 4096; multi_accept on; }}")?;
    writeln!(text, "http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;")?;
    writeln!(text, "open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;")?;
    writeln!(text, "keepalive_timeout 1h; keepalive_requests 1000000000; output_buffers 2 256k;")?;
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(text, "{kind}_temp_path {home}/{kind};")?;
    }
    writeln!(text, "server {{ listen {address} ssl backlog=1024; root {home}/site;")?;
    writeln!(text, "ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem;")?;
    writeln!(text, "ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;")?;
    writeln!(text, "ssl_ecdh_curve X25519; ssl_session_tickets off; }} }}")?;
    Ok(text)
}

/// How long a server may take until it listens.
const LIMIT: Duration = Duration::from_secs(10);
