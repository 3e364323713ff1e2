//! Files that are broken or open, servers that change, secrets that are wrong, and all of it at the same
//! time.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use quickset::Fingerprint;

use super::*;

/// The date, where it does not matter.
const NOW: SystemTime = SystemTime::UNIX_EPOCH;

/// A folder that is gone after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quickset-trust-{}-{n}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        chmod(&path, 0o600);
        path
    }

    fn folder(&self) -> GatewayFolder {
        GatewayFolder::at(self.0.join("quickset"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn key(n: u8) -> Fingerprint {
    Fingerprint([n; 32])
}

#[test]
fn an_identity_is_made_once_and_only_its_owner_can_read_it() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let first = folder.client_identity().unwrap().fingerprint();
    assert_eq!(folder.client_identity().unwrap().fingerprint(), first);
    assert_ne!(folder.server_identity().unwrap().fingerprint(), first);
    let dir = scratch.0.join("quickset");
    assert_eq!((mode(&dir), mode(&dir.join("client.pem"))), (0o700, 0o600));
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no draft is left: {names:?}");
}

#[test]
fn of_many_who_make_an_identity_at_once_all_have_the_same() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let prints: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| folder.server_identity().unwrap().fingerprint())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(prints.iter().all(|p| *p == prints[0]), "{prints:?}");
    assert_eq!(folder.server_identity().unwrap().fingerprint(), prints[0]);
}

#[test]
fn a_key_that_others_can_read_or_that_is_broken_is_refused_and_kept() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    folder.client_identity().unwrap();
    let path = scratch.0.join("quickset/client.pem");
    chmod(&path, 0o644);
    let error = folder.client_identity().unwrap_err().to_string();
    assert!(error.contains("chmod 600") && error.contains("644"), "{error}");
    chmod(&path, 0o600);
    for broken in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\u{fffd}"] {
        fs::write(&path, broken).unwrap();
        assert!(matches!(folder.client_identity(), Err(FileError::Content { .. })), "{broken:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), broken, "it was not replaced");
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(folder.client_identity().unwrap_err().to_string().contains("not text"));
    chmod(&scratch.0.join("quickset"), 0o777);
    assert!(folder.client_identity().unwrap_err().to_string().contains("chmod 700"));
}

#[test]
fn passwords_come_from_closed_files() {
    let scratch = Scratch::new();
    let path = scratch.file("password", "swordfish and more\nsecond line\n");
    assert_eq!(read_secret(&path).unwrap(), "swordfish and more");
    chmod(&path, 0o604);
    let error = read_secret(&path).unwrap_err().to_string();
    assert!(error.contains("chmod 600") && !error.contains("swordfish"), "{error}");
    assert!(read_secret(&scratch.file("empty", "\n")).is_err());
    assert!(read_secret(&scratch.0.join("none")).is_err());
    assert!(
        read_secret(&scratch.file("long", &"x".repeat(2 << 20)))
            .unwrap_err()
            .to_string()
            .contains("too long")
    );
}

#[test]
fn logins_have_two_lines() {
    let scratch = Scratch::new();
    let path = scratch.file("login", "joe\nsword fish\nthird line\n");
    assert_eq!(read_login(&path).unwrap(), quickset_rfb::PlainLogin::new("joe", "sword fish"));
    assert_eq!(
        read_login(&scratch.file("open", "joe\n\n")).unwrap(),
        quickset_rfb::PlainLogin::new("joe", ""),
        "a user may have no password"
    );
    for text in ["", "joe", "\nsecret\n"] {
        let error = read_login(&scratch.file("short", text)).unwrap_err().to_string();
        assert!(error.contains("the password in the second line") && !error.contains("secret"), "{error}");
    }
    chmod(&path, 0o604);
    assert!(read_login(&path).unwrap_err().to_string().contains("chmod 600"));
}

#[test]
fn a_server_is_trusted_on_first_use_and_never_again_with_another_key() {
    let scratch = Scratch::new();
    let known = KnownServers::at(scratch.file("known", "# mine\nother:1 sha256:bad-but-a-comment # not\n"));
    assert!(known.look_up("host:4433").is_err(), "a line that cannot be read may be the one");
    let known = KnownServers::at(scratch.0.join("known2"));
    assert_eq!(known.judge("Host:4433", key(1)).unwrap(), ServerVerdict::New);
    assert_eq!(known.judge("host:4433", key(1)).unwrap(), ServerVerdict::Same);
    assert_eq!(known.judge("host:4434", key(2)).unwrap(), ServerVerdict::New, "another port, another server");
    let ServerVerdict::Changed(changed) = known.judge("HOST:4433", key(3)).unwrap() else {
        panic!("it changed")
    };
    let text = changed.to_string();
    for part in ["CHANGED", &key(1).to_string(), &key(3).to_string(), "line 1", "known2", "between you"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert_eq!(known.look_up("host:4433").unwrap().unwrap().fingerprint, key(1), "nothing was overwritten");
}

#[test]
fn known_servers_that_contradict_each_other_are_an_error() {
    let scratch = Scratch::new();
    let text = format!("a:1 {}\n\n# x\na:1 {}", key(1), key(1));
    let path = scratch.file("known", &text);
    let known = KnownServers::at(&path);
    assert_eq!(known.look_up("a:1").unwrap(), Some(Known { fingerprint: key(1), line: 1 }));
    // The last line has no end: what follows gets a line of its own.
    assert_eq!(known.judge("b:1", key(2)).unwrap(), ServerVerdict::New);
    assert_eq!(known.look_up("b:1").unwrap().unwrap().line, 5);
    fs::write(&path, format!("a:1 {}\na:1 {}\n", key(1), key(2))).unwrap();
    let error = known.look_up("a:1").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("line 1"), "{error}");
    for broken in ["a:1", "a:1 sha256:00", "a:1 x y z", "\0\0\0"] {
        fs::write(&path, broken).unwrap();
        assert!(known.look_up("zzz:1").is_err(), "{broken:?}");
    }
    chmod(&path, 0o666);
    assert!(matches!(known.look_up("a:1"), Err(FileError::Open { .. })));
}

#[test]
fn of_many_who_meet_a_server_at_once_with_two_keys_not_all_trust() {
    let scratch = Scratch::new();
    let known = KnownServers::at(scratch.0.join("known"));
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let known = &known;
        let threads: Vec<_> =
            (0..8).map(|n| scope.spawn(move || known.judge("host:1", key(n % 2)).is_ok())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    // Each line is whole, whoever came first; and once both keys are there, there is no trust.
    let text = fs::read_to_string(known.path()).unwrap();
    assert!(text.lines().all(|l| l.len() == "host:1 ".len() + key(0).to_string().len()), "{text}");
    let both = [0, 1].iter().all(|n| text.contains(&key(*n).to_string()));
    assert_eq!(known.look_up("host:1").is_err(), both, "{verdicts:?}\n{text}");
}

#[test]
fn authorised_keys_are_read_anew_and_broken_lines_let_nobody_in() {
    let scratch = Scratch::new();
    let path = scratch.file("authorized", &format!("# who\nsha256:1234 typo\n{} laptop\n", key(1)));
    let authorized = Authorized::at(&path);
    let all = DeviceRights::default();
    let has = |authorized: &Authorized, n| authorized.rights(NOW, key(n), None).unwrap().is_some();
    assert!(has(&authorized, 1) && !has(&authorized, 2));
    authorized.add(key(2), &all, "by\ntoken # x").unwrap();
    authorized.add(key(2), &all, "again").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with(&format!("{} bytoken  x\n", key(2))), "{text}");
    assert!(has(&authorized, 2));
    assert!(authorized.remove(key(1)).unwrap() && !authorized.remove(key(1)).unwrap());
    let left = format!("# who\nsha256:1234 typo\n{} bytoken  x\n", key(2));
    assert_eq!((fs::read_to_string(&path).unwrap(), has(&authorized, 1)), (left, false));
    fs::write(&path, "").unwrap();
    assert!(authorized.is_empty(NOW).unwrap() && !has(&authorized, 2));
    chmod(&path, 0o620);
    assert!(authorized.rights(NOW, key(1), None).is_err(), "others could add themselves");
    let many = Authorized::at(scratch.0.join("many"));
    std::thread::scope(|scope| {
        for n in 0..16 {
            let many = &many;
            scope.spawn(move || many.add(key(n), &DeviceRights::default(), "x").unwrap());
        }
    });
    assert!((0..16).all(|n| has(&many, n)), "no line was lost");
    assert_eq!(mode(many.path()), 0o600);
}

#[test]
fn a_key_has_the_most_that_a_line_gives_it() {
    let scratch = Scratch::new();
    let (a, later) = (key(1), "until=2027-01-31T18:00:00Z");
    let lines =
        format!("{a} view-only for good\n{a} {later} desktop=work\n{a} until=never\n{} {later}\n", key(2));
    let authorized = Authorized::at(scratch.file("authorized", &lines));
    let rights = |at: SystemTime, n, desktop: Option<&str>| {
        let desktop = desktop.map(|name| name.parse().unwrap());
        authorized.rights(at, key(n), desktop.as_ref()).unwrap().map(|rights| rights.to_string())
    };
    let all = format!("desktop=work {later} ");
    assert_eq!(rights(NOW, 1, None), Some(all.clone()));
    assert_eq!(rights(NOW, 1, Some("work")), Some(all));
    // Only the first line is for another desktop, and the time of the second is over some day.
    assert_eq!(rights(NOW, 1, Some("play")), Some("view-only ".into()));
    let end = NOW + Duration::from_secs(1_801_418_400);
    assert_eq!(rights(end, 1, None), Some("view-only ".into()));
    assert_eq!((rights(end, 2, None), rights(NOW, 3, None)), (None, None));
    // What it has already is not taken away by less.
    authorized.add(a, &DeviceRights { view_only: true, ..DeviceRights::default() }, "again").unwrap();
    assert_eq!(fs::read_to_string(authorized.path()).unwrap(), lines);
}

/// Whether a client with `ours` and a server with `theirs` find that they know the same, each on its end of a
/// connection: what the client finds, and what the server finds when the client shows what it has.
fn exchange(ours: &Secret, theirs: &Secret, ends: [Exported; 2]) -> (bool, bool) {
    let (asking, share) = ours.ask();
    let (answer, expected) = theirs.answer(&share, &ends[1]).unwrap();
    let proof = asking.hear(&answer, &ends[0]);
    (proof.is_some(), proof.is_some_and(|proof| expected.is(&proof, &ends[1])))
}

#[test]
fn both_ends_find_that_they_know_the_same_or_neither_does() {
    let token = OneTimeToken::random();
    let secret = Secret::token(&token, key(1));
    assert_eq!(exchange(&secret, &Secret::token(&token, key(1)), [[7; 32]; 2]), (true, true));
    assert_eq!(exchange(&secret, &secret, [[7; 32], [8; 32]]), (false, false), "somebody is in between");
    assert_eq!(
        exchange(&secret, &Secret::token(&token, key(2)), [[7; 32]; 2]),
        (false, false),
        "another server"
    );
    assert_eq!(
        exchange(&secret, &Secret::token(&OneTimeToken::random(), key(1)), [[7; 32]; 2]),
        (false, false)
    );
    let password = |text: &str| Secret::password(text, key(1));
    assert_eq!(exchange(&password("correct horse"), &password("correct horse"), [[0; 32]; 2]), (true, true));
    assert_eq!(
        exchange(&password("correct horse"), &password("correct horsf"), [[0; 32]; 2]),
        (false, false)
    );
}

#[test]
fn proofs_are_of_one_exchange_and_of_one_end() {
    let (secret, exported) = (Secret::token(&OneTimeToken::random(), key(1)), [7; 32]);
    let ((asking, share), (other, _)) = (secret.ask(), secret.ask());
    let (answer, expected) = secret.answer(&share, &exported).unwrap();
    assert!(!expected.is(&answer.proof, &exported), "handed back");
    assert!(other.hear(&answer, &exported).is_none(), "an answer to another exchange");
    let proof = asking.hear(&answer, &exported).unwrap();
    assert!(expected.is(&proof, &exported));
    assert!(!expected.is(&proof, &[8; 32]), "another connection");
    let mut wrong = proof.to_bytes();
    for i in 0..wrong.len() {
        wrong[i] ^= 1;
        assert!(!expected.is(&SecretProof::from_bytes(wrong), &exported), "byte {i}");
        wrong[i] ^= 1;
    }
    // A share that is handed back has the other side's mark, and one that is changed is no point or leads
    // elsewhere.
    assert!(secret.answer(&answer.share, &exported).is_none());
    for i in 0..share.len() {
        let (asking, mut share) = secret.ask();
        share[i] ^= 1;
        let answer = secret.answer(&share, &exported);
        assert!(answer.is_none_or(|(answer, _)| asking.hear(&answer, &exported).is_none()), "byte {i}");
    }
}

/// DT-53: whoever poses as the server hears one share, whatever it does: that is the same for all secrets, so
/// that it can only guess.
#[test]
fn an_impostor_has_one_guess_and_is_shown_nothing_when_it_is_wrong() {
    let (secret, exported) = (Secret::password("right", key(1)), [7; 32]);
    for guess in ["wrong", "Right", ""] {
        let (asking, share) = secret.ask();
        let (answer, _) = Secret::password(guess, key(1)).answer(&share, &exported).unwrap();
        assert!(asking.hear(&answer, &exported).is_none(), "{guess:?}");
    }
    assert_ne!(secret.ask().1, secret.ask().1);
}

#[test]
fn tokens_are_read_as_people_write_them() {
    let token = OneTimeToken::random();
    let text = token.reveal().to_owned();
    assert_eq!((text.len(), text.matches('-').count()), (29, 4));
    assert!(text.parse::<OneTimeToken>().unwrap() == token);
    assert!(text.to_uppercase().replace('-', " ").parse::<OneTimeToken>().unwrap() == token);
    let read = "OIL00-00000-00000-00000-00000".parse::<OneTimeToken>().unwrap();
    assert_eq!(read.reveal(), "01100-00000-00000-00000-00000");
    for bad in ["", "abc", &text[..28], &format!("{text}0"), "u0000-00000-00000-00000-00000", "é"] {
        assert!(bad.parse::<OneTimeToken>().is_err(), "{bad}");
    }
    assert_ne!(OneTimeToken::random().reveal(), OneTimeToken::random().reveal());
}

#[test]
fn secrets_are_in_no_debug_output() {
    let scratch = Scratch::new();
    let token = OneTimeToken::random();
    let secret = Secret::token(&token, key(1));
    let (asking, share) = secret.ask();
    let (answer, expected) = secret.answer(&share, &[1; 32]).unwrap();
    let gate = ClientGate::new(Authorized::at(scratch.0.join("a")), Some(secret.clone()));
    let text = format!("{token:?} {secret:?} {asking:?} {expected:?} {:?} {gate:?}", answer.proof);
    assert!(text.starts_with("Token(..) Secret(..) Asking(..) Expected(..) Proof(..) Gate"), "{text}");
    assert!(!text.contains(token.reveal()) && !text.contains(&format!("{:?}", answer.proof.to_bytes())));
}

fn from(address: &str, key: Fingerprint) -> ProvenKey {
    ProvenKey { address: address.parse().unwrap(), key, exported: [3; 32] }
}

/// How a client fares that has a secret.
fn shows(
    gate: &ClientGate,
    now: Instant,
    client: ProvenKey,
    of: SecretKind,
    secret: &Secret,
) -> Result<By, Denial> {
    let (asking, share) = secret.ask();
    let now = Now { instant: now, date: NOW };
    let challenge = gate.challenge(now, client, of, None, &share)?;
    let proof = asking.hear(&challenge.answer, &client.exported);
    let knew = proof.is_some();
    let GateEntry { by, .. } = gate.settle(NOW, &challenge, proof.as_ref(), None)?;
    assert_eq!(knew, by != By::Key, "the server proves itself, too");
    Ok(by)
}

#[test]
fn a_token_lets_one_client_in_and_from_then_on_its_key_does() {
    let scratch = Scratch::new();
    let authorized = Authorized::at(scratch.0.join("authorized"));
    let (gate, token) = ClientGate::for_server(key(9), authorized.clone(), None).unwrap();
    let secret = Secret::token(&token.expect("nobody else could come in"), key(9));
    let now = Instant::now();
    assert!(matches!(gate.judge(NOW, &from("1.1.1.1", key(1)), None), Err(Denial::UnknownKey)));
    assert_eq!(shows(&gate, now, from("1.1.1.1", key(1)), SecretKind::Token, &secret).unwrap(), By::Token);
    // Another client finds the token dead, and the first needs none.
    let second = shows(&gate, now, from("1.1.1.2", key(2)), SecretKind::Token, &secret);
    assert!(matches!(second, Err(Denial::WrongSecret)), "{second:?}");
    assert_eq!(gate.judge(NOW, &from("1.1.1.1", key(1)), None).unwrap().by, By::Key);
    assert_eq!(shows(&gate, now, from("1.1.1.1", key(1)), SecretKind::Token, &secret).unwrap(), By::Key);
    let (_, token) = ClientGate::for_server(key(9), authorized, None).unwrap();
    assert!(token.is_none(), "the key is there after a restart");
}

#[test]
fn of_many_with_the_same_token_one_comes_in() {
    let scratch = Scratch::new();
    let (gate, token) = ClientGate::for_server(key(9), Authorized::at(scratch.0.join("a")), None).unwrap();
    let secret = Secret::token(&token.unwrap(), key(9));
    let now = Instant::now();
    let came: usize = std::thread::scope(|scope| {
        let (gate, secret) = (&gate, &secret);
        let threads: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    shows(gate, now, from(&format!("1.1.1.{n}"), key(n)), SecretKind::Token, secret).is_ok()
                })
            })
            .collect();
        threads.into_iter().filter(|_| true).map(|t| usize::from(t.join().unwrap())).sum()
    });
    assert_eq!(came, 1);
}

/// Two connections of one client at once, as when the first is believed to be lost: the token is used up
/// between the answer to the second and its proof.
#[test]
fn a_client_whose_token_was_used_by_itself_meanwhile_comes_in_by_its_key() {
    let scratch = Scratch::new();
    let (gate, token) = ClientGate::for_server(key(9), Authorized::at(scratch.0.join("a")), None).unwrap();
    let (secret, now) = (Secret::token(&token.unwrap(), key(9)), Instant::now());
    let client = from("1.1.1.1", key(1));
    let (asking, share) = secret.ask();
    let both = Now { instant: now, date: NOW };
    let challenge = gate.challenge(both, client, SecretKind::Token, None, &share).unwrap();
    assert_eq!(shows(&gate, now, client, SecretKind::Token, &secret).unwrap(), By::Token);
    let proof = asking.hear(&challenge.answer, &client.exported);
    assert_eq!(gate.settle(NOW, &challenge, proof.as_ref(), None).unwrap().by, By::Key);
}

#[test]
fn a_token_survives_when_the_key_cannot_be_written_down() {
    let scratch = Scratch::new();
    let path = scratch.0.join("no-such-folder/authorized");
    let (gate, token) = ClientGate::for_server(key(9), Authorized::at(&path), None).unwrap();
    let secret = Secret::token(&token.unwrap(), key(9));
    let judged = || shows(&gate, Instant::now(), from("1.1.1.1", key(1)), SecretKind::Token, &secret);
    assert!(matches!(judged(), Err(Denial::File(_))));
    fs::create_dir(scratch.0.join("no-such-folder")).unwrap();
    assert_eq!(judged().unwrap(), By::Token);
}

#[test]
fn wrong_passwords_wait_longer_and_longer_but_keys_never() {
    let scratch = Scratch::new();
    let authorized = Authorized::at(scratch.0.join("authorized"));
    authorized.add(key(1), &DeviceRights::default(), "laptop").unwrap();
    let right = Secret::token(&OneTimeToken::random(), key(9));
    let wrong = Secret::token(&OneTimeToken::random(), key(9));
    let gate = ClientGate::new(authorized, Some(right.clone()));
    let judged =
        |now, address, n, secret| shows(&gate, now, from(address, key(n)), SecretKind::Password, secret);
    let mut now = Instant::now();
    for _ in 0..Tries::FREE {
        assert!(matches!(judged(now, "1.1.1.1", 2, &wrong), Err(Denial::WrongSecret)));
    }
    // Now even the right one has to wait, and so do all who share the address; others do not.
    let mut last = Duration::ZERO;
    for _ in 0..5 {
        let held = judged(now, "1.1.1.1", 2, &right);
        let Err(Denial::Wait(wait)) = held else { panic!("{held:?}") };
        assert!(wait > last, "{wait:?} after {last:?}");
        (last, now) = (wait, now + wait);
        assert!(matches!(judged(now, "1.1.1.1", 3, &wrong), Err(Denial::WrongSecret)));
    }
    assert_eq!(gate.judge(NOW, &from("1.1.1.1", key(1)), None).unwrap().by, By::Key);
    assert_eq!(judged(now, "1.1.1.1", 1, &wrong).unwrap(), By::Key);
    assert_eq!(judged(now, "1.1.1.2", 2, &right).unwrap(), By::Password);
    assert_eq!(judged(now + last * 4, "1.1.1.1", 2, &right).unwrap(), By::Password);
    assert!(judged(now + last * 4, "1.1.1.1", 2, &right).is_ok(), "forgiven");
}

#[test]
fn tries_are_limited_over_all_addresses_and_remembered_in_bounded_memory() {
    let mut tries = Tries::default();
    let now = Instant::now();
    let address = |n: u32| IpAddr::from((n + (10 << 24)).to_be_bytes());
    for n in 0..Tries::OVERALL {
        assert_eq!(tries.begin(now, address(n)), Ok(()));
    }
    assert_eq!(tries.begin(now, address(1000)), Err(Tries::OVERALL_EVERY));
    assert_eq!(tries.begin(now + Tries::OVERALL_EVERY, address(1000)), Ok(()));
    assert!(tries.begin(now + Tries::OVERALL_EVERY, address(1001)).is_err(), "one each");
    // A right one is no try.
    tries.right(address(1000));
    assert_eq!(tries.begin(now + Tries::OVERALL_EVERY, address(1001)), Ok(()));
    let mut later = now + Tries::OVERALL_EVERY;
    for n in 0..Tries::ADDRESSES as u32 + 100 {
        later += Tries::OVERALL_EVERY;
        assert_eq!(tries.begin(later, address(5000 + n)), Ok(()), "{n}");
    }
    let text = format!("{tries:?}");
    assert!(text.matches("Wrong {").count() <= Tries::ADDRESSES);
}

#[test]
fn an_address_that_got_in_is_not_held_up_by_what_others_try() {
    let mut tries = Tries::default();
    let now = Instant::now();
    let address = |n: u32| IpAddr::from((n + (10 << 24)).to_be_bytes());
    assert_eq!(tries.begin(now, address(0)), Ok(()));
    tries.right(address(0));
    for n in 0..Tries::OVERALL {
        assert_eq!(tries.begin(now, address(1 + n)), Ok(()), "a right one left all to the others");
    }
    assert!(tries.begin(now, address(1000)).is_err());
    // It comes back as often as it likes, and takes nothing from anybody.
    for _ in 0..100 {
        assert_eq!(tries.begin(now, address(0)), Ok(()));
        tries.right(address(0));
    }
    assert!(tries.begin(now, address(1000)).is_err(), "and gives nothing to anybody");
    // For guesses it has no more than any other.
    for _ in 0..Tries::FREE {
        assert_eq!(tries.begin(now, address(0)), Ok(()));
    }
    assert_eq!(tries.begin(now, address(0)), Err(Tries::FIRST_WAIT));
    assert_eq!(tries.begin(now + Tries::FIRST_WAIT, address(0)), Err(Tries::OVERALL_EVERY));
}

#[test]
fn an_ipv6_network_is_one_address_and_a_mapped_one_is_ipv4() {
    let now = Instant::now();
    for (a, b, same) in [
        ("2001:db8::1", "2001:db8::ffff:2", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("::ffff:1.2.3.4", "1.2.3.4", true),
        ("1.2.3.4", "1.2.3.5", false),
    ] {
        let mut tries = Tries::default();
        for _ in 0..Tries::FREE {
            assert_eq!(tries.begin(now, a.parse().unwrap()), Ok(()));
        }
        assert_eq!(tries.begin(now, b.parse().unwrap()).is_err(), same, "{a} {b}");
    }
}
