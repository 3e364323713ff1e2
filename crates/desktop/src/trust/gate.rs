use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use quickset::Fingerprint;

use super::secret::Exported;
use super::{
    Authorized, DesktopLabel, DeviceRights, Expected, FileError, Invitations, Now, OneTimeToken, Secret,
    SecretKind, SecretProof, ServerShare, Spake2Share, Tries,
};

/// Lets clients in, or not.
pub struct ClientGate {
    authorized: Authorized,
    invitations: Option<Invitations>,
    password: Option<Secret>,
    state: Mutex<GateState>,
}

struct GateState {
    /// The token for the first client, and its name.
    token: Option<(String, Secret)>,
    tries: Tries,
}

/// A client whose key TLS has proved.
#[derive(Clone, Copy, Debug)]
pub struct ProvenKey {
    /// Where it comes from.
    pub address: IpAddr,
    /// The key it holds.
    pub key: Fingerprint,
    /// The connection's key material.
    pub exported: Exported,
}

/// A client that says that it knows a secret, and has been answered.
#[derive(Debug)]
pub struct SecretChallenge {
    /// For the client.
    pub answer: ServerShare,
    expected: Expected,
    client: ProvenKey,
    of: SecretSource,
}

/// Of which secret a client has to prove that it knows it.
#[derive(Debug)]
enum SecretSource {
    Password,
    /// The token for the first client.
    First,
    /// The invitation of this name.
    Invitation(String),
    /// None that there is.
    Unknown,
}

/// By what a client has come in, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateEntry {
    /// By what.
    pub by: By,
    /// What it may do.
    pub rights: DeviceRights,
}

/// By what a client may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its key is authorised.
    Key,
    /// It knows the password.
    Password,
    /// It knew a token, and its key is authorised from now on.
    Token,
}

/// Why a client may not come in.
#[derive(Debug, thiserror::Error)]
pub enum Denial {
    /// It has shown nothing but a key that is not authorised.
    #[error("the key is not authorised, and no password or token was shown")]
    UnknownKey,
    /// The password or token is wrong, or the token was used before.
    #[error("the password or token is wrong, or the token was used before")]
    WrongSecret,
    /// It shows a password or token as versions before did, from which whoever poses as a server could find
    /// it.
    #[error("this server takes passwords and tokens by SPAKE2 only: the viewer's quickset is too old")]
    Older,
    /// Its share of the exchange is none.
    #[error("the share of a password or token is not a point")]
    NoShare,
    /// The link was opened on another device before.
    #[error("the invitation was taken by another device")]
    OtherDevice,
    /// There is no such desktop, or not for this device.
    #[error("no desktop {wanted} for this device, which may see {}", names(.known))]
    NoDesktop {
        /// The one that it wants.
        wanted: String,
        /// Those that it may see.
        known: Vec<String>,
    },
    /// Too many were wrong before.
    #[error("too many wrong passwords or tokens; wait {} s", .0.as_secs().max(1))]
    Wait(Duration),
    /// The files of the server are not in order.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A list in a sentence.
fn names(known: &[String]) -> String {
    if known.is_empty() { "none".into() } else { known.join(", ") }
}

impl Denial {
    /// Trying again with the same would have the same result.
    pub fn is_final(&self) -> bool {
        match self {
            Self::UnknownKey
            | Self::WrongSecret
            | Self::Older
            | Self::NoShare
            | Self::OtherDevice
            | Self::NoDesktop { .. } => true,
            Self::Wait(_) | Self::File(_) => false,
        }
    }
}

impl ClientGate {
    /// A gate for clients with an authorised key, and for those who know the password.
    pub fn new(authorized: Authorized, password: Option<Secret>) -> Self {
        let state = Mutex::new(GateState { token: None, tries: Tries::default() });
        Self { authorized, invitations: None, password, state }
    }

    /// The same, for the first client with this token, too: its key is authorised then. `server` is whom it
    /// is proved to.
    #[must_use]
    pub fn with_token(self, token: &OneTimeToken, server: Fingerprint) -> Self {
        self.lock().token = Some((token.id().to_owned(), Secret::token(token, server)));
        self
    }

    /// The same, for devices that are invited, too.
    #[must_use]
    pub fn with_invitations(mut self, invitations: Invitations) -> Self {
        self.invitations = Some(invitations);
        self
    }

    /// A gate for the server with the key `server`; with a token, for the user to pass on, when nobody could
    /// come in without.
    ///
    /// # Errors
    /// When the authorised keys cannot be read.
    pub fn for_server(
        server: Fingerprint,
        authorized: Authorized,
        password: Option<&str>,
    ) -> Result<(Self, Option<OneTimeToken>), FileError> {
        let nobody = password.is_none() && authorized.is_empty(SystemTime::now())?;
        let password = password.map(|password| Secret::password(password, server));
        let (gate, token) = (Self::new(authorized, password), nobody.then(OneTimeToken::random));
        Ok(match token {
            Some(token) => (gate.with_token(&token, server), Some(token)),
            None => (gate, None),
        })
    }

    /// Judges a client that shows nothing but its key, and wants to see this desktop, or any.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn judge(
        &self,
        now: SystemTime,
        client: &ProvenKey,
        desktop: Option<&DesktopLabel>,
    ) -> Result<GateEntry, Denial> {
        let rights = self.authorized.rights(now, client.key, desktop)?.ok_or(Denial::UnknownKey)?;
        Ok(GateEntry { by: By::Key, rights })
    }

    /// Answers a client that says that it knows a secret; of several tokens it may name the one it means.
    /// There is an answer whether there is such a secret here or not, and in the same time.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn challenge(
        &self,
        now: Now,
        client: ProvenKey,
        of: SecretKind,
        token: Option<&str>,
        share: &Spake2Share,
    ) -> Result<SecretChallenge, Denial> {
        let known = self.authorized.rights(now.date, client.key, None)?.is_some();
        let mut state = self.lock();
        let begun = state.tries.begin(now.instant, client.address);
        let first = state.token.clone().filter(|(id, _)| token.is_none_or(|token| token == id));
        drop(state);
        let found = match (begun, of) {
            // Whoever has the key comes in, and still learns nothing of passwords.
            (Err(_), _) if known => None,
            (Err(wait), _) => return Err(Denial::Wait(wait)),
            (Ok(()), SecretKind::Password) => {
                self.password.clone().map(|secret| (SecretSource::Password, secret))
            }
            // DT-59.
            (Ok(()), SecretKind::Token) => match (first, &self.invitations) {
                (Some((_, secret)), _) => Some((SecretSource::First, secret)),
                (None, Some(invitations)) => invitations
                    .secret(now.date, token)?
                    .map(|(id, secret)| (SecretSource::Invitation(id), secret)),
                (None, None) => None,
            },
        };
        // Made in any case, so that the time does not tell whether it is needed.
        let nobody = Secret::unknown();
        let (of, secret) = found.unwrap_or((SecretSource::Unknown, nobody));
        let (answer, expected) = secret.answer(share, &client.exported).ok_or(Denial::NoShare)?;
        Ok(SecretChallenge { answer, expected, client, of })
    }

    /// Judges a client that was answered, by its proof if it has one.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn settle(
        &self,
        now: SystemTime,
        challenge: &SecretChallenge,
        proof: Option<&SecretProof>,
        desktop: Option<&DesktopLabel>,
    ) -> Result<GateEntry, Denial> {
        let SecretChallenge { expected, client, of, .. } = challenge;
        if !proof.is_some_and(|proof| expected.is(proof, &client.exported)) {
            return self.without_secret(now, client, desktop);
        }
        let all = DeviceRights::default();
        let entry = match (of, &self.invitations) {
            (SecretSource::Password, _) => GateEntry { by: By::Password, rights: all },
            (SecretSource::First, _) => {
                let mut state = self.lock();
                // Tokens are used up one at a time: of two clients with the same, the second finds it used.
                if state.token.is_none() {
                    drop(state);
                    return self.without_secret(now, client, desktop);
                }
                // Should this fail the token stays good: nobody came in by it.
                self.authorized.add(client.key, &all, "by token")?;
                state.token = None;
                GateEntry { by: By::Token, rights: all }
            }
            (SecretSource::Invitation(id), Some(invitations)) => {
                let used = invitations.redeem(now, id, |invitation| {
                    let about = match invitation.comment.as_str() {
                        "" => "by invitation",
                        about => about,
                    };
                    self.authorized.add(client.key, &invitation.rights, about)
                })?;
                match used {
                    Some(invitation) => GateEntry { by: By::Token, rights: invitation.rights },
                    None => return self.without_secret(now, client, desktop),
                }
            }
            // Of what nobody knows nobody has a proof.
            (SecretSource::Invitation(_), None) | (SecretSource::Unknown, _) => {
                return self.without_secret(now, client, desktop);
            }
        };
        self.lock().tries.right(client.address);
        Ok(entry)
    }

    /// Whether a client with this key that has come in so may still do what it does.
    pub fn holds(&self, now: SystemTime, key: Fingerprint, entry: &GateEntry) -> bool {
        match entry.by {
            By::Password => true,
            // While the file cannot be read nobody new comes in, and nobody is sent away.
            By::Key | By::Token => self.authorized.list(now).map_or(true, |clients| {
                clients.iter().any(|client| client.key == key && client.rights == entry.rights)
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a client whose secret is none of ours. The token of an earlier connection, shown again by its
    /// owner, does no harm.
    fn without_secret(
        &self,
        now: SystemTime,
        client: &ProvenKey,
        desktop: Option<&DesktopLabel>,
    ) -> Result<GateEntry, Denial> {
        self.judge(now, client, desktop).map_err(|denial| match denial {
            Denial::UnknownKey => Denial::WrongSecret,
            other => other,
        })
    }

    /// Whether the key is authorised, as far as that can be told now.
    pub fn knows(&self, now: SystemTime, key: Fingerprint) -> bool {
        self.authorized.rights(now, key, None).is_ok_and(|rights| rights.is_some())
    }

    /// Who is authorised.
    pub fn authorized(&self) -> &Authorized {
        &self.authorized
    }

    /// Who is invited.
    pub fn invitations(&self) -> Option<&Invitations> {
        self.invitations.as_ref()
    }
}

impl fmt::Debug for ClientGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("authorized", &self.authorized).finish_non_exhaustive()
    }
}
