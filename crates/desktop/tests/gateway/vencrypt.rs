//! VNC servers that encrypt by VeNCrypt: what was written by hand from rfbproto, and TLS, in front of the VNC
//! server of the other tests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quickset::rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use quickset::{Identity, ServerConfig, Trust};
use quickset_desktop::serve::{ServeError, VncError, VncTrust};
use quickset_rfb::{PlainLogin, Security, ServerEvent, VncPassword};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::person::Person;
use super::scene::{Far, Home, Setting, join};
use super::vnc::Vnc;

/// None, VncAuth, VeNCrypt.
const NONE: u8 = 1;
const VNC_AUTH: u8 = 2;
const VENCRYPT: u8 = 19;

/// Sub-types.
const TLS_NONE: u32 = 257;
const TLS_VNC: u32 = 258;
const X509_NONE: u32 = 260;
const X509_VNC: u32 = 261;
const X509_PLAIN: u32 = 262;

/// What takes connections in front of a VNC server.
struct Veil {
    address: SocketAddr,
    /// How many have come as far as what is inside.
    inside: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

struct Cloth {
    identity: Identity,
    types: Vec<u8>,
    subtypes: Vec<u32>,
    /// For X509Plain, as it is sent.
    login: Vec<u8>,
}

impl Cloth {
    fn new(identity: &Identity, subtypes: &[u32]) -> Self {
        let (identity, subtypes) = (identity.clone(), subtypes.to_vec());
        Self { identity, types: vec![VENCRYPT], subtypes, login: Vec::new() }
    }
}

impl Veil {
    async fn hang(vnc: &Vnc, cloth: Cloth) -> Self {
        Self::hang_on("127.0.0.1:0".parse().unwrap(), vnc, cloth).await
    }

    async fn hang_on(address: SocketAddr, vnc: &Vnc, cloth: Cloth) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (inside, inner, cloth) = (Arc::new(AtomicUsize::new(0)), vnc.address, Arc::new(cloth));
        let count = inside.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (cloth, count) = (cloth.clone(), count.clone());
                // Whoever leaves early is not missed.
                tokio::spawn(async move { cloth.serve(socket, inner, &count).await.ok() });
            }
        });
        Self { address, inside, task }
    }

    fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    /// Leaves the address to another.
    async fn fall(self) -> SocketAddr {
        self.task.abort();
        let _ = self.task.await;
        self.address
    }
}

impl Cloth {
    async fn serve(
        &self,
        mut socket: TcpStream,
        inner: SocketAddr,
        inside: &AtomicUsize,
    ) -> std::io::Result<()> {
        socket.write_all(b"RFB 003.008\n").await?;
        socket.read_exact(&mut [0; 12]).await?;
        socket.write_all(&[&[self.types.len() as u8], &self.types[..]].concat()).await?;
        let kind = socket.read_u8().await?;
        if kind != VENCRYPT {
            inside.fetch_add(1, Ordering::Relaxed);
            let mut inner = enter(inner, kind).await?;
            tokio::io::copy_bidirectional(&mut socket, &mut inner).await?;
            return Ok(());
        }
        socket.write_all(&[0, 2]).await?;
        assert_eq!((socket.read_u8().await?, socket.read_u8().await?), (0, 2));
        socket.write_all(&[0, self.subtypes.len() as u8]).await?;
        for subtype in &self.subtypes {
            socket.write_u32(*subtype).await?;
        }
        let chosen = socket.read_u32().await?;
        assert!(self.subtypes.contains(&chosen), "{chosen}");
        socket.write_u8(1).await?;
        let tls = ServerConfig::new(self.identity.clone(), &["rfb"]).unwrap().tls(&[]);
        let mut stream = TlsAcceptor::from(tls).accept(socket).await?;
        // Something of what is inside has to come, or be waited for.
        if chosen == X509_PLAIN {
            let mut login = vec![0; self.login.len()];
            stream.read_exact(&mut login).await?;
            if login != self.login {
                stream.write_all(b"\0\0\0\x01\0\0\0\x04nope").await?;
                return stream.shutdown().await;
            }
        }
        inside.fetch_add(1, Ordering::Relaxed);
        let mut inner = enter(inner, if chosen == X509_VNC { VNC_AUTH } else { NONE }).await?;
        tokio::io::copy_bidirectional(&mut stream, &mut inner).await?;
        Ok(())
    }
}

/// The VNC server behind, where it waits after the choice of a type.
async fn enter(inner: SocketAddr, kind: u8) -> std::io::Result<TcpStream> {
    let mut inner = TcpStream::connect(inner).await?;
    inner.read_exact(&mut [0; 12]).await?;
    inner.write_all(b"RFB 003.008\n").await?;
    inner.read_exact(&mut [0; 2]).await?;
    inner.write_u8(kind).await?;
    Ok(inner)
}

/// Clients of which the VNC server has heard a word.
fn heard(vnc: &Vnc) -> usize {
    vnc.events().iter().filter(|event| matches!(event, ServerEvent::Ready { .. })).count()
}

fn identity() -> Identity {
    Identity::self_signed(["whatever"]).unwrap()
}

fn trusting(vnc_trust: VncTrust) -> Setting {
    Setting { vnc_trust, ..Setting::default() }
}

fn known(home: &Home) -> VncTrust {
    VncTrust::Known(home.server().known_vnc_servers().unwrap())
}

/// Why the gateway has ended, for good.
async fn end(home: &Home, vnc: SocketAddr, setting: Setting) -> String {
    let error = Far::start(home, vnc, setting).end().await;
    assert!(matches!(&error, ServeError::Vnc(error) if error.is_final()), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_key_is_believed_on_first_use_and_no_other_from_then_on() {
    let home = Home::new();
    let vnc = Vnc::start(64, 48).await;
    let first = identity();
    let veil = Veil::hang(&vnc, Cloth::new(&first, &[TLS_NONE, X509_NONE])).await;
    let (far, near) = join(&home, veil.address, trusting(known(&home))).await;
    let mut person = Person::sit(near.address).await;
    vnc.fill(quickset_rfb::Rect::sized(64, 48), 0x00c0_ffee);
    person.sees(&vnc).await;
    person.press(0x61);
    person.until("sent", |_| true).await;
    vnc.until("a key", |vnc| vnc.keys() == [(true, 0x61), (false, 0x61)]).await;
    far.kill().await;
    near.kill().await;
    let path = home.0.join("server/known_vnc_servers");
    let line = format!("{} {}\n", veil.address, first.fingerprint());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), line);
    // Somebody else on the same port, who would take anybody.
    let address = veil.fall().await;
    let second = identity();
    let other = Veil::hang_on(address, &vnc, Cloth::new(&second, &[X509_NONE])).await;
    let words = end(&home, address, trusting(known(&home))).await;
    for told in ["HAS CHANGED", &first.fingerprint().to_string(), &second.fingerprint().to_string()] {
        assert!(words.contains(told), "{words}");
    }
    assert!(words.contains("line 1 of") && words.contains("openssl"), "{words}");
    // And one who would have it in clear.
    let address = other.fall().await;
    let open = Cloth { types: vec![NONE], ..Cloth::new(&second, &[]) };
    let _open = Veil::hang_on(address, &vnc, open).await;
    let words = end(&home, address, trusting(known(&home))).await;
    assert!(words.contains("has to be encrypted, since it was before, as line 1 of"), "{words}");
    assert_eq!(heard(&vnc), 1, "nobody but the first was told anything");
}

#[tokio::test]
async fn passwords_are_given_inside() {
    let home = Home::new();
    let security = Security::VncAuth(VncPassword::new(b"right"));
    let vnc = Vnc::start_on("127.0.0.1:0".parse().unwrap(), 8, 8, security).await;
    let mine = identity();
    let veil = Veil::hang(&vnc, Cloth::new(&mine, &[X509_VNC])).await;
    let with = |password: &[u8]| Setting {
        vnc_password: Some(VncPassword::new(password)),
        ..trusting(VncTrust::Pinned(mine.fingerprint()))
    };
    let words = end(&home, veil.address, with(b"wrong")).await;
    assert!(words.contains("authentication failed"), "{words}");
    assert_eq!(veil.inside(), 1, "it is not tried again");
    let words = end(&home, veil.address, trusting(VncTrust::Pinned(mine.fingerprint()))).await;
    assert!(words.contains("X509Vnc") && words.contains("--vnc-password-file"), "{words}");
    let (_far, near) = join(&home, veil.address, with(b"right")).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

#[tokio::test]
async fn names_and_passwords_are_given_inside() {
    let home = Home::new();
    let vnc = Vnc::start(8, 8).await;
    let mine = identity();
    let login = b"\0\0\0\x03\0\0\0\x05joeright".to_vec();
    let veil = Veil::hang(&vnc, Cloth { login, ..Cloth::new(&mine, &[X509_VNC, X509_PLAIN]) }).await;
    let with = |password: &str| Setting {
        vnc_login: Some(PlainLogin::new("joe", password)),
        ..trusting(VncTrust::Pinned(mine.fingerprint()))
    };
    let words = end(&home, veil.address, with("wrong")).await;
    assert!(words.contains("authentication failed: nope"), "{words}");
    assert_eq!(veil.inside(), 0);
    let (_far, near) = join(&home, veil.address, with("right")).await;
    Person::sit(near.address).await.sees(&vnc).await;
}

/// A server's identity, and the authority that has signed it.
fn signed(name: &str) -> (Identity, Trust) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let own = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let leaf = leaf.signed_by(&own, &authority, &key).unwrap();
    let identity = Identity::from_pem(&leaf.pem(), &own.serialize_pem()).unwrap();
    (identity, Trust::roots(&authority.pem()).unwrap())
}

#[tokio::test]
async fn authorities_and_pins() {
    let home = Home::new();
    let vnc = Vnc::start(8, 8).await;
    let (right, trust) = signed("127.0.0.1");
    let veil = Veil::hang(&vnc, Cloth::new(&right, &[X509_NONE])).await;
    let (far, near) = join(&home, veil.address, trusting(VncTrust::Authorities(trust.clone()))).await;
    Person::sit(near.address).await.sees(&vnc).await;
    far.kill().await;
    near.kill().await;
    let pin = identity().fingerprint();
    let words = end(&home, veil.address, trusting(VncTrust::Pinned(pin))).await;
    assert!(words.contains(&format!("has the key {}, and not {pin}", right.fingerprint())), "{words}");
    // Of an authority that nobody has named, and of another name.
    let (_, other) = signed("127.0.0.1");
    let words = end(&home, veil.address, trusting(VncTrust::Authorities(other))).await;
    assert!(words.contains("is not believed") && words.contains("--vnc-ca"), "{words}");
    let (elsewhere, trust_elsewhere) = signed("desk.example");
    let misled = Veil::hang(&vnc, Cloth::new(&elsewhere, &[X509_NONE])).await;
    let words = end(&home, misled.address, trusting(VncTrust::Authorities(trust_elsewhere))).await;
    assert!(words.contains("is not believed"), "{words}");
    // What is not encrypted at all is none of both.
    let open = Veil::hang(&vnc, Cloth { types: vec![NONE], ..Cloth::new(&right, &[]) }).await;
    let words = end(&home, open.address, trusting(VncTrust::Authorities(trust))).await;
    assert!(words.contains("has to be encrypted, since --vnc-ca names its authority"), "{words}");
    assert_eq!(heard(&vnc), 1, "nobody but the first was told anything");
}

#[tokio::test]
async fn who_encrypts_without_a_certificate_is_told_the_option() {
    let home = Home::new();
    let vnc = Vnc::start(8, 8).await;
    let veil = Veil::hang(&vnc, Cloth::new(&identity(), &[TLS_NONE, TLS_VNC])).await;
    let words = end(&home, veil.address, trusting(known(&home))).await;
    assert!(words.contains("TLSNone, TLSVnc") && words.contains("-SecurityTypes X509Vnc"), "{words}");
    // Without TLS of our own nothing of it is tried.
    let words = end(&home, veil.address, Setting::default()).await;
    assert!(words.contains("the server offers VeNCrypt"), "{words}");
}

#[tokio::test]
async fn on_another_machine_it_is_encrypted_where_that_is_offered() {
    // On one's own it is not: nobody is in between. An address of this machine that is not the loopback's
    // passes for another.
    let own = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Nothing is sent there.
        socket.connect("192.0.2.1:9")?;
        Ok(socket.local_addr()?.ip())
    });
    let Some(own) = own.ok().filter(|own: &IpAddr| !own.is_loopback() && !own.is_unspecified()) else {
        eprintln!("skipped: this machine has no address but the loopback's");
        return;
    };
    let home = Home::new();
    let vnc = Vnc::start(8, 8).await;
    let mine = identity();
    let cloth = |subtypes: &[u32]| Cloth { types: vec![NONE, VENCRYPT], ..Cloth::new(&mine, subtypes) };
    for (address, subtypes, is_known) in [
        (IpAddr::from([127, 0, 0, 1]), X509_NONE, false),
        (own, X509_NONE, true),
        // It encrypts as we cannot, and takes us without.
        (own, TLS_NONE, false),
    ] {
        let veil = Veil::hang_on((address, 0).into(), &vnc, cloth(&[subtypes])).await;
        let (far, near) = join(&home, veil.address, trusting(known(&home))).await;
        Person::sit(near.address).await.sees(&vnc).await;
        far.kill().await;
        near.kill().await;
        let VncTrust::Known(servers) = known(&home) else { unreachable!() };
        let found = servers.look_up(&veil.address.to_string()).unwrap();
        assert_eq!(found.is_some(), is_known, "{address} {subtypes}");
        assert_eq!(veil.inside(), 1);
    }
}

#[test]
fn what_goes_wrong_on_the_way_is_tried_again() {
    let target = || "h:1".to_owned();
    let error = std::io::ErrorKind::ConnectionReset.into();
    assert!(!VncError::Tls { target: target(), error }.is_final());
    assert!(VncError::Certificate { target: target(), fault: String::new() }.is_final());
}
