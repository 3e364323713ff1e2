//! What becomes of a connection: its keys, its ids, its end.

use ::qlog::events::connectivity::{
    ConnectionClosed, ConnectionClosedTrigger, ConnectionIdUpdated, ConnectionState, TransportOwner,
};
use ::qlog::events::quic::{AlpnInformation, TransportError as Name};
use ::qlog::events::security::{KeyDiscarded, KeyType, KeyUpdateOrRetiredTrigger, KeyUpdated};
use ::qlog::events::{ApplicationErrorCode, ConnectionErrorCode, EventData};
use quickset_base::Time;
use quickset_base::number::Unsigned as _;
use quickset_wire::{ConnectionId, Space, TransportErrorCode as Code};
use serde::Serialize;

use super::EndingFacts;
use super::frame::{hex, words};
use super::log::{FLUSH_EVERY, Qlog, QlogWriter};
use crate::error::{Closed, TransportError};
use crate::keys::{HandshakeProgress, KeyRing};
use crate::life::CloseFrame;
use crate::packet::Phase;
use crate::path::Path;

/// The data of path_updated, of which qlog 0.3 has no more than the name.
#[derive(Serialize)]
struct PathUpdated {
    dst_ip: String,
    dst_port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    src_ip: Option<String>,
    validated: bool,
}

impl Qlog {
    /// The handshake made progress.
    pub(crate) fn progress(&mut self, now: Time, progress: HandshakeProgress, keys: &KeyRing) {
        let Some(log) = self.log() else { return };
        if progress.handshake_keys {
            log.new_keys(now, Space::Handshake);
        }
        if progress.one_rtt_keys {
            log.new_keys(now, Space::Data);
        }
        if progress.complete {
            log.state(now, Some(ConnectionState::Attempted), ConnectionState::HandshakeCompleted);
            let alpn = keys.session().alpn().map(|name| String::from_utf8_lossy(name).into_owned());
            let alpn = AlpnInformation { chosen_alpn: alpn, ..AlpnInformation::default() };
            log.event(now, &EventData::AlpnInformation(alpn));
        }
    }

    /// The handshake is confirmed.
    pub(crate) fn confirmed(&mut self, now: Time) {
        if let Some(log) = self.log() {
            log.state(now, Some(ConnectionState::HandshakeCompleted), ConnectionState::HandshakeConfirmed);
        }
    }

    /// Another path is in use.
    pub(crate) fn path(&mut self, now: Time, path: &Path) {
        let (address, validated) = (path.address, path.is_validated());
        if let Some(log) = self.log() {
            let updated = PathUpdated {
                dst_ip: address.remote.ip().to_string(),
                dst_port: address.remote.port(),
                src_ip: address.local.map(|ip| ip.to_string()),
                validated,
            };
            log.named(now, "connectivity:path_updated", &updated);
        }
    }

    /// The keys of `space` are gone.
    pub(crate) fn discarded(&mut self, now: Time, space: Space) {
        if let Some(log) = self.log() {
            for key_type in key_types(space) {
                let gone = KeyDiscarded { key_type, key: None, generation: None, trigger: None };
                log.event(now, &EventData::KeyDiscarded(gone));
            }
        }
    }

    /// The connection is over.
    pub(crate) fn over(&mut self, now: Time, ending: EndingFacts<'_>) {
        let Some(log) = self.log() else { return };
        log.fec(now, ending.fec, true);
        let closed = ending.event();
        let state = if ending.lifecycle.is_drained() {
            ConnectionState::Closed
        } else if closed.owner == Some(TransportOwner::Local) {
            ConnectionState::Closing
        } else {
            ConnectionState::Draining
        };
        log.event(now, &EventData::ConnectionClosed(closed));
        log.state(now, None, state);
        log.flush(now);
    }

    /// Nothing more will happen.
    pub(crate) fn drained(&mut self, now: Time) {
        if let Some(log) = self.log() {
            log.state(now, None, ConnectionState::Closed);
            log.flush(now);
        }
    }

    /// Nothing is to be done before `until`: whoever sleeps for long leaves nothing in a buffer.
    #[inline]
    pub(crate) fn rest(&mut self, now: Time, until: Option<Time>) {
        if let Some(log) = self.log() {
            if until.is_none_or(|until| until.since(now) >= FLUSH_EVERY) {
                log.flush(now);
            }
        }
    }
}

impl EndingFacts<'_> {
    fn event(&self) -> ConnectionClosed {
        let event = |owner, trigger| ConnectionClosed {
            owner: Some(owner),
            connection_code: None,
            application_code: None,
            internal_code: None,
            reason: None,
            trigger: Some(trigger),
        };
        let transport = |error: &TransportError, owner| ConnectionClosed {
            connection_code: Some(code(error.code)),
            reason: words(error.reason.as_bytes()),
            ..event(owner, ended(error.code == Code::NO_ERROR))
        };
        let application = |code: u64, reason: &[u8], owner| ConnectionClosed {
            application_code: Some(ApplicationErrorCode::Value(code)),
            reason: words(reason),
            ..event(
                owner,
                if code == 0 { ConnectionClosedTrigger::Clean } else { ConnectionClosedTrigger::Application },
            )
        };
        match self.why {
            Closed::Locally => match self.lifecycle.farewell() {
                Some((CloseFrame::Application { code, reason }, _)) => {
                    application(*code, reason, TransportOwner::Local)
                }
                Some((CloseFrame::Transport(error), _)) => transport(error, TransportOwner::Local),
                None => event(TransportOwner::Local, ConnectionClosedTrigger::Clean),
            },
            Closed::Abandoned => event(TransportOwner::Local, ConnectionClosedTrigger::Error),
            Closed::ByApplication { code, reason } => application(*code, reason, TransportOwner::Remote),
            Closed::ByPeer(error) => transport(error, TransportOwner::Remote),
            Closed::Failed(error) => transport(error, TransportOwner::Local),
            Closed::Reset => event(TransportOwner::Remote, ConnectionClosedTrigger::StatelessReset),
            Closed::TimedOut if self.phase == Phase::Handshake => {
                event(TransportOwner::Local, ConnectionClosedTrigger::HandshakeTimeout)
            }
            Closed::TimedOut => event(TransportOwner::Local, ConnectionClosedTrigger::IdleTimeout),
            Closed::Unreachable(refusal) => ConnectionClosed {
                reason: words(refusal.words.as_bytes()),
                ..event(TransportOwner::Local, ConnectionClosedTrigger::Error)
            },
            Closed::NoCommonVersion => event(TransportOwner::Local, ConnectionClosedTrigger::VersionMismatch),
        }
    }
}

impl QlogWriter {
    /// The peer is addressed by `id`; told when it is another than before.
    #[inline]
    pub(super) fn remote_id(&mut self, now: Time, id: &ConnectionId) {
        if *id != self.remote_cid {
            let old = std::mem::replace(&mut self.remote_cid, *id);
            let updated = ConnectionIdUpdated {
                owner: Some(TransportOwner::Remote),
                old: Some(hex(&old)),
                new: Some(hex(id)),
            };
            self.event(now, &EventData::ConnectionIdUpdated(updated));
        }
    }

    /// Key updates so far; told when there are more than before.
    #[inline]
    pub(super) fn key_update(&mut self, now: Time, updates: u64, ours: bool) {
        if updates != self.key_updates {
            self.key_updates = updates;
            let trigger = if ours {
                KeyUpdateOrRetiredTrigger::LocalUpdate
            } else {
                KeyUpdateOrRetiredTrigger::RemoteUpdate
            };
            self.keys(now, Space::Data, Some(updates.saturated()), &trigger);
        }
    }

    /// There are keys for `space`.
    pub(super) fn new_keys(&mut self, now: Time, space: Space) {
        let generation = (space == Space::Data).then_some(0);
        self.keys(now, space, generation, &KeyUpdateOrRetiredTrigger::Tls);
    }

    fn keys(
        &mut self,
        now: Time,
        space: Space,
        generation: Option<u32>,
        trigger: &KeyUpdateOrRetiredTrigger,
    ) {
        for key_type in key_types(space) {
            let trigger = Some(trigger.clone());
            // A trace is no place for keys; the member itself has to be there.
            let updated = KeyUpdated { key_type, old: None, new: String::new(), generation, trigger };
            self.event(now, &EventData::KeyUpdated(updated));
        }
    }
}

const fn key_types(space: Space) -> [KeyType; 2] {
    match space {
        Space::Initial => [KeyType::ClientInitialSecret, KeyType::ServerInitialSecret],
        Space::Handshake => [KeyType::ClientHandshakeSecret, KeyType::ServerHandshakeSecret],
        Space::Data => [KeyType::Client1RttSecret, KeyType::Server1RttSecret],
    }
}

const fn ended(well: bool) -> ConnectionClosedTrigger {
    if well { ConnectionClosedTrigger::Clean } else { ConnectionClosedTrigger::Error }
}

/// The standard's name of a code, or the number: of TLS alerts, and of our own.
const fn code(code: Code) -> ConnectionErrorCode {
    ConnectionErrorCode::TransportError(match code {
        Code::NO_ERROR => Name::NoError,
        Code::INTERNAL_ERROR => Name::InternalError,
        Code::CONNECTION_REFUSED => Name::ConnectionRefused,
        Code::FLOW_CONTROL_ERROR => Name::FlowControlError,
        Code::STREAM_LIMIT_ERROR => Name::StreamLimitError,
        Code::STREAM_STATE_ERROR => Name::StreamStateError,
        Code::FINAL_SIZE_ERROR => Name::FinalSizeError,
        Code::FRAME_ENCODING_ERROR => Name::FrameEncodingError,
        Code::TRANSPORT_PARAMETER_ERROR => Name::TransportParameterError,
        Code::CONNECTION_ID_LIMIT_ERROR => Name::ConnectionIdLimitError,
        Code::PROTOCOL_VIOLATION => Name::ProtocolViolation,
        Code::INVALID_TOKEN => Name::InvalidToken,
        Code::APPLICATION_ERROR => Name::ApplicationError,
        Code::CRYPTO_BUFFER_EXCEEDED => Name::CryptoBufferExceeded,
        Code::KEY_UPDATE_ERROR => Name::KeyUpdateError,
        Code::AEAD_LIMIT_REACHED => Name::AeadLimitReached,
        Code::NO_VIABLE_PATH => Name::NoViablePath,
        other => return ConnectionErrorCode::Value(other.0),
    })
}
