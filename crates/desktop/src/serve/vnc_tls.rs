//! TLS with a VNC server, which VeNCrypt begins: when there is to be any, and with whom.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use quickset::pki_types::ServerName;
use quickset::{ClientConfig, Fingerprint, Trust, rustls};
use quickset_rfb::VencryptWish;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::vnc_error::VncError;
use crate::place;
use crate::trust::{FileError, Known, KnownServers, ServerVerdict};

/// Whether the connection with a VNC server is encrypted, and who it has to be then.
///
/// Encrypted is by VeNCrypt, with TLS 1.3 and a certificate of the VNC server.
#[derive(Clone, Debug)]
pub enum VncTrust {
    /// It is not encrypted, whatever the server offers.
    Unencrypted,
    /// Whoever had this key the last time; the first time the key is written down. A server that has shown
    /// a key has to be encrypted from then on. Another is so whenever it offers it, but for one on this
    /// machine, which is so only if it wants nothing else.
    Known(KnownServers),
    /// Whoever has this key, whatever name and dates its certificate bears. It is always encrypted.
    Pinned(Fingerprint),
    /// Whoever has a valid certificate for its name from an authority ([`Trust::roots`]). It is always
    /// encrypted.
    Authorities(Trust),
}

impl VncTrust {
    /// Whether to encrypt with the server `target`, which was reached at this address.
    ///
    /// # Errors
    /// It cannot be found out whether its key is known.
    pub(super) fn wish(&self, target: &str, address: IpAddr) -> Result<VencryptWish, FileError> {
        Ok(match self {
            Self::Unencrypted => VencryptWish::Never,
            Self::Known(servers) if servers.look_up(target)?.is_some() => VencryptWish::Only,
            Self::Known(_) if address.to_canonical().is_loopback() => VencryptWish::Last,
            Self::Known(_) => VencryptWish::First,
            Self::Pinned(_) | Self::Authorities(_) => VencryptWish::Only,
        })
    }

    /// What is known of the server, and where.
    ///
    /// # Errors
    /// See [`KnownServers::look_up`].
    pub(super) fn known(&self, target: &str) -> Result<Option<(Known, PathBuf)>, FileError> {
        let Self::Known(servers) = self else { return Ok(None) };
        Ok(servers.look_up(target)?.map(|known| (known, servers.path().to_owned())))
    }

    /// Shakes hands with the server `target` at the other end of `stream`, and says that it is the right one.
    /// It is sent nothing but the handshake before that is known.
    ///
    /// # Errors
    /// It is not the one, or does not speak TLS as it should.
    pub(super) async fn shake_hands<S>(&self, target: &str, stream: S) -> Result<TlsStream<S>, VncError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let failed = |error| VncError::Tls { target: target.to_owned(), error };
        let (host, _) = place::split(target).map_err(failed)?;
        // The zone of an address is where we are.
        let host = host.split('%').next().unwrap_or(host).to_owned();
        let name = ServerName::try_from(host).map_err(|error| failed(io::Error::other(error)))?;
        let trust = match self {
            Self::Authorities(trust) => trust.clone(),
            // Which key it proves to have is judged below.
            _ => Trust::insecure(),
        };
        let config = ClientConfig::new(trust, &[ALPN]).expect("the protocol has a name");
        let stream = TlsConnector::from(config.tls(&[])).connect(name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(fault)) => {
                    VncError::Certificate { target: target.to_owned(), fault: fault.to_string() }
                }
                _ => failed(error),
            }
        })?;
        let chain = stream.get_ref().1.peer_certificates();
        let now = chain.and_then(|chain| Fingerprint::of(chain.first()?));
        let now = now.ok_or_else(|| failed(io::Error::other("its certificate cannot be read")))?;
        self.judge(target, now)?;
        Ok(stream)
    }

    /// Whether the server is the one, by the key that it has proved to hold.
    fn judge(&self, target: &str, now: Fingerprint) -> Result<(), VncError> {
        match self {
            Self::Unencrypted | Self::Authorities(_) => Ok(()),
            Self::Pinned(pinned) if *pinned == now => Ok(()),
            Self::Pinned(pinned) => {
                Err(VncError::NotPinned { target: target.to_owned(), pinned: *pinned, now })
            }
            Self::Known(servers) => match servers.judge(target, now)? {
                ServerVerdict::Same => Ok(()),
                ServerVerdict::New => {
                    let path = servers.path().display();
                    tracing::warn!(
                        "the VNC server {target} is encrypted, and seen for the first time; its key is \
                         {now}, and written down in {path}"
                    );
                    Ok(())
                }
                ServerVerdict::Changed(changed) => Err(VncError::Changed(Box::new(changed))),
            },
        }
    }
}

/// VeNCrypt knows no application protocol, and none is sent.
const ALPN: &str = "rfb";
