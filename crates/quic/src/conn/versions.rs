//! Which QUIC version a connection is of: Version Negotiation, and the proof that nobody forged it (RFC 9368).

use quickset_wire::params::{TransportParams, VersionInformation};
use quickset_wire::{Side, TransportErrorCode as Code, Version, Writer};

use super::Connection;
use super::handshake::SideState;
use crate::early::EarlyFate;
use crate::error::TransportError;
use crate::keys::KeyRing;

/// What a Version Negotiation packet leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiated {
    /// Nothing: it is forged, late, or not for us.
    Nothing,
    /// The handshake begins again in this version.
    Again(Version),
    /// There is none that both sides speak.
    NoCommon,
}

impl Connection {
    /// The version that the connection is of; a client's may be another one as long as it is not
    /// [connected](super::Event::Connected).
    pub fn version(&self) -> Version {
        self.version
    }

    /// A Version Negotiation packet (RFC 9000 §6.2) with these ids, from the server's point of view: its own is second.
    pub(crate) fn on_version_negotiation(
        &self,
        (ours, theirs): (&[u8], &[u8]),
        offered: &(impl Iterator<Item = Version> + Clone),
    ) -> Negotiated {
        let SideState::Client { original_dcid, retry_scid, refused, .. } = &self.handshake.side else {
            return Negotiated::Nothing;
        };
        // RFC 9000 §6.2: only before anything else was heard, and never when it names what was tried. RFC 9000 §17.2.1:
        // who knows our random id has seen our packet. RFC 9368 §2.1: once.
        let heard = self.handshake.peer_cid.is_some() || retry_scid.is_some() || refused.is_some();
        let is_ours = ours == &self.cids.first_local()[..] && theirs == &original_dcid[..];
        if heard || !is_ours || offered.clone().any(|version| version == self.version) {
            return Negotiated::Nothing;
        }
        match choose(&self.config.versions, offered) {
            Some(version) => Negotiated::Again(version),
            None => Negotiated::NoCommon,
        }
    }

    /// The handshake begins again, in `version`: another attempt, with another id (RFC 9368 §2.1). Packet numbers go on,
    /// which no key of before and no peer could tell.
    pub(crate) fn begin_again(&mut self, version: Version) -> Result<(), TransportError> {
        let mut rng = self.numbering.fork();
        if self.handshake.early == EarlyFate::Undecided {
            // RFC 9369 §5: with a ticket of another version nothing can be said early.
            self.reject_early();
        }
        let SideState::Client { crypto, original_dcid, name, refused, .. } = &mut self.handshake.side else {
            return Ok(());
        };
        let remote = crate::endpoint::first_id(&mut rng);
        let initial = crypto.initial_keys(version, &remote, Side::Client).ok_or_else(|| unknown(version))?;
        let ours = &mut *self.handshake.ours;
        ours.version_information = Some(VersionInformation::new(version, [version]));
        let mut buffer = [0; TransportParams::MAX_SIZE];
        let mut w = Writer::new(&mut buffer);
        ours.encode(Side::Client, rng.next(), &mut w);
        let session = crypto.clone().start(version, name, w.written().to_vec());
        let session = session.map_err(|why| TransportError::new(Code::INTERNAL_ERROR, why))?;
        *original_dcid = remote;
        *refused = Some(self.version);
        // RFC 9369 §5: so with a token.
        self.handshake.token.clear();
        tracing::debug!(from = %self.version, to = %version, "the server speaks another version");
        self.version = version;
        self.cids.set_remote(remote);
        self.keys = KeyRing::new(Side::Client, session, initial);
        self.recovery.restart();
        self.keys.drive()?;
        Ok(())
    }

    /// The peer's parameters say which version it has in mind, and which it would take (RFC 9368 §4).
    pub(super) fn check_version(&self, params: &TransportParams) -> Result<(), TransportError> {
        let wrong = |why| Err(TransportError::new(Code::VERSION_NEGOTIATION_ERROR, why));
        let refused = match &self.handshake.side {
            SideState::Client { refused, .. } => refused.is_some(),
            SideState::Server { .. } => false,
        };
        let Some(versions) = &params.version_information else {
            return if refused {
                wrong("a server that negotiates versions does not tell of them")
            } else {
                Ok(())
            };
        };
        if versions.chosen != self.version {
            return wrong("the peer has another version in mind");
        }
        if self.side.is_server() && !versions.available().contains(&versions.chosen) {
            // RFC 9368 §4: as if it could not be read.
            let why = "a client that does not take its own version";
            return Err(TransportError::new(Code::TRANSPORT_PARAMETER_ERROR, why));
        }
        // RFC 9368 §4: had the server said so, we would have begun in another version. Somebody else said something.
        if refused
            && choose(&self.config.versions, &versions.available().iter().copied()) != Some(self.version)
        {
            return wrong("the Version Negotiation packet was not the server's");
        }
        Ok(())
    }
}

/// The first of `ours` that is offered.
fn choose(ours: &[Version], offered: &(impl Iterator<Item = Version> + Clone)) -> Option<Version> {
    ours.iter().copied().find(|version| version.is_known() && offered.clone().any(|other| other == *version))
}

fn unknown(version: Version) -> TransportError {
    TransportError::new(Code::INTERNAL_ERROR, format!("no keys for QUIC {version}"))
}
