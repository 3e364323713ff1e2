use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quickset::Fingerprint;

use super::secret::Exported;
use super::{
    Authorized, Expected, FileError, OneTimeToken, Secret, SecretKind, SecretProof, ServerShare, Spake2Share,
    Tries,
};

/// Lets clients in, or not.
pub struct ClientGate {
    authorized: Authorized,
    password: Option<Secret>,
    state: Mutex<GateState>,
}

struct GateState {
    token: Option<Secret>,
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
    of: SecretKind,
}

/// By what a client may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Its key is authorised.
    Key,
    /// It knows the password.
    Password,
    /// It knew the token, and its key is authorised from now on.
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
    /// Too many were wrong before.
    #[error("too many wrong passwords or tokens; wait {} s", .0.as_secs().max(1))]
    Wait(Duration),
    /// The files of the server are not in order.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Denial {
    /// Trying again with the same would have the same result.
    pub fn is_final(&self) -> bool {
        match self {
            Self::UnknownKey | Self::WrongSecret | Self::Older | Self::NoShare => true,
            Self::Wait(_) | Self::File(_) => false,
        }
    }
}

impl ClientGate {
    /// A gate for clients with an authorised key, who know the password, or who are the first with the token.
    pub fn new(authorized: Authorized, password: Option<Secret>, token: Option<Secret>) -> Self {
        let state = Mutex::new(GateState { token, tries: Tries::default() });
        Self { authorized, password, state }
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
        let token = (password.is_none() && authorized.is_empty()?).then(OneTimeToken::random);
        let secret = token.as_ref().map(|token| Secret::token(token, server));
        let password = password.map(|password| Secret::password(password, server));
        Ok((Self::new(authorized, password, secret), token))
    }

    /// Judges a client that shows nothing but its key.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn judge(&self, client: &ProvenKey) -> Result<By, Denial> {
        if self.authorized.contains(client.key)? { Ok(By::Key) } else { Err(Denial::UnknownKey) }
    }

    /// Answers a client that says that it knows a secret. There is an answer whether there is such a secret
    /// here or not, and in the same time.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn challenge(
        &self,
        now: Instant,
        client: ProvenKey,
        of: SecretKind,
        share: &Spake2Share,
    ) -> Result<SecretChallenge, Denial> {
        let known = self.authorized.contains(client.key)?;
        let mut state = self.lock();
        let secret = match (state.tries.begin(now, client.address), of) {
            // Whoever has the key comes in, and still learns nothing of passwords.
            (Err(_), _) if known => None,
            (Err(wait), _) => return Err(Denial::Wait(wait)),
            (Ok(()), SecretKind::Password) => self.password.clone(),
            (Ok(()), SecretKind::Token) => state.token.clone(),
        };
        drop(state);
        // Made in any case, so that the time does not tell whether it is needed.
        let nobody = Secret::unknown();
        let secret = secret.unwrap_or(nobody);
        let (answer, expected) = secret.answer(share, &client.exported).ok_or(Denial::NoShare)?;
        Ok(SecretChallenge { answer, expected, client, of })
    }

    /// Judges a client that was answered, by its proof if it has one.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn settle(&self, challenge: &SecretChallenge, proof: Option<&SecretProof>) -> Result<By, Denial> {
        let SecretChallenge { expected, client, of, .. } = challenge;
        if !proof.is_some_and(|proof| expected.is(proof, &client.exported)) {
            return self.without_secret(client);
        }
        let mut state = self.lock();
        let by = match of {
            SecretKind::Password => By::Password,
            SecretKind::Token => {
                // Tokens are used up one at a time: of two clients with the same, the second finds it used.
                if state.token.is_none() {
                    return self.without_secret(client);
                }
                // Should this fail the token stays good: nobody came in by it.
                self.authorized.add(client.key, "by token")?;
                state.token = None;
                By::Token
            }
        };
        state.tries.right(client.address);
        Ok(by)
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a client whose secret is none of ours. The token of an earlier connection, shown again by its
    /// owner, does no harm.
    fn without_secret(&self, client: &ProvenKey) -> Result<By, Denial> {
        self.judge(client).map_err(|denial| match denial {
            Denial::UnknownKey => Denial::WrongSecret,
            other => other,
        })
    }

    /// Whether the key is authorised, as far as that can be told now.
    pub fn knows(&self, key: Fingerprint) -> bool {
        self.authorized.contains(key).unwrap_or(false)
    }

    /// Who is authorised.
    pub fn authorized(&self) -> &Authorized {
        &self.authorized
    }
}

impl fmt::Debug for ClientGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("authorized", &self.authorized).finish_non_exhaustive()
    }
}
