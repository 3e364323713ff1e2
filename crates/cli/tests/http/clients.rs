//! Clients that prove who they are, and where.

use std::fs;
use std::path::Path;

use quickset::Identity;
use quickset::rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};

use crate::served::{Served, text};
use crate::tcp;

/// An authority.
struct Authority {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), key }
    }

    /// Writes a certificate of somebody, and the key, and returns the words for them.
    fn signs(&self, name: &str, folder: &Path) -> Vec<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.certificate, &self.key).unwrap();
        write(name, &certificate.pem(), &key.serialize_pem(), folder)
    }
}

fn write(name: &str, cert: &str, key: &str, folder: &Path) -> Vec<String> {
    let file = |end: &str| folder.join(format!("{name}.{end}")).to_str().unwrap().to_owned();
    fs::write(file("crt"), cert).unwrap();
    fs::write(file("key"), key).unwrap();
    #[cfg(unix)]
    fs::set_permissions(file("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    vec!["--cert".to_owned(), file("crt"), "--key".to_owned(), file("key")]
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[cfg(unix)]
#[test]
fn only_clients_of_the_authority_are_served_and_called_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, authority.certificate.pem()).unwrap();
    let alice = authority.signs("Alice B.", folder.path());
    let mallory = Authority::new().signs("Mallory", folder.path());
    let own = Identity::self_signed(["self.example"]).unwrap();
    let own = write("own", own.certificate_pem(), own.private_key_pem(), folder.path());
    for early in [&[][..], &["--early-data"]] {
        let options = [&["--access-log", "--client-ca", ca.to_str().unwrap()], early].concat();
        let mut served = Served::new("clients", &options);
        for strangers in [vec![], words(&mallory), words(&own)] {
            let output = served.get(&["/small.txt"], &strangers);
            assert!(!output.status.success() && output.stdout.is_empty(), "{strangers:?}");
            for version in ["--http1.1", "--http2"] {
                let output = tcp::curl(&served, version, "/small.txt", &strangers);
                assert!(!output.status.success() && output.stdout.is_empty(), "{version} {strangers:?}");
            }
        }
        let output = served.get(&["/small.txt"], &words(&alice));
        assert_eq!(text(&output.stdout), "small", "{}", text(&output.stderr));
        for version in ["--http1.1", "--http2"] {
            assert_eq!(
                tcp::curl(&served, version, "/small.txt", &words(&alice)).stdout,
                b"small",
                "{version}"
            );
        }
        let log = served.stop();
        assert_eq!(log.matches(" \"Alice B.\" [").count(), 3, "{log}");
        assert_eq!(log.lines().count(), 3, "{log}");
    }
}

/// RFC 9000 §8.1.2.
#[test]
fn new_clients_prove_their_address_where_that_is_wanted() {
    for (words, retries) in [(&["--retry"][..], true), (&[], false)] {
        let served = Served::new("retry", words);
        let traces = served.folder.join("got");
        let output = served.get(&["/small.txt"], &["--qlog", traces.to_str().unwrap()]);
        assert_eq!(text(&output.stdout), "small");
        let trace = fs::read_dir(&traces).unwrap().next().unwrap().unwrap().path();
        let trace = fs::read_to_string(trace).unwrap();
        assert!(trace.contains("\"packet_type\":\"initial\""), "{trace}");
        assert_eq!(trace.contains("\"packet_type\":\"retry\""), retries);
    }
}

#[test]
fn authorities_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let serve = || {
        let words = ["http", "serve", ".", "--listen", "127.0.0.1:0", "--client-ca", file.to_str().unwrap()];
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let said = serve();
    assert!(said.contains("ca.pem cannot be read: No such file or directory (os error 2)"), "{said}");
    for nothing in ["", "nonsense"] {
        fs::write(&file, nothing).unwrap();
        assert!(serve().contains("--client-ca"), "{nothing}");
    }
}
