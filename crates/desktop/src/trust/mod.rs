//! Who may look, and at whom: keys, known servers, authorised clients, invitations, passwords, tokens.
//!
//! *In:* files in a [`GatewayFolder`] or named by the user, fingerprints that TLS has proved, proofs of
//! clients. *Out:* an identity, a [`ServerVerdict`] on a server, by what a client comes in ([`By`]) or a
//! [`Denial`].
//!
//! `quickset desktop invite` and `devices` change the files of a server that runs: it reads them anew for
//! each client, a [`FileWatch`] tells when those that are in are to be judged again, and a [`ServerNotice`]
//! says where it is.
//!
//! Invariants: a server is never trusted silently once its key differs from the known one; a secret is never
//! sent, nor anything on which guesses could be tried: who poses as the other end can try one guess in each
//! exchange ([`Secret::ask`]); secrets are compared in constant time, and are in no `Debug` and no log; a
//! file with a secret that others can read is refused. Files are written atomically: whole new ones by a
//! link, lines by one append. Nothing here opens a socket; the clock is an argument.

mod authorized;
mod certificates;
mod files;
mod gate;
mod invitations;
#[cfg(test)]
mod invited_tests;
mod known;
mod links;
mod notice;
mod rights;
mod secret;
#[cfg(test)]
mod tests;
mod tries;
mod watch;

pub use authorized::{Authorized, AuthorizedClient};
pub use certificates::PageCertificates;
pub use files::{FileError, GatewayFolder, check_secret, load_identity, read_login, read_secret};
pub use gate::{By, ClientGate, Denial, GateEntry, ProvenKey, SecretChallenge};
pub use invitations::{Hash, Invitation, Invitations};
pub use known::{Changed, Known, KnownServers, ServerVerdict};
pub use links::{PageEntry, PageLinkId, PageLinks};
pub use notice::{NoticeBoard, ServerNotice};
pub use rights::{DesktopLabel, DeviceRights, ParseLabelError, time_text};
pub use secret::{
    ClientAsking, Expected, Exported, LABEL, OneTimeToken, ParseTokenError, Secret, SecretProof, ServerShare,
    Spake2Share,
};
pub use tries::Tries;
pub use watch::FileWatch;

pub use crate::message::SecretKind;

/// A moment by both clocks: by that of waits, which never goes back, and by that of the calendar, which
/// people may set.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For waits.
    pub instant: std::time::Instant,
    /// For what ends at a date.
    pub date: std::time::SystemTime,
}

impl Now {
    /// As the system says.
    pub fn read() -> Self {
        Self { instant: std::time::Instant::now(), date: std::time::SystemTime::now() }
    }
}
