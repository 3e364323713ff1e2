use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quickset::Fingerprint;

use super::secret::Exported;
use super::{Authorized, FileError, Proof, Role, Secret, Token, Tries};

/// Lets clients in, or not.
pub struct Gate {
    authorized: Authorized,
    password: Option<Secret>,
    state: Mutex<State>,
}

struct State {
    token: Option<Secret>,
    tries: Tries,
}

/// What a client has to show, its key aside, which TLS has proved.
#[derive(Clone, Copy, Debug)]
pub struct Credentials {
    /// Where it comes from.
    pub address: IpAddr,
    /// The key it holds.
    pub key: Fingerprint,
    /// That it knows a secret.
    pub proof: Option<Proof>,
    /// The connection's key material.
    pub exported: Exported,
}

/// A client may come in.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// By what.
    pub by: By,
    /// That the server knows the client's secret too, when it has shown one.
    pub proof: Option<Proof>,
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
            Self::UnknownKey | Self::WrongSecret => true,
            Self::Wait(_) | Self::File(_) => false,
        }
    }
}

impl Gate {
    /// A gate for clients with an authorised key, who know the password, or who are the first with the token.
    pub fn new(authorized: Authorized, password: Option<Secret>, token: Option<Secret>) -> Self {
        let state = Mutex::new(State { token, tries: Tries::default() });
        Self { authorized, password, state }
    }

    /// A gate for the server with the key `server`; with a token, for the user to pass on, when nobody could come
    /// in without.
    ///
    /// # Errors
    /// When the authorised keys cannot be read.
    pub fn for_server(
        server: Fingerprint,
        authorized: Authorized,
        password: Option<&str>,
    ) -> Result<(Self, Option<Token>), FileError> {
        let token = (password.is_none() && authorized.is_empty()?).then(Token::random);
        let secret = token.as_ref().map(|token| Secret::token(token, server));
        let password = password.map(|password| Secret::password(password, server));
        Ok((Self::new(authorized, password, secret), token))
    }

    /// Judges a client. Every secret is checked, wherever it is right or missing, so that the time tells nothing.
    ///
    /// # Errors
    /// See [`Denial`].
    pub fn judge(&self, now: Instant, client: &Credentials) -> Result<Entry, Denial> {
        let known = self.authorized.contains(client.key)?;
        let Some(proof) = client.proof else {
            return if known { Ok(Entry { by: By::Key, proof: None }) } else { Err(Denial::UnknownKey) };
        };
        // Tokens are used up one at a time: of two clients with the same, the second finds it used.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.tries.begin(now, client.address) {
            Ok(()) => {}
            // Whoever has the key comes in, and still learns nothing of passwords.
            Err(_) if known => return Ok(Entry { by: By::Key, proof: None }),
            Err(wait) => return Err(Denial::Wait(wait)),
        }
        let nobody = Secret::unknown();
        let password = self.password.as_ref().unwrap_or(&nobody);
        let token = state.token.as_ref().unwrap_or(&nobody);
        let knows_password = password.verify(Role::Client, &client.exported, &proof);
        let knows_token = token.verify(Role::Client, &client.exported, &proof);
        let answer = |secret: &Secret| Some(secret.prove(Role::Server, &client.exported));
        let entry = match (knows_password, knows_token) {
            (true, _) => Entry { by: By::Password, proof: answer(password) },
            (_, true) => {
                let proof = answer(token);
                // Should this fail the token stays good: nobody came in by it.
                self.authorized.add(client.key, "by token")?;
                state.token = None;
                Entry { by: By::Token, proof }
            }
            // The token of an earlier connection, shown again by its owner, does no harm.
            _ if known => return Ok(Entry { by: By::Key, proof: None }),
            _ => return Err(Denial::WrongSecret),
        };
        state.tries.right(client.address);
        Ok(entry)
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

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("authorized", &self.authorized).finish_non_exhaustive()
    }
}
