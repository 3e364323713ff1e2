//! Who may look, and at whom: keys, known servers, authorised clients, passwords, tokens.
//!
//! *In:* files in a [`Folder`] or named by the user, fingerprints that TLS has proved, proofs of clients.
//! *Out:* an identity, a [`Verdict`] on a server, an [`Entry`] for a client or a [`Denial`].
//!
//! Invariants: a server is never trusted silently once its key differs from the known one; a secret is never sent,
//! only a MAC over key material that the two ends of one TLS connection share ([`Proof`]), and only after the
//! server was authenticated; secrets are compared in constant time, and are in no `Debug` and no log; a file with
//! a secret that others can read is refused. Files are written atomically: whole new ones by a link, lines by one
//! append. Nothing here opens a socket; the clock is an argument.

mod authorized;
mod files;
mod gate;
mod known;
mod secret;
#[cfg(test)]
mod tests;
mod tries;

pub use authorized::Authorized;
pub use files::{FileError, Folder, load_identity, read_secret};
pub use gate::{By, Credentials, Denial, Entry, Gate};
pub use known::{Changed, Known, KnownServers, Verdict};
pub use secret::{Exported, LABEL, ParseTokenError, Proof, Role, Secret, Token};
pub use tries::Tries;
