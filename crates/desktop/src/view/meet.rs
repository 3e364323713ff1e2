use std::sync::Arc;
use std::time::Duration;

use quickset::{Closed, ConnectError, Endpoint, Fingerprint, Identity};
use quickset_screen::sound::WANTS_SOUND;
use tokio::time::timeout;

use super::dial::Dialer;
use crate::error::LinkError;
use crate::link::{IncomingMessages, LinkConfig, MessageOutbox, PeerLink};
use crate::message::{
    ADAPTIVE, CLIPBOARD, ClientOffer, FULL_COLOUR, FromClient, FromServer, Hello, HelloChoice, PATCHES,
    VisitId, Welcome, code,
};
use crate::trust::{
    Changed, DesktopLabel, FileError, KnownServers, OneTimeToken, Secret, SecretKind, SecretProof,
    ServerShare, ServerVerdict,
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
    pub(crate) link: PeerLink,
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

/// Begins sessions with one server.
#[derive(Debug)]
pub(crate) struct Meeting {
    dialer: Arc<Dialer>,
    credential: Credential,
    /// The one to see, of several.
    desktop: Option<DesktopLabel>,
    /// What it understands beyond version 1, and wants.
    features: u64,
    /// All of its sessions are of this visit; `None` without entropy.
    visit: Option<VisitId>,
    /// A connection for the next session.
    ready: Option<PeerLink>,
    /// The credential, stretched for the server with this key: that takes a while.
    secret: Option<(Fingerprint, Secret)>,
}

impl Meeting {
    pub(crate) fn new(
        server: String,
        trust: ServerTrust,
        credential: Credential,
        desktop: Option<DesktopLabel>,
        identity: Identity,
        link: LinkConfig,
    ) -> std::io::Result<Self> {
        let dialer = Arc::new(Dialer::new(server, trust, identity, link)?);
        let mut visit = [0; 16];
        let visit = aws_lc_rs::rand::fill(&mut visit).is_ok().then_some(VisitId(visit));
        Ok(Self {
            dialer,
            credential,
            desktop,
            features: CLIPBOARD | ADAPTIVE | PATCHES | FULL_COLOUR,
            visit,
            ready: None,
            secret: None,
        })
    }

    /// DT-67: it wants to hear.
    pub(crate) fn with_sound(mut self) -> Self {
        self.features |= WANTS_SOUND;
        self
    }

    /// The next session is on this connection.
    pub(crate) fn go_on_by(&mut self, link: PeerLink) {
        self.ready = Some(link);
    }

    /// Connects, makes sure of the server, and is let in.
    ///
    /// A server seen for the first time is written down only when it has let us in, and when it has proved to
    /// know our secret too if we have one: who does not know it cannot slip in between even then.
    pub(crate) async fn meet(&mut self) -> Result<Met, MeetError> {
        let link = match self.ready.take() {
            Some(link) => link,
            None => self.dialer.connect().await?,
        };
        let now = link.key().ok_or(MeetError::NoKey)?;
        let control = timeout(PATIENCE, link.open_control()).await;
        // It may have said no before it was asked.
        let (mut control_out, mut control): (_, IncomingMessages<FromServer>) =
            control.map_err(|_| LinkError::Silent)?.map_err(denied)?;
        let exported = link.exported().map_err(denied)?;
        let secret = self.secret_for(now).await;
        let (asking, offer) = secret
            .map(|(of, secret)| {
                let (asking, share) = secret.ask();
                (asking, ClientOffer::Share { of, share })
            })
            .unzip();
        let offers = offer.is_some();
        let (choice, visit, features) = (self.choice(), self.visit, self.features);
        let hello = Hello { features, offer, is_older: false, choice, visit };
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
        Ok(Met { link, control, control_out, welcome })
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.dialer.endpoint().clone()
    }

    pub(crate) fn server(&self) -> &str {
        self.dialer.server()
    }

    /// For whoever looks for another connection while there is a session.
    pub(crate) fn dialer(&self) -> Arc<Dialer> {
        self.dialer.clone()
    }

    fn choice(&self) -> HelloChoice {
        let token = match &self.credential {
            Credential::Token(token) => token.id().to_owned(),
            Credential::None | Credential::Password(_) => String::new(),
        };
        let desktop = self.desktop.as_ref().map(ToString::to_string).unwrap_or_default();
        HelloChoice { token, desktop, ..HelloChoice::default() }
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
        let server = self.dialer.server();
        if let ServerTrust::Known(servers) = self.dialer.trust() {
            let first = servers.look_up(server)?.is_none();
            if first && proved == Some(false) {
                return Err(MeetError::NotProved);
            }
            if let ServerVerdict::Changed(changed) = servers.judge(server, now)? {
                return Err(MeetError::Changed(Box::new(changed)));
            }
            if first {
                tracing::warn!(%server, key = %now, "a server seen for the first time; its key is trusted from now on");
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
    use super::*;

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
