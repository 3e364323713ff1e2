//! Which QUIC version a connection is of: Version Negotiation, and the proof that nobody forged it
//! (RFC 9368).

use quickset_wire::params::{TransportParams, VersionInformation};
use quickset_wire::{Side, Space, TransportErrorCode as Code, Version, Writer};

use super::Connection;
use crate::early::EarlyFate;
use crate::error::TransportError;
use crate::keys::KeyRing;
use crate::life::SideState;

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
    /// The version that the connection is of; it may be another one as long as it is not
    /// [connected](super::Event::Connected).
    pub fn version(&self) -> Version {
        self.common.version
    }

    /// A Version Negotiation packet (RFC 9000 §6.2) with these ids, from the server's point of view: its own
    /// is second.
    pub(crate) fn on_version_negotiation(
        &self,
        ours: &[u8],
        theirs: &[u8],
        offered: &(impl Iterator<Item = Version> + Clone),
    ) -> Negotiated {
        let SideState::Client { original_dcid, retry_scid, refused, .. } = &self.life.handshake.side else {
            return Negotiated::Nothing;
        };
        // RFC 9000 §6.2: only before anything else was heard, and never when it names what was tried.
        // RFC 9000 §17.2.1: who knows our random id has seen our packet. RFC 9368 §2.1: once.
        let heard = self.link.peer_cid.is_some() || retry_scid.is_some() || refused.is_some();
        let is_ours = ours == &self.link.cids.first_local()[..] && theirs == &original_dcid[..];
        if heard || !is_ours || offered.clone().any(|version| version == self.common.version) {
            return Negotiated::Nothing;
        }
        match choose(&self.common.config.versions, offered) {
            Some(version) => Negotiated::Again(version),
            None => Negotiated::NoCommon,
        }
    }

    /// The handshake begins again, in `version`: another attempt, with another id (RFC 9368 §2.1). Packet
    /// numbers go on, which no key of before and no peer could tell.
    pub(crate) fn begin_again(&mut self, version: Version) -> Result<(), TransportError> {
        let mut rng = self.link.path.numbering.fork();
        if self.life.handshake.early == EarlyFate::Undecided {
            // RFC 9369 §5: with a ticket of another version nothing can be said early.
            self.reject_early();
        }
        let SideState::Client { crypto, original_dcid, name, refused, .. } = &mut self.life.handshake.side
        else {
            return Ok(());
        };
        let remote = crate::cids::first_id(&mut rng);
        let initial = crypto.initial_keys(version, &remote, Side::Client).ok_or_else(|| unknown(version))?;
        let Some(ours) = &mut self.common.ours else { return Ok(()) };
        ours.version_information = Some(VersionInformation::new(version, [version]));
        let mut buffer = [0; TransportParams::MAX_SIZE];
        let mut w = Writer::new(&mut buffer);
        ours.encode(Side::Client, rng.next(), &mut w);
        let session = crypto.clone().start(version, name, w.written().to_vec());
        let session = session.map_err(|why| TransportError::new(Code::INTERNAL_ERROR, why))?;
        *original_dcid = remote;
        *refused = Some(self.common.version);
        // RFC 9369 §5: so with a token.
        self.link.token.clear();
        tracing::debug!(from = %self.common.version, to = %version, "the server speaks another version");
        self.common.version = version;
        self.link.began = version;
        self.common.trace_version();
        self.link.cids.set_remote(remote);
        self.link.keys = KeyRing::new(Side::Client, session, initial);
        self.link.path.recovery.restart(self.common.now);
        self.link.keys.drive()?;
        Ok(())
    }

    /// Whether a packet of the handshake in `version` may be for us: the connection is of it, was, or may
    /// come to be, as a server wants it (RFC 9368 §2.3, RFC 9369 §4.1). Initial packets of that version can
    /// be opened from here on.
    pub(crate) fn may_be_of(&mut self, version: Version) -> bool {
        if version == self.common.version || self.link.keys.other() == Some(version) {
            return true;
        }
        if self.link.keys.other().is_some()
            || self.link.keys.has(Space::Handshake)
            || !self.link.keys.has(Space::Initial)
        {
            return false;
        }
        let SideState::Client { crypto, original_dcid, retry_scid, .. } = &self.life.handshake.side else {
            return false;
        };
        let told = self.common.ours.as_ref().and_then(|ours| ours.version_information);
        if !told.is_some_and(|told| told.available().contains(&version)) {
            return false;
        }
        let id = retry_scid.as_ref().unwrap_or(original_dcid);
        let Some(keys) = crypto.initial_keys(version, id, Side::Client) else { return false };
        self.link.keys.also(version, keys);
        true
    }

    /// A client has an authentic Initial packet of `version`: when that is another one, the server goes on in
    /// it, as long as there are no keys that say otherwise. What packets say of versions is proved by the
    /// parameters.
    pub(crate) fn heard_in(&mut self, version: Version) {
        // Once: what is late of the version before turns nothing back.
        let settled = self.common.version != self.link.began || self.link.keys.has(Space::Handshake);
        if self.common.side.is_server() || version == self.common.version || settled {
            return;
        }
        if self.life.handshake.early == EarlyFate::Undecided {
            // RFC 9369 §4.1: no early data in the version that was agreed on. What was sent is still good.
            self.link.keys.end_early();
        }
        self.link.turn(&mut self.common, version);
    }

    /// A server's session has read the hello, and may have chosen a version.
    pub(crate) fn follow_choice(&mut self) {
        let Some(version) = self.link.keys.session().chosen_version().filter(|v| *v != self.common.version)
        else {
            return;
        };
        let SideState::Server { crypto, first, .. } = &self.life.handshake.side else { return };
        let Some(keys) = crypto.initial_keys(version, first, Side::Server) else { return };
        self.link.keys.also(version, keys);
        self.link.turn(&mut self.common, version);
    }

    /// The peer's parameters say which version it has in mind, and which it would take (RFC 9368 §4).
    pub(super) fn check_version(&self, params: &TransportParams) -> Result<(), TransportError> {
        let wrong = |why| Err(TransportError::new(Code::VERSION_NEGOTIATION_ERROR, why));
        let refused = match &self.life.handshake.side {
            SideState::Client { refused, .. } => refused.is_some(),
            SideState::Server { .. } => false,
        };
        let Some(versions) = &params.version_information else {
            return if refused || self.common.version != self.link.began {
                wrong("a server that negotiates versions does not tell of them")
            } else {
                Ok(())
            };
        };
        // A client says it in its first packet.
        let known = if self.common.side.is_server() { self.link.began } else { self.common.version };
        if versions.chosen != known {
            return wrong("the peer has another version in mind");
        }
        if self.common.side.is_server() && !versions.available().contains(&versions.chosen) {
            // RFC 9368 §4: as if it could not be read.
            let why = "a client that does not take its own version";
            return Err(TransportError::new(Code::TRANSPORT_PARAMETER_ERROR, why));
        }
        // RFC 9368 §4: had the server said so, we would have begun in another version. Somebody else said
        // something.
        if refused
            && choose(&self.common.config.versions, &versions.available().iter().copied())
                != Some(self.common.version)
        {
            return wrong("the Version Negotiation packet was not the server's");
        }
        Ok(())
    }
}

/// What a server does with the parameters of a client that began in `began`: the first version of the
/// client's that is among `ours`, if it is another (RFC 9368 §2.3: versions 1 and 2 are compatible,
/// RFC 9369 §4).
pub(crate) fn wished(ours: &[Version], began: Version, params: &[u8]) -> Option<Version> {
    let params = TransportParams::decode(Side::Client, params).ok()?;
    let told = params.version_information.filter(|told| told.chosen == began)?;
    told.available()
        .iter()
        .copied()
        .find(|version| ours.contains(version))
        .filter(|version| *version != began)
}

/// The first of `ours` that is offered.
fn choose(ours: &[Version], offered: &(impl Iterator<Item = Version> + Clone)) -> Option<Version> {
    ours.iter().copied().find(|version| version.is_known() && offered.clone().any(|other| other == *version))
}

fn unknown(version: Version) -> TransportError {
    TransportError::new(Code::INTERNAL_ERROR, format!("no keys for QUIC {version}"))
}
