//! Who may look, and at whom: keys, known servers, authorised clients, passwords, tokens.
//!
//! *In:* files in a [`GatewayFolder`] or named by the user, fingerprints that TLS has proved, proofs of
//! clients. *Out:* an identity, a [`ServerVerdict`] on a server, by what a client comes in ([`By`]) or a
//! [`Denial`].
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
mod known;
mod links;
mod secret;
#[cfg(test)]
mod tests;
mod tries;

pub use authorized::Authorized;
pub use certificates::PageCertificates;
pub use files::{FileError, GatewayFolder, check_secret, load_identity, read_secret};
pub use gate::{By, ClientGate, Denial, ProvenKey, SecretChallenge};
pub use known::{Changed, Known, KnownServers, ServerVerdict};
pub use links::{PageEntry, PageLinks};
pub use secret::{
    ClientAsking, Expected, Exported, LABEL, OneTimeToken, ParseTokenError, Secret, SecretProof, ServerShare,
    Spake2Share,
};
pub use tries::Tries;

pub use crate::message::SecretKind;
