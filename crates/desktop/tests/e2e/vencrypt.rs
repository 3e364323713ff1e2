//! TigerVNC's server with certificates of its own, behind the gateways.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use quickset::Identity;
use quickset_rfb::VncPassword;

use super::person::Person;
use super::programs::{Display, Program};
use super::{Folder, LIMIT, quickset};

const PASSWORD: &str = "swordfis";

/// What is to be a server's, in files.
struct Files {
    folder: Folder,
    identity: Identity,
}

impl Files {
    fn new(name: &str) -> Self {
        let (folder, identity) = (Folder::new(name), Identity::self_signed(["127.0.0.1"]).unwrap());
        let write = |name: &str, content: &[u8]| {
            let path = folder.0.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("cert.pem", identity.certificate_pem().as_bytes());
        write("key.pem", identity.private_key_pem().as_bytes());
        write("right", PASSWORD.as_bytes());
        write("wrong", b"tuna");
        // The password of a server is kept encrypted by a key that is the same everywhere.
        let key = VncPassword::new(&[23, 82, 107, 6, 35, 78, 88, 7]);
        let two: [u8; 16] = PASSWORD.repeat(2).into_bytes().try_into().unwrap();
        write("passwd", &key.answer(&two)[..8]);
        Self { folder, identity }
    }

    fn path(&self, name: &str) -> String {
        self.folder.0.join(name).display().to_string()
    }

    /// A server with these security types.
    async fn display(&self, types: &str) -> Display {
        Display::begin(|name, port| {
            let mut command = Command::new("Xtigervnc");
            command.args([name, "-geometry", "640x480", "-depth", "24", "-localhost=1", "-AlwaysShared"]);
            command.args(["-rfbport", &port.to_string(), "-SecurityTypes", types]);
            command.args(["-X509Cert", &self.path("cert.pem"), "-X509Key", &self.path("key.pem")]);
            command.args(["-PasswordFile", &self.path("passwd")]);
            command
        })
        .await
    }

    /// A gateway in front of it, with these options.
    fn serve(&self, display: &Display, options: &[&str]) -> Program {
        Program::start(
            quickset()
                .args(["serve", "--vnc", &display.vnc.to_string(), "--listen", "127.0.0.1:0"])
                .args(options)
                .env("XDG_DATA_HOME", self.folder.0.join("server")),
        )
    }

    /// Looks at the desktop through both gateways, until it shows windows of two colours.
    async fn look(&self, display: &Display, options: &[&str]) {
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let mut serve = self.serve(display, options);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        let mut view = Program::start(
            quickset()
                .args(["view", address, "--listen", "127.0.0.1:0", "--pin", fingerprint, "--token", &token])
                .env("XDG_DATA_HOME", self.folder.0.join("client")),
        );
        let gateway = view.prints("where it listens", listening).await.parse().unwrap();
        let mut person = Person::sit(gateway).await;
        for (colour, pixel) in [("#123456", 0x0012_3456), ("#654321", 0x0065_4321)] {
            let _window = display.run("xterm", &["-geometry", "80x30+0+0", "-bg", colour]);
            person.until(colour, |p| p.screen.pixel(300, 300) == Some(pixel)).await;
        }
        // The next comes in by another key and another token.
        std::fs::remove_dir_all(self.folder.0.join("client")).unwrap();
        std::fs::remove_file(self.folder.0.join("server/quickset/authorized_clients")).unwrap();
    }

    /// Waits until a gateway that makes no sense has ended, and returns its words.
    async fn refused(&self, display: &Display, options: &[&str], told: &str) {
        let mut serve = self.serve(display, options);
        let end = Instant::now() + LIMIT;
        while !(serve.ended() && serve.lines().iter().any(|line| line.contains(told))) {
            assert!(Instant::now() < end, "in vain: {told}; {:?}", serve.lines());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs X programs: cargo xtask e2e"]
async fn vnc_servers_with_certificates() {
    let files = Files::new("x509");
    let (right, wrong) = (files.path("right"), files.path("wrong"));
    let pin = files.identity.fingerprint().to_string();
    let other = Identity::self_signed(["other"]).unwrap().fingerprint().to_string();
    let display = files.display("X509None").await;
    files.refused(&display, &["--vnc-pin", &other], "Nothing was sent").await;
    // On first use, and then as known; with its own certificate for an authority.
    files.look(&display, &[]).await;
    let known = std::fs::read_to_string(files.folder.0.join("server/quickset/known_vnc_servers")).unwrap();
    assert_eq!(known, format!("{} {pin}\n", display.vnc));
    files.look(&display, &[]).await;
    files.look(&display, &["--vnc-ca", &files.path("cert.pem")]).await;
    drop(display);
    let display = files.display("X509Vnc,TLSVnc").await;
    files.refused(&display, &["--vnc-pin", &pin], "--vnc-password-file").await;
    files
        .refused(&display, &["--vnc-pin", &pin, "--vnc-password-file", &wrong], "authentication failed")
        .await;
    files.look(&display, &["--vnc-pin", &pin, "--vnc-password-file", &right]).await;
    drop(display);
    // What it has unless told, without the way that is not encrypted.
    let display = files.display("TLSVnc").await;
    files.refused(&display, &["--vnc-password-file", &right], "-SecurityTypes X509Vnc").await;
}
