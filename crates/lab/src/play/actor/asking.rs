//! The client's end of an HTTP/3 connection: what a browser and a viewer of video have in common.

use std::net::SocketAddr;

use quickset_base::{AddressPair, Time};
use quickset_h3::{Config, Connection as Http, Event as HttpEvent, OnQuic};
use quickset_quic::{ClientConfig, Connection, ConnectionKey, Node, Side, StreamEvent, StreamId};

use super::FlowCredentials;
use crate::play::PlayFlow;

/// A connection on which something is asked for.
pub(super) struct AskingConnection {
    pub(super) node: Node,
    /// Until it connects.
    config: Option<ClientConfig>,
    server: SocketAddr,
    key: Option<ConnectionKey>,
    http: Option<Http>,
}

/// What came.
pub(super) enum AskingNews {
    /// Content of an answer that succeeded.
    Readable(StreamId),
    /// The server takes requests again.
    MayAsk,
    /// Nothing that was asked for; the reason is a sentence.
    Failed(String),
}

impl AskingConnection {
    pub(super) fn new(flow: &PlayFlow, credentials: &FlowCredentials, seed: u64, server: SocketAddr) -> Self {
        let (node, config) = credentials.client_node(&flow.transport, seed);
        Self { node, config: Some(config), server, key: None, http: None }
    }

    /// Whether [`connect`](Self::connect) was not called yet.
    pub(super) fn is_unconnected(&self) -> bool {
        self.config.is_some()
    }

    /// Connects, the first time; later calls do nothing.
    pub(super) fn connect(&mut self, now: Time) -> Result<(), String> {
        let Some(config) = self.config.take() else { return Ok(()) };
        let key = self.node.connect(now, &config, AddressPair::to(self.server), "localhost");
        self.key = Some(key.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Speaks HTTP: the handshake is through.
    pub(super) fn begin(&mut self, now: Time) {
        if let Some(connection) = self.connection() {
            let http = Http::new(Side::Client, Config::default(), &mut OnQuic { connection, now });
            self.http = Some(http);
        }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        self.node.connection(self.key?)
    }

    /// A verb of HTTP on the connection; `None` before [`begin`](Self::begin), and once the connection is
    /// gone.
    pub(super) fn verb<T>(
        &mut self,
        now: Time,
        verb: impl FnOnce(&mut Http, &mut OnQuic<'_>) -> T,
    ) -> Option<T> {
        let connection = self.node.connection(self.key?)?;
        Some(verb(self.http.as_mut()?, &mut OnQuic { connection, now }))
    }

    /// The next news; an event of a stream may bring several.
    pub(super) fn news(&mut self) -> Option<AskingNews> {
        loop {
            return Some(match self.http.as_mut()?.poll_event()? {
                HttpEvent::Response { response, .. } if !response.is_success() => {
                    AskingNews::Failed(format!("an answer has status {}", response.status))
                }
                HttpEvent::Response { id, .. } | HttpEvent::Readable(id) => AskingNews::Readable(id),
                HttpEvent::Available(_) => AskingNews::MayAsk,
                HttpEvent::Aborted { why, .. } => AskingNews::Failed(why.to_string()),
                HttpEvent::Closed(error) => AskingNews::Failed(error.to_string()),
                _ => continue,
            });
        }
    }

    pub(super) fn handle(&mut self, now: Time, event: StreamEvent) {
        self.verb(now, |http, t| http.handle(t, event));
    }
}
