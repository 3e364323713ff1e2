use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_lc_rs::{constant_time, digest};
use quickset::Fingerprint;

use super::files::{ClosedTo, locked, read, replace};
use super::rights::{comment, read_time, time_text};
use super::{DeviceRights, FileError, OneTimeToken, Secret};

/// The invitations of a server: a file with a line each. Whoever runs the server adds and removes them while
/// it runs; it reads the file anew for each client.
///
/// An invitation is for one device. A gateway that shows its token has its key authorised, and the
/// invitation is gone; the first page that is opened by its link has it from then on, and no other device
/// gets in by it.
#[derive(Clone, Debug)]
pub struct Invitations {
    path: PathBuf,
}

/// An invitation.
#[derive(Clone, Debug)]
pub struct Invitation {
    /// Names it. It is the first group of its token.
    pub id: String,
    /// What the device may do that has it.
    pub rights: DeviceRights,
    /// By when a device has to take it.
    pub open_until: SystemTime,
    /// What the server knows of the browser that has taken it: a hash of what it calls itself.
    pub taken_by: Option<Hash>,
    /// What people wrote about it.
    pub comment: String,
    /// What gateways prove to know.
    secret: Secret,
    /// Of the token that pages show.
    hash: Hash,
}

/// SHA-256.
pub type Hash = [u8; 32];

/// Why a page does not get in by an invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotInvited {
    /// There is none with this token, or it is over.
    Unknown,
    /// Another device has it.
    Taken,
    /// The page does not say on which device it is.
    Nameless,
}

impl Invitations {
    /// Those in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where they are written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Invites a device to the server with this key. The token is for whoever owns the device.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn add(
        &self,
        now: SystemTime,
        server: Fingerprint,
        rights: DeviceRights,
        about: &str,
    ) -> Result<(Invitation, OneTimeToken), FileError> {
        let token = OneTimeToken::random();
        let latest = now + OPEN_FOR;
        let invitation = Invitation {
            id: token.id().to_owned(),
            open_until: rights.until.map_or(latest, |until| until.min(latest)),
            rights,
            taken_by: None,
            comment: comment(about),
            secret: Secret::token(&token, server),
            hash: hash(token.reveal()),
        };
        self.change(now, |lines| {
            lines.push(InvitationLine::Of(invitation.clone()));
            Ok(())
        })?;
        Ok((invitation, token))
    }

    /// All that are not over.
    ///
    /// # Errors
    /// When the file cannot be read, or is open to others.
    pub fn list(&self, now: SystemTime) -> Result<Vec<Invitation>, FileError> {
        let known = |line| match line {
            InvitationLine::Of(invitation) => Some(invitation).filter(|invitation| !invitation.is_over(now)),
            InvitationLine::Other(_) => None,
        };
        Ok(self.lines()?.into_iter().filter_map(known).collect())
    }

    /// Takes an invitation back. False when there is none of this name.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn remove(&self, now: SystemTime, id: &str) -> Result<bool, FileError> {
        self.change(now, |lines| {
            let before = lines.len();
            lines.retain(|line| !line.is(id));
            Ok(lines.len() < before)
        })
    }

    /// The secret of the invitation of this name that no device has taken, or of the newest where a client
    /// does not name one.
    pub(super) fn secret(
        &self,
        now: SystemTime,
        id: Option<&str>,
    ) -> Result<Option<(String, Secret)>, FileError> {
        let mut open: Vec<_> = self.list(now)?.into_iter().filter(|i| i.taken_by.is_none()).collect();
        if let Some(id) = id {
            open.retain(|invitation| invitation.id == id);
        }
        Ok(open.pop().map(|invitation| (invitation.id, invitation.secret)))
    }

    /// Uses up an invitation that no device has taken, once `admit` has written down whom it admits. `None`
    /// when there is none.
    ///
    /// # Errors
    /// Those of `admit`, and then the invitation stays; when the file cannot be read or written.
    pub(super) fn redeem(
        &self,
        now: SystemTime,
        id: &str,
        admit: impl FnOnce(&Invitation) -> Result<(), FileError>,
    ) -> Result<Option<Invitation>, FileError> {
        self.change(now, |lines| {
            let open = |line: &InvitationLine| match line {
                InvitationLine::Of(i) => i.id == id && i.taken_by.is_none(),
                InvitationLine::Other(_) => false,
            };
            let Some(at) = lines.iter().position(open) else { return Ok(None) };
            if let InvitationLine::Of(invitation) = &lines[at] {
                admit(invitation)?;
            }
            Ok(match lines.remove(at) {
                InvitationLine::Of(invitation) => Some(invitation),
                InvitationLine::Other(_) => None,
            })
        })
    }

    /// The invitation that a page has, by the token that it shows and what its browser calls itself. The
    /// first browser takes it.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn of_page(
        &self,
        now: SystemTime,
        token: &OneTimeToken,
        device: &str,
    ) -> Result<Result<Invitation, NotInvited>, FileError> {
        let (shown, device) = (hash(token.reveal()), (!device.is_empty()).then(|| hash(device)));
        let same = |a: &Hash, b: &Hash| constant_time::verify_slices_are_equal(a, b).is_ok();
        let judge = |invitation: &Invitation| match (&invitation.taken_by, &device) {
            (_, None) => Err(NotInvited::Nameless),
            (Some(owner), Some(device)) if !same(owner, device) => Err(NotInvited::Taken),
            _ => Ok(invitation.clone()),
        };
        let find = |invitation: &&Invitation| invitation.id == token.id() && same(&invitation.hash, &shown);
        let listed = self.list(now)?;
        let Some(found) = listed.iter().find(find) else { return Ok(Err(NotInvited::Unknown)) };
        let judged = judge(found);
        if judged.is_err() || found.taken_by.is_some() {
            return Ok(judged);
        }
        // Of two that take it in the same moment one is first.
        self.change(now, |lines| {
            let taken = lines.iter_mut().find_map(|line| match line {
                InvitationLine::Of(invitation) => Some(invitation).filter(|i| find(&&**i)),
                InvitationLine::Other(_) => None,
            });
            let Some(invitation) = taken else { return Ok(Err(NotInvited::Unknown)) };
            let judged = judge(invitation);
            if judged.is_ok() {
                invitation.taken_by = device;
            }
            Ok(judged)
        })
    }

    /// Whether the invitation of this name still gives these rights.
    pub(super) fn holds(&self, now: SystemTime, id: &str, rights: &DeviceRights) -> Result<bool, FileError> {
        Ok(self.list(now)?.iter().any(|invitation| invitation.id == id && invitation.rights == *rights))
    }

    fn lines(&self) -> Result<Vec<InvitationLine>, FileError> {
        let text = read(&self.path, ClosedTo::Secret)?.unwrap_or_default();
        Ok(text.lines().map(|line| self.line(line)).collect())
    }

    fn line(&self, line: &str) -> InvitationLine {
        let plain = line.split('#').next().unwrap_or_default().trim();
        if plain.is_empty() {
            return InvitationLine::Other(line.to_owned());
        }
        match Invitation::read(plain) {
            Ok(invitation) => InvitationLine::Of(invitation),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), "an invitation lets nobody in: {error}");
                InvitationLine::Other(line.to_owned())
            }
        }
    }

    /// Changes the file, while nobody else does. Invitations that are over go; what cannot be read stays.
    fn change<T>(
        &self,
        now: SystemTime,
        change: impl FnOnce(&mut Vec<InvitationLine>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        locked(&self.path, || {
            let mut lines = self.lines()?;
            let before = text_of(&lines);
            lines.retain(|line| !matches!(line, InvitationLine::Of(invitation) if invitation.is_over(now)));
            let done = change(&mut lines)?;
            let after = text_of(&lines);
            if after != before {
                replace(&self.path, after.as_bytes())?;
            }
            Ok(done)
        })
    }
}

/// A line of the file.
enum InvitationLine {
    Of(Invitation),
    /// Empty, a comment, or what somebody has spoilt.
    Other(String),
}

impl InvitationLine {
    fn is(&self, id: &str) -> bool {
        matches!(self, Self::Of(invitation) if invitation.id == id)
    }
}

fn text_of(lines: &[InvitationLine]) -> String {
    let mut text = String::new();
    for line in lines {
        match line {
            InvitationLine::Of(invitation) => text.push_str(&invitation.line()),
            InvitationLine::Other(other) => text.push_str(other),
        }
        text.push('\n');
    }
    text
}

impl Invitation {
    /// Nobody gets in by it any more.
    fn is_over(&self, now: SystemTime) -> bool {
        self.rights.are_over(now) || self.taken_by.is_none() && self.open_until <= now
    }

    fn line(&self) -> String {
        let mut line = format!("{} {OPEN}{} ", self.id, time_text(self.open_until));
        let _ = write!(line, "{SECRET}{} {HASH}{} ", hex(&self.secret.to_bytes()), hex(&self.hash));
        if let Some(device) = &self.taken_by {
            let _ = write!(line, "{TAKEN}{} ", hex(device));
        }
        let _ = write!(line, "{}{}", self.rights, self.comment);
        line.truncate(line.trim_end().len());
        line
    }

    fn read(line: &str) -> Result<Self, String> {
        let (id, mut rest) = line.split_once(' ').ok_or(CUT)?;
        let (mut open, mut secret, mut hash, mut taken_by) = (None, None, None, None);
        loop {
            let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(time) = word.strip_prefix(OPEN) {
                open = Some(read_time(time).ok_or(CUT)?);
            } else if let Some(bytes) = word.strip_prefix(SECRET) {
                secret = Some(from_hex(bytes).ok_or(CUT)?);
            } else if let Some(bytes) = word.strip_prefix(HASH) {
                hash = Some(from_hex(bytes).ok_or(CUT)?);
            } else if let Some(bytes) = word.strip_prefix(TAKEN) {
                taken_by = Some(from_hex(bytes).ok_or(CUT)?);
            } else {
                break;
            }
            rest = behind;
        }
        let (rights, comment) = DeviceRights::read(rest)?;
        let (Some(open_until), Some(secret), Some(hash)) = (open, secret, hash) else {
            return Err(CUT.into());
        };
        let (id, comment, secret) = (id.to_owned(), comment.to_owned(), Secret::from_bytes(secret));
        Ok(Self { id, rights, open_until, taken_by, comment, secret, hash })
    }
}

pub(super) fn hash(text: &str) -> Hash {
    digest::digest(&digest::SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// How long an invitation waits for its device.
const OPEN_FOR: Duration = Duration::from_secs(24 * 3600);
const OPEN: &str = "open=";
const SECRET: &str = "secret=";
const HASH: &str = "hash=";
const TAKEN: &str = "taken=";
const CUT: &str = "it was cut or altered";
