use std::io;

use quickset::Fingerprint;
use quickset_rfb::{Error, SecurityType, VencryptType};

use crate::trust::{Changed, FileError};

/// Why there is no VNC server.
#[derive(Debug, thiserror::Error)]
pub enum VncError {
    /// It cannot be reached, or the connection failed.
    #[error("the VNC server {target} cannot be reached: {error}")]
    Io {
        /// Its address.
        target: String,
        /// Why.
        error: io::Error,
    },
    /// It has hung up.
    #[error("the VNC server {target} has closed the connection")]
    Gone {
        /// Its address.
        target: String,
    },
    /// It takes connections and says nothing.
    #[error("{target} does not greet; is it a VNC server?")]
    Silent {
        /// Its address.
        target: String,
    },
    /// It has begun the handshake and does not go on.
    #[error(
        "the VNC server {target} does not go on with the handshake; does somebody have to let us in there?"
    )]
    Stuck {
        /// Its address.
        target: String,
    },
    /// It wants a password, and we have none.
    #[error("the VNC server {target} wants a password; give it with --vnc-password-file")]
    Password {
        /// Its address.
        target: String,
    },
    /// It encrypts, and has no certificate by which one could know it.
    #[error(
        "the VNC server {target} encrypts without a certificate only ({}), so that somebody in between could \
         read and change everything: start it with one, as TigerVNC's by -SecurityTypes X509Vnc \
         -X509Cert FILE -X509Key FILE",
        names(.offered)
    )]
    Anonymous {
        /// Its address.
        target: String,
        /// What it offers.
        offered: Vec<VencryptType>,
    },
    /// It wants something that takes a password or a user's name, and we have none.
    #[error(
        "the VNC server {target} wants a password inside of TLS ({}); give it with --vnc-password-file for \
         X509Vnc, or with a user's name in --vnc-login-file for X509Plain",
        names(.offered)
    )]
    Login {
        /// Its address.
        target: String,
        /// What it offers.
        offered: Vec<VencryptType>,
    },
    /// It has to encrypt, and does not.
    #[error("the VNC server {target} has to be encrypted, since {reason}: {error}")]
    NotEncrypted {
        /// Its address.
        target: String,
        /// Who says so.
        reason: String,
        /// What it did.
        error: Error,
    },
    /// TLS with it has failed.
    #[error("TLS with the VNC server {target} fails: {error}; it has to speak TLS 1.3")]
    Tls {
        /// Its address.
        target: String,
        /// Why.
        error: io::Error,
    },
    /// No authority that we believe says that it is who it should be.
    #[error(
        "the certificate of the VNC server {target} is not believed: {fault}. Nothing was sent. Name its \
         authority with --vnc-ca, or its key with --vnc-pin"
    )]
    Certificate {
        /// Its address.
        target: String,
        /// What is wrong with it.
        fault: String,
    },
    /// It has another key than it had.
    #[error("{0}\nWhoever runs a VNC server finds the fingerprint of its certificate by\n  {FINGERPRINT}")]
    Changed(Box<Changed>),
    /// It has another key than it should have.
    #[error(
        "the VNC server {target} has the key {now}, and not {pinned}, as --vnc-pin says: somebody may be in \
         between. Nothing was sent"
    )]
    NotPinned {
        /// Its address.
        target: String,
        /// The key that it should have.
        pinned: Fingerprint,
        /// The key that it has.
        now: Fingerprint,
    },
    /// What is known of its key cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It refuses, or does not speak RFB as it should.
    #[error("the VNC server {target}: {error}")]
    Rfb {
        /// Its address.
        target: String,
        /// What it did.
        error: Error,
    },
}

impl VncError {
    /// Trying again would have the same result, or lock the account.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Password { .. }
            | Self::Anonymous { .. }
            | Self::Login { .. }
            | Self::NotEncrypted { .. }
            | Self::Certificate { .. }
            | Self::Changed(_)
            | Self::NotPinned { .. }
            | Self::File(_) => true,
            Self::Rfb { error, .. } => matches!(
                error,
                Error::Authentication(_)
                    | Error::NoSecurity { .. }
                    | Error::NoVencryptType { .. }
                    | Error::VencryptVersion(..)
            ),
            Self::Io { .. }
            | Self::Gone { .. }
            | Self::Silent { .. }
            | Self::Stuck { .. }
            | Self::Tls { .. } => false,
        }
    }

    /// What will most likely be so the next time, too, for who waits.
    pub(super) fn lasting(&self) -> Option<String> {
        match self {
            Self::Rfb { error, .. } => Some(error.to_string()),
            _ => None,
        }
    }

    /// It encrypts in no way that we can, and would also take us without: we may go on so.
    pub(super) fn goes_without(&self) -> bool {
        matches!(self, Self::Rfb { error: Error::NoVencryptType { unencrypted: true, .. }, .. })
    }

    /// `reason` is why it has to be encrypted, if it has.
    pub(super) fn rfb(target: String, error: Error, reason: Option<String>) -> Self {
        match (error, reason) {
            (Error::NoSecurity { offered, password: false }, _)
                if offered.contains(&SecurityType::VncAuth) =>
            {
                Self::Password { target }
            }
            (error @ Error::NoVencrypt { .. }, Some(reason)) => Self::NotEncrypted { target, reason, error },
            (Error::NoVencryptType { offered, unencrypted: false }, _) => {
                let asks =
                    |kind: &VencryptType| [VencryptType::X509_VNC, VencryptType::X509_PLAIN].contains(kind);
                if offered.iter().any(asks) {
                    Self::Login { target, offered }
                } else if offered.iter().any(|kind| kind.is_anonymous()) {
                    Self::Anonymous { target, offered }
                } else {
                    let error = Error::NoVencryptType { offered, unencrypted: false };
                    Self::Rfb { target, error }
                }
            }
            (error, _) => Self::Rfb { target, error },
        }
    }
}

fn names(offered: &[VencryptType]) -> String {
    offered.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How to find out what a server's fingerprint is, behind `sha256:`.
const FINGERPRINT: &str =
    "openssl x509 -in CERT -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256";
