use std::io;

use quickset_rfb::{Error, SecurityType};

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
            Self::Password { .. } => true,
            Self::Rfb { error, .. } => matches!(error, Error::Authentication(_) | Error::NoSecurity { .. }),
            Self::Io { .. } | Self::Gone { .. } | Self::Silent { .. } | Self::Stuck { .. } => false,
        }
    }

    /// What will most likely be so the next time, too, for who waits.
    pub(super) fn lasting(&self) -> Option<String> {
        match self {
            Self::Rfb { error, .. } => Some(error.to_string()),
            _ => None,
        }
    }

    pub(super) fn rfb(target: String, error: Error) -> Self {
        match error {
            Error::NoSecurity { offered, password: false } if offered.contains(&SecurityType::VncAuth) => {
                Self::Password { target }
            }
            error => Self::Rfb { target, error },
        }
    }
}
