//! Invitations, and what comes of them at the gate and for pages.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime};

use quickset::Fingerprint;

use super::*;
use crate::message::{DeviceTag, ShownToken};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SERVER: Fingerprint = Fingerprint([9; 32]);
const HOUR: Duration = Duration::from_secs(3600);

/// Of a server with a folder of its own, which is gone after the test.
struct Server {
    folder: std::path::PathBuf,
    now: SystemTime,
}

impl Server {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("quickset-invited-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        // Files keep whole seconds.
        Self { folder, now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) }
    }

    fn invitations(&self) -> Invitations {
        GatewayFolder::at(&self.folder).invitations().unwrap()
    }

    fn authorized(&self) -> Authorized {
        GatewayFolder::at(&self.folder).authorized().unwrap()
    }

    fn gate(&self) -> ClientGate {
        ClientGate::new(self.authorized(), None).with_invitations(self.invitations())
    }

    fn links(&self) -> PageLinks {
        PageLinks::new().with_invitations(self.invitations())
    }

    fn invite(&self, rights: DeviceRights) -> OneTimeToken {
        self.invitations().add(self.now, SERVER, rights, "a phone # x").unwrap().1
    }

    /// How the device `n` fares that has a token, of a version that names it or not.
    fn shows(
        &self,
        gate: &ClientGate,
        n: u8,
        token: &OneTimeToken,
        id: Option<&str>,
    ) -> Result<GateEntry, Denial> {
        let client =
            ProvenKey { address: [10, 0, 0, n].into(), key: Fingerprint([n; 32]), exported: [3; 32] };
        let (asking, share) = Secret::token(token, SERVER).ask();
        let now = Now { instant: Instant::now(), date: self.now };
        let challenge = gate.challenge(now, client, SecretKind::Token, id, &share)?;
        let proof = asking.hear(&challenge.answer, &client.exported);
        gate.settle(self.now, &challenge, proof.as_ref(), None)
    }

    fn opens(&self, links: &PageLinks, token: &OneTimeToken, device: &str) -> Result<PageEntry, Denial> {
        let now = Now { instant: Instant::now(), date: self.now };
        links.judge(now, HERE, &ShownToken::new(token.reveal()), &DeviceTag(device.into()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn looks_for_an_hour(server: &Server) -> DeviceRights {
    DeviceRights { view_only: true, desktop: "work".parse().ok(), until: Some(server.now + HOUR) }
}

#[test]
fn a_token_lets_one_device_in_with_its_rights() {
    let mut server = Server::new("one");
    let (gate, rights) = (server.gate(), looks_for_an_hour(&server));
    let (first, second) = (server.invite(rights.clone()), server.invite(DeviceRights::default()));
    // Of several tokens each is the one that it is: the newest is meant by whoever does not say.
    assert!(matches!(server.shows(&gate, 1, &first, None), Err(Denial::WrongSecret)));
    let entry = server.shows(&gate, 1, &first, Some(first.id())).unwrap();
    assert_eq!(entry, GateEntry { by: By::Token, rights: rights.clone() });
    assert!(matches!(server.shows(&gate, 2, &first, Some(first.id())), Err(Denial::WrongSecret)), "twice");
    assert_eq!(server.shows(&gate, 3, &second, None).unwrap().rights, DeviceRights::default());
    // From then on its key does, with the same rights, until they end.
    let key = Fingerprint([1; 32]);
    let lines = fs::read_to_string(server.authorized().path()).unwrap();
    assert!(
        lines.contains(&format!("{key} view-only desktop=work until=2027-01-15T09:00:00Z a phone")),
        "{lines}"
    );
    assert_eq!(server.authorized().rights(server.now, key, None).unwrap(), Some(rights));
    assert!(gate.holds(server.now, key, &entry));
    server.now += HOUR;
    assert_eq!(server.authorized().rights(server.now, key, None).unwrap(), None);
    assert!(!gate.holds(server.now, key, &entry), "whoever is in goes");
    // Nor does a key hold that somebody has taken out.
    let other = (Fingerprint([3; 32]), GateEntry { by: By::Token, rights: DeviceRights::default() });
    assert!(gate.holds(server.now, other.0, &other.1));
    assert!(server.authorized().remove(other.0).unwrap());
    assert!(!gate.holds(server.now, other.0, &other.1));
}

#[test]
fn a_link_is_of_the_browser_that_has_opened_it_first() {
    // WB-20.
    let mut server = Server::new("link");
    let (links, rights) = (server.links(), looks_for_an_hour(&server));
    let token = server.invite(rights.clone());
    assert!(matches!(server.opens(&links, &token, ""), Err(Denial::Older)), "it cannot be told apart");
    let entry = server.opens(&links, &token, "phone").unwrap();
    assert_eq!(entry, PageEntry { link: PageLinkId::Invitation(token.id().into()), rights });
    for _ in 0..40 {
        assert_eq!(server.opens(&links, &token, "phone").unwrap(), entry, "a reload, another tab");
        assert!(matches!(server.opens(&links, &token, "somebody"), Err(Denial::OtherDevice)));
    }
    assert!(matches!(server.opens(&links, &OneTimeToken::random(), "phone"), Err(Denial::WrongSecret)));
    // A gateway finds it used, too, and a server that starts anew knows what was.
    assert!(matches!(server.shows(&server.gate(), 1, &token, Some(token.id())), Err(Denial::WrongSecret)));
    let anew = server.links();
    assert!(matches!(server.opens(&anew, &token, "somebody"), Err(Denial::OtherDevice)));
    assert!(anew.holds(server.now, &entry));
    let kept = server.now;
    server.now += HOUR;
    assert!(!anew.holds(server.now, &entry));
    assert!(matches!(server.opens(&anew, &token, "phone"), Err(Denial::WrongSecret)));
    assert!(server.invitations().remove(kept, token.id()).unwrap());
    assert!(!anew.holds(kept, &entry), "taken back");
}

#[test]
fn an_invitation_that_nobody_takes_ends_after_a_day() {
    let mut server = Server::new("day");
    let [a, b] = [(); 2].map(|()| server.invite(DeviceRights::default()));
    let links = server.links();
    server.opens(&links, &a, "phone").unwrap();
    server.now += HOUR * 24;
    assert!(server.opens(&links, &a, "phone").is_ok(), "it was taken");
    assert!(matches!(server.opens(&links, &b, "phone"), Err(Denial::WrongSecret)));
    // The next change leaves out what is over.
    assert_eq!(server.invitations().list(server.now).unwrap().len(), 1);
    server.invite(DeviceRights::default());
    let text = fs::read_to_string(server.invitations().path()).unwrap();
    assert!(!text.contains(b.id()) && text.lines().count() == 2, "{text}");
}

#[test]
fn of_many_that_open_a_link_at_once_one_has_it() {
    let server = Server::new("race");
    let (links, token) = (server.links(), server.invite(DeviceRights::default()));
    let opened: Vec<bool> = std::thread::scope(|scope| {
        let (server, links, token) = (&server, &links, &token);
        let open = |n| scope.spawn(move || server.opens(links, token, &format!("device {n}")).is_ok());
        let threads: Vec<_> = (0..3).map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(opened.iter().filter(|opened| **opened).count(), 1, "{opened:?}");
}

#[test]
fn what_people_write_there_stays_and_what_is_spoilt_lets_nobody_in() {
    let server = Server::new("spoilt");
    let token = server.invite(DeviceRights::default());
    let path = server.invitations().path().to_owned();
    let line = fs::read_to_string(&path).unwrap();
    let longer = line.replace("a phone", "until=soon a phone");
    fs::write(&path, format!("# mine\n\n{longer}nonsense\nabcde open=now secret=12\n")).unwrap();
    assert!(server.invitations().list(server.now).unwrap().is_empty());
    assert!(matches!(server.opens(&server.links(), &token, "phone"), Err(Denial::WrongSecret)));
    let added = server.invite(DeviceRights::default());
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with(&format!("# mine\n\n{longer}nonsense\nabcde open=now secret=12\n{} ", added.id()))
    );
    // Nobody finds a token in it, nor in what is printed for debugging.
    assert!(!text.contains(added.reveal()));
    let told = format!("{:?}", server.invitations().list(server.now).unwrap());
    let secret = text.lines().last().unwrap().split("secret=").nth(1).unwrap().split(' ').next().unwrap();
    assert!(secret.len() == 64 && !told.contains(secret), "{told}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let said = server.invitations().list(server.now).unwrap_err().to_string();
        assert!(said.contains("chmod 600"), "{said}");
    }
}

#[test]
fn an_invitation_survives_when_the_key_cannot_be_written_down() {
    let server = Server::new("full");
    let (gate, token) = (server.gate(), server.invite(DeviceRights::default()));
    fs::create_dir(server.authorized().path()).unwrap();
    assert!(server.shows(&gate, 1, &token, Some(token.id())).is_err());
    fs::remove_dir(server.authorized().path()).unwrap();
    assert_eq!(server.shows(&gate, 1, &token, Some(token.id())).unwrap().by, By::Token);
}
