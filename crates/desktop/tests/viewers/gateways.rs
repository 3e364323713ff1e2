use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use super::programs::Program;

/// Both gateways, over loopback.
pub(crate) struct Gateways {
    _serve: Program,
    _view: Program,
    /// Where viewers connect.
    pub(crate) address: SocketAddr,
}

impl Gateways {
    /// In front of a VNC server. What they keep is below `folder`.
    pub(crate) async fn start(vnc: SocketAddr, folder: &Folder) -> Self {
        let mut serve = Program::start(
            quickset()
                .args(["serve", "--vnc", &vnc.to_string(), "--listen", "127.0.0.1:0"])
                .env("XDG_DATA_HOME", folder.0.join("server")),
        );
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        let mut view = Program::start(
            quickset()
                .args(["view", address, "--listen", "127.0.0.1:0", "--pin", fingerprint, "--token", &token])
                .env("XDG_DATA_HOME", folder.0.join("client")),
        );
        let address = view.prints("where it listens", listening).await.parse().unwrap();
        view.prints("that it is connected", |line| line.contains("connected").then_some(())).await;
        Self { _serve: serve, _view: view, address }
    }
}

/// The command lies where cargo puts both, unless it is named.
fn quickset() -> Command {
    let built = || std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("quickset").into();
    let mut command = Command::new(std::env::var_os("QUICKSET_BIN").unwrap_or_else(built));
    command.arg("desktop");
    command
}

/// Gone after the row.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(row: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-viewers-{}-{row}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A browser's children write for a moment after it was stopped.
        for _ in 0..30 {
            let gone = std::fs::remove_dir_all(&self.0);
            if gone.is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}
