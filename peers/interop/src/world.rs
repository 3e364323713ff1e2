//! A server, a client and the road between them.

use anyhow::{Context as _, Result, bail, ensure};
use quickset_sim::LinkSpec;
use quickset_stacks::{StackIdentity, StackSetup};

use crate::relay::{InteropRelay, Road};
use crate::stack::{ConnectionEnded, InteropStack, StackConnection, StackEndpoint, StackSide};

/// Who talks to whom, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InteropPair {
    pub(crate) client: InteropStack,
    pub(crate) server: InteropStack,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
}

/// What a case wants that is not usual.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) road: Road,
    pub(crate) client: StackSide,
    pub(crate) server: StackSide,
    /// Names in the certificate besides the one that counts.
    pub(crate) names: usize,
}

pub(crate) struct InteropWorld {
    pub(crate) client: StackEndpoint,
    pub(crate) server: StackEndpoint,
    pub(crate) relay: InteropRelay,
    pub(crate) identity: StackIdentity,
    pub(crate) setup: Setup,
}

impl Setup {
    /// A road as [`LinkSpec`] has it in words, and the usual sides.
    pub(crate) fn on(pair: InteropPair, road: &str) -> Result<Self> {
        let side = |stack| StackSide { stack, setup: StackSetup::new(PROTOCOL), draft: false };
        let road = Road { link: road.parse::<LinkSpec>()?, start: None, up: None };
        Ok(Self { road, client: side(pair.client), server: side(pair.server), names: 0 })
    }

    pub(crate) fn build(self, pair: InteropPair) -> Result<InteropWorld> {
        let folder = tempfile::tempdir()?;
        let identity = StackIdentity::create(folder.path(), &names(self.names))?;
        let server = StackEndpoint::server(&self.server, &identity)?;
        let client = StackEndpoint::client(&self.client, &identity)?;
        let relay = InteropRelay::start(server.address()?, &self.road, pair.seed)?;
        Ok(InteropWorld { client, server, relay, identity, setup: self })
    }
}

impl InteropWorld {
    /// The client's end and the server's end of a new connection.
    pub(crate) async fn connect(&self) -> Result<(StackConnection, StackConnection)> {
        self.connect_by(self.relay.address()).await
    }

    /// The same without the relay, by which the server cannot see where the client is.
    pub(crate) async fn connect_directly(&self) -> Result<(StackConnection, StackConnection)> {
        self.connect_by(self.server.address()?).await
    }

    async fn connect_by(&self, to: std::net::SocketAddr) -> Result<(StackConnection, StackConnection)> {
        let accept = async {
            let accepted = self.server.accept().await.context("the server takes no connection")?;
            accepted.context("the server's side of the handshake")
        };
        let connect = async {
            let connected = self.client.connect(to).await;
            connected.context("the client's side of the handshake")
        };
        tokio::try_join!(connect, accept)
    }

    /// The client's part of it.
    pub(crate) async fn try_connect(&self) -> Result<StackConnection, ConnectionEnded> {
        self.client.connect(self.relay.address()).await
    }

    /// Closes by the client, and waits until the server has heard of it.
    pub(crate) async fn part(&self, client: &StackConnection, server: &StackConnection) -> Result<()> {
        self.relay.spare();
        client.close(0, b"");
        expect("the server's end", &server.closed().await, &ConnectionEnded::ByApplication(0, Vec::new()))
    }

    /// RFC 9000 §8.1: no more than three times what came from an address that is not proven.
    pub(crate) fn check_amplification(&self) -> Result<()> {
        let seen = self.relay.seen();
        ensure!(seen.beyond == 0, "the server sent {} bytes for {} received", seen.answered, seen.unproven);
        Ok(())
    }
}

/// Fails unless a connection ended as it should.
pub(crate) fn expect(what: &str, found: &ConnectionEnded, wanted: &ConnectionEnded) -> Result<()> {
    if found != wanted {
        bail!("{what}: {found:?} instead of {wanted:?}");
    }
    Ok(())
}

/// Names in a certificate besides that of servers: addresses, and so many more, of some 30 bytes each.
pub(crate) fn names(more: usize) -> Vec<String> {
    let more = (0..more).map(|i| format!("a-rather-long-name-{i}.example"));
    ["127.0.0.1", "::1"].map(str::to_owned).into_iter().chain(more).collect()
}

pub(crate) const PROTOCOL: &[u8] = b"quickset-interop/1";
