use std::net::SocketAddr;
use std::time::Duration;

use quickset::{
    ClientConfig, Closed, ConnectError, Connection, Endpoint, Fingerprint, Identity, Obstacle, Peer, Race,
    Side, Trust,
};
use tokio::time::timeout;

use crate::link::{DesktopChannel, IncomingMessages, LinkConfig, LinkError, MessageOutbox, exported};
use crate::message::{ALPN, CLIPBOARD, ClientOffer, FromClient, FromServer, Hello, Welcome, code};
use crate::place;
use crate::trust::{
    Changed, FileError, Known, KnownServers, OneTimeToken, Secret, SecretKind, SecretProof, ServerShare,
    ServerVerdict,
};

/// Whom a viewer's gateway believes to be the server.
#[derive(Clone, Debug)]
pub enum ServerTrust {
    /// Whoever holds this key.
    Pinned(Fingerprint),
    /// Whoever holds the key that the server had before; on first use, whoever answers.
    Known(KnownServers),
    /// Anybody: for tests.
    Anybody,
}

/// What a viewer's gateway shows besides its key.
#[derive(Clone, Debug, Default)]
pub enum Credential {
    /// Nothing: the server knows the key, or will not let us in.
    #[default]
    None,
    /// What the server printed when it started; of use once, from then on the key does.
    Token(OneTimeToken),
    /// What the server's owner has chosen.
    Password(GatewayPassword),
}

/// A password, in no `Debug`.
#[derive(Clone)]
pub struct GatewayPassword(pub String);

/// A server that let us in.
#[derive(Debug)]
pub(crate) struct Met {
    pub(crate) connection: Connection,
    pub(crate) control: IncomingMessages<FromServer>,
    pub(crate) control_out: MessageOutbox,
    pub(crate) welcome: Welcome,
}

/// Why there is no session with the server.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// Its name has no address.
    #[error("cannot find {server}: {error}")]
    Name {
        /// As given.
        server: String,
        /// Why not.
        error: std::io::Error,
    },
    /// It cannot be reached, or the handshake failed.
    #[error("cannot connect to {server}: {error}")]
    Connect {
        /// As given.
        server: String,
        /// Why not.
        error: ConnectError,
    },
    /// It has another key than it had.
    #[error(transparent)]
    Changed(Box<Changed>),
    /// It has another key than it should.
    #[error(
        "the server has the key {now}, and not the pinned {pinned}: somebody may be in between. Nothing was sent."
    )]
    NotPinned {
        /// The key it should have.
        pinned: Fingerprint,
        /// The key it has.
        now: Fingerprint,
    },
    /// It has proved no key.
    #[error("the server has shown no key")]
    NoKey,
    /// It does not know our secret, as it should: it may be somebody else. The key is not trusted.
    #[error(
        "the server does not know the password or token: it may be somebody else's, or the token was used already"
    )]
    NotProved,
    /// It is of a version that takes passwords and tokens in another way, on which guesses could be tried.
    #[error(
        "the server takes no password or token as this version shows it, by SPAKE2: its quickset is too old, or what answers is \
         no quickset"
    )]
    Older,
    /// It does not let us in.
    #[error("{0}")]
    Denied(String),
    /// It does not let us in now.
    #[error("{words}")]
    Later {
        /// Its words.
        words: String,
        /// How long it wants us to wait, if it says.
        wait: Option<Duration>,
    },
    /// The list of known servers.
    #[error(transparent)]
    File(#[from] FileError),
    /// The connection ended before.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Makes connections to one server.
#[derive(Debug)]
pub(crate) struct Meeting {
    endpoint: Endpoint,
    /// HOST:PORT, as given.
    server: String,
    trust: ServerTrust,
    credential: Credential,
    identity: Identity,
    link: LinkConfig,
    /// Where it answered the last time.
    last: Option<SocketAddr>,
    /// The credential, stretched for the server with this key: that takes a while.
    secret: Option<(Fingerprint, Secret)>,
}

impl Meeting {
    pub(crate) fn new(
        server: String,
        trust: ServerTrust,
        credential: Credential,
        identity: Identity,
        link: LinkConfig,
    ) -> std::io::Result<Self> {
        let endpoint = Endpoint::client()?;
        Ok(Self { endpoint, server, trust, credential, identity, link, last: None, secret: None })
    }

    /// Connects, makes sure of the server, and is let in.
    ///
    /// A server seen for the first time is written down only when it has let us in, and when it has proved to
    /// know our secret too if we have one: who does not know it cannot slip in between even then.
    pub(crate) async fn meet(&mut self) -> Result<Met, MeetError> {
        let addresses = place::look_up(&self.server, self.last).await.map_err(|e| self.no_name(e))?;
        let connection = self.connect_any(&addresses).await?;
        let now = Peer::of(&connection).fingerprint().ok_or(MeetError::NoKey)?;
        let stream = timeout(PATIENCE, connection.open_messages_bi()).await;
        // It may have said no before it was asked.
        let (out, incoming) =
            stream.map_err(|_| LinkError::Silent)?.map_err(|closed| denied(LinkError::Closed(closed)))?;
        let (mut control_out, mut control) =
            (MessageOutbox::new(out, DesktopChannel::Control.priority()), IncomingMessages::new(incoming));
        let exported = exported(&connection).map_err(denied)?;
        let secret = self.secret_for(now).await;
        let (asking, offer) = secret
            .map(|(of, secret)| {
                let (asking, share) = secret.ask();
                (asking, ClientOffer::Share { of, share })
            })
            .unzip();
        let offers = offer.is_some();
        let hello = Hello { features: CLIPBOARD, offer, is_older: false };
        control_out.send(&FromClient::Hello(hello)).await.map_err(denied)?;
        let mut answer = timeout(PATIENCE, control.next()).await.unwrap_or(Err(LinkError::Silent));
        // Whether the server knows our secret, if we have one.
        let mut proved = offers.then_some(false);
        // DT-53.
        if let (Some(asking), Ok(FromServer::Share { share, proof })) = (asking, &answer) {
            let theirs = ServerShare { share: *share, proof: SecretProof::from_bytes(*proof) };
            let ours = asking.hear(&theirs, &exported);
            proved = Some(ours.is_some());
            control_out.send(&FromClient::Proof(ours.map(SecretProof::to_bytes))).await.map_err(denied)?;
            answer = timeout(PATIENCE, control.next()).await.unwrap_or(Err(LinkError::Silent));
        } else if let (true, Err(LinkError::Closed(Closed::ByApplication { code: code::DENIED, .. }))) =
            (offers, &answer)
        {
            // DT-54: such a server takes no notice of an offer, and sees no more than a key.
            return Err(MeetError::Older);
        }
        let welcome = match answer {
            Ok(FromServer::Welcome(welcome)) => welcome,
            Ok(_) => return Err(LinkError::Ended.into()),
            Err(error) => return Err(denied(error)),
        };
        // DT-45.
        self.settle(now, proved)?;
        Ok(Met { connection, control, control_out, welcome })
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// A connection to the first of the server's addresses that answers.
    async fn connect_any(&mut self, addresses: &[SocketAddr]) -> Result<Connection, MeetError> {
        let (host, _) = place::split(&self.server).map_err(|e| self.no_name(e))?;
        // The zone is where we are, not what the server is called.
        let name = host.split('%').next().unwrap_or(host).to_owned();
        let known = self.known()?;
        let config = client_config(self.believed(known.as_ref()), &self.link);
        let config = config.with_identity(self.identity.clone());
        let endpoint = self.endpoint.clone();
        let mut race = Race::new(addresses, |address| endpoint.connect(address, &name, &config));
        let mut failed = None;
        while let Some((address, ended)) = race.next().await {
            match ended {
                Ok(connection) => {
                    self.last = Some(address);
                    return Ok(connection);
                }
                Err(error) => {
                    // Another address is no way around another key.
                    self.judge(address, &name, known.as_ref(), &error).await?;
                    if failed.as_ref().is_none_or(|before| telling(before) <= telling(&error)) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(match failed {
            Some(error) => MeetError::Connect { server: self.server.clone(), error },
            None => self.no_name(std::io::ErrorKind::NotFound.into()),
        })
    }

    fn no_name(&self, error: std::io::Error) -> MeetError {
        MeetError::Name { server: self.server.clone(), error }
    }

    /// What is known of the server.
    fn known(&self) -> Result<Option<Known>, FileError> {
        match &self.trust {
            ServerTrust::Known(servers) => servers.look_up(&self.server),
            _ => Ok(None),
        }
    }

    fn believed(&self, known: Option<&Known>) -> Trust {
        match (&self.trust, known) {
            (ServerTrust::Pinned(pin), _) => Trust::pinned(*pin),
            (_, Some(known)) => Trust::pinned(known.fingerprint),
            // On first use nothing of value is sent before the key is known.
            (ServerTrust::Known(_) | ServerTrust::Anybody, None) => Trust::insecure(),
        }
    }

    /// Whether a handshake failed because the key is not the one expected: it does not tell which it is, so
    /// that takes another connection, on which we show nothing.
    async fn judge(
        &self,
        address: SocketAddr,
        name: &str,
        known: Option<&Known>,
        error: &ConnectError,
    ) -> Result<(), MeetError> {
        if !matches!(error, ConnectError::Failed(Closed::Failed(_))) {
            return Ok(());
        }
        let now = self.key_at(address, name).await;
        match (&self.trust, known, now) {
            (ServerTrust::Known(servers), Some(known), Some(now)) if known.fingerprint != now => {
                Err(MeetError::Changed(Box::new(servers.changed(&self.server, known, now))))
            }
            (ServerTrust::Pinned(pinned), _, Some(now)) if *pinned != now => {
                Err(MeetError::NotPinned { pinned: *pinned, now })
            }
            _ => Ok(()),
        }
    }

    /// The key of whoever answers, who is told nothing.
    async fn key_at(&self, address: SocketAddr, name: &str) -> Option<Fingerprint> {
        let config = client_config(Trust::insecure(), &self.link);
        let connection = self.endpoint.connect(address, name, &config).await.ok()?;
        let key = Peer::of(&connection).fingerprint();
        connection.close(code::DONE, b"");
        key
    }

    async fn secret_for(&mut self, server: Fingerprint) -> Option<(SecretKind, Secret)> {
        let of = match &self.credential {
            Credential::None => return None,
            Credential::Token(_) => SecretKind::Token,
            Credential::Password(_) => SecretKind::Password,
        };
        if let Some((_, secret)) = self.secret.as_ref().filter(|(key, _)| *key == server) {
            return Some((of, secret.clone()));
        }
        let credential = self.credential.clone();
        // It is meant to take long.
        let stretch = tokio::task::spawn_blocking(move || match &credential {
            Credential::None => None,
            Credential::Token(token) => Some(Secret::token(token, server)),
            Credential::Password(password) => Some(Secret::password(&password.0, server)),
        });
        let secret = stretch.await.ok().flatten();
        self.secret = secret.clone().map(|secret| (server, secret));
        secret.map(|secret| (of, secret))
    }

    /// Trusts the server from now on, or not. `proved` says whether it knows our secret, if we have one.
    fn settle(&mut self, now: Fingerprint, proved: Option<bool>) -> Result<(), MeetError> {
        if let ServerTrust::Known(servers) = &self.trust {
            let first = servers.look_up(&self.server)?.is_none();
            if first && proved == Some(false) {
                return Err(MeetError::NotProved);
            }
            if let ServerVerdict::Changed(changed) = servers.judge(&self.server, now)? {
                return Err(MeetError::Changed(Box::new(changed)));
            }
            if first {
                tracing::warn!(server = %self.server, key = %now, "a server seen for the first time; its key is trusted from now on");
            }
        }
        // The token has done its work; from now on the key counts.
        if matches!(self.credential, Credential::Token(_)) {
            (self.credential, self.secret) = (Credential::None, None);
        }
        Ok(())
    }
}

impl MeetError {
    /// Trying again would have the same result.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Changed(_)
            | Self::NotPinned { .. }
            | Self::NotProved
            | Self::Older
            | Self::Denied(_)
            | Self::File(_)
            | Self::NoKey => true,
            Self::Name { .. } | Self::Connect { .. } | Self::Later { .. } => false,
            Self::Link(error) => matches!(error, LinkError::Fault(_)),
        }
    }

    /// How long the server wants us to wait.
    pub(crate) fn wait(&self) -> Duration {
        match self {
            Self::Later { wait, .. } => wait.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

impl std::fmt::Debug for GatewayPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

fn client_config(trust: Trust, link: &LinkConfig) -> ClientConfig {
    let config = ClientConfig::new(trust, &[ALPN]).expect("the protocol has a name");
    let config = config.with_transport(link.transport(Side::Client));
    if link.key_log { config.with_key_log() } else { config }
}

/// Who answered tells more than a host where nobody listens, that more than who is silent, and that more than
/// an address to which there is no way, as there is often none of IPv6.
fn telling(error: &ConnectError) -> u8 {
    match error {
        ConnectError::Failed(Closed::Unreachable(refusal)) if refusal.obstacle == Obstacle::Port => 2,
        ConnectError::Failed(Closed::Unreachable(_)) => 0,
        ConnectError::Failed(Closed::TimedOut) => 1,
        _ => 3,
    }
}

/// The server's own words about why we may not come in.
fn denied(error: LinkError) -> MeetError {
    match error {
        LinkError::Closed(Closed::ByApplication { code: code::DENIED, reason }) => {
            MeetError::Denied(String::from_utf8_lossy(&reason).into_owned())
        }
        // DT-50.
        LinkError::Closed(Closed::ByApplication { code: code::LATER, reason }) => {
            let words = String::from_utf8_lossy(&reason).into_owned();
            let wait = wait_in(&words);
            MeetError::Later { words, wait }
        }
        other => other.into(),
    }
}

/// DT-50: what words that end in "in 4 s" want.
fn wait_in(words: &str) -> Option<Duration> {
    let seconds = words.strip_suffix(" s")?.rsplit_once("in ")?.1.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// DT-50: whatever a server says.
const LONGEST_WAIT: Duration = Duration::from_secs(900);
/// How long the server may take for what needs a round trip.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use quickset::ServerConfig;

    use super::*;

    #[tokio::test]
    async fn every_address_is_tried() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = ServerTrust::Pinned(identity.fingerprint());
        let here = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(here, &ServerConfig::new(identity, &[ALPN]).unwrap()).unwrap();
        let mine = Identity::self_signed(["client"]).unwrap();
        let (nothing, link) = (Credential::None, LinkConfig::default());
        let mut meeting = Meeting::new("localhost:1".into(), trust, nothing, mine, link).unwrap();
        // Nobody can be reached at port 0.
        let dead: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let connection = meeting.connect_any(&[dead, server.local_addr(), dead]).await.unwrap();
        assert_eq!(
            (connection.remote_address(), meeting.last),
            (server.local_addr(), Some(server.local_addr()))
        );
        let error = meeting.connect_any(&[dead, dead]).await.unwrap_err();
        assert!(matches!(error, MeetError::Connect { .. }), "{error}");
        // Another key is no reason to go on.
        meeting.trust = ServerTrust::Pinned(Fingerprint([7; 32]));
        let error = meeting.connect_any(&[server.local_addr(), dead]).await.unwrap_err();
        assert!(matches!(error, MeetError::NotPinned { .. }), "{error}");
    }

    #[tokio::test]
    async fn an_address_that_is_silent_is_not_waited_for() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = ServerTrust::Pinned(identity.fingerprint());
        let here = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(here, &ServerConfig::new(identity, &[ALPN]).unwrap()).unwrap();
        let mine = Identity::self_signed(["client"]).unwrap();
        let (nothing, link) = (Credential::None, LinkConfig::default());
        let mut meeting = Meeting::new("localhost:1".into(), trust, nothing, mine, link).unwrap();
        // It takes what is sent there, and says nothing.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (silent, there) = (silent.local_addr().unwrap(), server.local_addr());
        // One handshake after the other would take forty seconds.
        let addresses = [silent, silent, silent, silent, there];
        let met = timeout(Duration::from_secs(20), meeting.connect_any(&addresses)).await;
        assert_eq!(met.expect("it does not wait").unwrap().remote_address(), there);
        // Another key is told, whoever is silent beside it.
        meeting.trust = ServerTrust::Pinned(Fingerprint([7; 32]));
        let met = timeout(Duration::from_secs(20), meeting.connect_any(&[silent, there])).await;
        let error = met.expect("it does not wait").unwrap_err();
        assert!(matches!(error, MeetError::NotPinned { .. }), "{error}");
    }

    #[test]
    fn the_wait_is_at_the_end_of_the_words() {
        // DT-50.
        for (words, seconds) in [
            ("too many wrong passwords; try again in 4 s", Some(4)),
            ("in 0 s", Some(0)),
            ("not in 20 s but later", None),
            ("in -1 s", None),
            ("in 99999999999999999999 s", None),
            ("in 18446744073709551615 s", Some(900)),
            ("the server cannot judge credentials now", None),
            ("", None),
        ] {
            assert_eq!(wait_in(words), seconds.map(Duration::from_secs), "{words}");
        }
    }
}
