use std::any::Any;
use std::sync::Arc;

use quickset_quic::{ChooseVersion, CryptoSession, KeyChange, Sealing, TransportError, Version};

use super::Server;
use crate::hello::{HelloLook, look};
use crate::session::TlsSession;

/// A server's session that begins when the client's hello is there, in the version that is chosen then: the
/// TLS library wants to know at once of which version the keys are, and what is announced.
pub(super) struct Choosing {
    waiting: Option<Box<WaitingHello>>,
    chosen: Option<Version>,
    begun: Option<TlsSession>,
}

struct WaitingHello {
    server: Arc<Server>,
    version: Version,
    params: Vec<u8>,
    choose: ChooseVersion,
    hello: Vec<u8>,
    takes_early: bool,
}

impl Choosing {
    pub(super) fn new(server: Arc<Server>, version: Version, params: Vec<u8>, choose: ChooseVersion) -> Self {
        let hello = Vec::new();
        let waiting = WaitingHello { server, version, params, choose, hello, takes_early: true };
        Self { waiting: Some(Box::new(waiting)), chosen: None, begun: None }
    }
}

impl WaitingHello {
    /// `None` while there is more to come.
    fn is_decided(&self) -> bool {
        look(&self.hello) != HelloLook::More
    }

    /// The session that has yet to read the hello, and the version that was chosen, if it is another one.
    fn begin(self) -> (TlsSession, Option<Version>, Vec<u8>) {
        let params = match look(&self.hello) {
            // RFC 9369 §5: what resumes stays in its version.
            HelloLook::Hello { params, resumes: false } => params,
            _ => None,
        };
        let chosen = params.and_then(self.choose);
        let (version, params, chosen) = match chosen {
            Some((version, params)) => (version, params, Some(version)),
            None => (self.version, self.params, None),
        };
        let mut session = self.server.begin(version, params);
        if !self.takes_early {
            session.refuse_early();
        }
        (session, chosen, self.hello)
    }
}

impl CryptoSession for Choosing {
    fn read(&mut self, data: &[u8]) -> Result<(), TransportError> {
        if let Some(session) = &mut self.begun {
            return session.read(data);
        }
        let Some(mut waiting) = self.waiting.take() else { return Ok(()) };
        waiting.hello.extend_from_slice(data);
        if !waiting.is_decided() {
            self.waiting = Some(waiting);
            return Ok(());
        }
        let (session, chosen, hello) = waiting.begin();
        self.chosen = chosen;
        self.begun.insert(session).read(&hello)
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.begun.as_mut()?.write(out)
    }

    fn is_handshaking(&self) -> bool {
        self.begun.as_ref().is_none_or(TlsSession::is_handshaking)
    }

    fn peer_params(&self) -> Option<&[u8]> {
        self.begun.as_ref()?.peer_params()
    }

    fn early_keys(&mut self) -> Option<Sealing> {
        self.begun.as_mut()?.early_keys()
    }

    fn refuse_early(&mut self) {
        match (&mut self.begun, &mut self.waiting) {
            (Some(session), _) => session.refuse_early(),
            (None, Some(waiting)) => waiting.takes_early = false,
            (None, None) => {}
        }
    }

    fn chosen_version(&self) -> Option<Version> {
        self.chosen
    }

    fn alpn(&self) -> Option<&[u8]> {
        self.begun.as_ref()?.alpn()
    }

    fn server_name(&self) -> Option<&str> {
        self.begun.as_ref()?.server_name()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.begun.as_ref()?.peer_identity()
    }

    fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        self.begun.as_ref().is_some_and(|session| session.export(label, context, out))
    }

    fn rest(&mut self) {
        if let Some(session) = &mut self.begun {
            session.rest();
        }
    }

    fn end(&mut self) {
        self.waiting = None;
        if let Some(session) = &mut self.begun {
            session.end();
        }
    }
}
