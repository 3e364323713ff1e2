//! Address validation by tokens (RFC 9000 §8.1): what they say, and what they prove of who presents them.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Rng, Time};
use quickset_wire::{ConnectionId, Reader, Truncated, Version};

use crate::keys::EndpointCrypto;

/// What an address validation token says (RFC 9000 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValidationToken {
    /// From a Retry: for this address and port only, and the ids that the handshake must authenticate.
    Retry { client: SocketAddr, issued: Time, original_dcid: ConnectionId, retry_scid: ConnectionId },
    /// From NEW_TOKEN: for a later connection, from any port.
    New { client: IpAddr, issued: Time, version: Version },
}

/// What a client's token proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenProof {
    /// Nothing, and nothing is held against it: absent, or no token of ours.
    None,
    /// It received our Retry, `trip` ago.
    Retry { original_dcid: ConnectionId, retry_scid: ConnectionId, trip: Duration },
    /// It was at this address not long ago.
    Before { nonce: Nonce },
    /// A token from Retry that is not good: altered, late, or another's.
    Bad,
}

pub(crate) type Nonce = [u8; 12];

/// When and from where a token comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presented {
    pub(crate) now: Time,
    pub(crate) client: SocketAddr,
    pub(crate) dcid: ConnectionId,
    pub(crate) version: Version,
    pub(crate) retry_lifetime: Duration,
    pub(crate) lifetime: Duration,
}

impl ValidationToken {
    /// The token's bytes.
    pub(crate) fn seal(&self, crypto: &dyn EndpointCrypto, rng: &mut Rng) -> Vec<u8> {
        let mut nonce = Nonce::default();
        rng.fill(&mut nonce);
        let sealed = crypto.seal_token(nonce, &self.encode(crypto.began()));
        // RFC 9000 §8.1.1: also an altered token must tell where it came from, so the kind stands in clear.
        [&[self.kind()], sealed.as_slice()].concat()
    }

    fn open(token: &[u8], crypto: &dyn EndpointCrypto) -> Option<Self> {
        let (kind, sealed) = token.split_first()?;
        let plain = crypto.open_token(sealed)?;
        let token = Self::decode(&plain).ok()??;
        (token.kind() == *kind).then_some(token)
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Retry { .. } => RETRY,
            Self::New { .. } => NEW,
        }
    }

    /// Dated by the clock by which the endpoint `began`.
    fn encode(&self, began: Duration) -> Vec<u8> {
        let mut out = vec![self.kind()];
        match self {
            Self::Retry { client, issued, original_dcid, retry_scid } => {
                out.extend_from_slice(&(*issued + began).as_nanos().to_be_bytes());
                put_ip(&mut out, client.ip());
                out.extend_from_slice(&client.port().to_be_bytes());
                for id in [original_dcid, retry_scid] {
                    out.push(id.len().saturated());
                    out.extend_from_slice(id);
                }
            }
            Self::New { client, issued, version } => {
                out.extend_from_slice(&(*issued + began).as_nanos().to_be_bytes());
                put_ip(&mut out, *client);
                out.extend_from_slice(&version.0.to_be_bytes());
            }
        }
        out
    }

    fn decode(plain: &[u8]) -> Result<Option<Self>, Truncated> {
        let mut r = Reader::new(plain);
        let kind = r.u8()?;
        let issued = Time::from_nanos(r.u64()?);
        let ip = take_ip(&mut r)?;
        match kind {
            RETRY => {
                let client = SocketAddr::new(ip, r.u16()?);
                let (original_dcid, retry_scid) = (take_id(&mut r)?, take_id(&mut r)?);
                Ok(Some(Self::Retry { client, issued, original_dcid, retry_scid }))
            }
            NEW => Ok(Some(Self::New { client: ip, issued, version: Version(r.u32()?) })),
            _ => Ok(None),
        }
    }
}

/// Tokens for a client's later connections, as one of this address and version is told: two, so that two may
/// begin at a time.
pub(crate) fn new_tokens(
    crypto: &dyn EndpointCrypto,
    rng: &mut Rng,
    issued: Time,
    client: IpAddr,
    version: Version,
) -> Vec<Vec<u8>> {
    let token = ValidationToken::New { client, issued, version };
    (0..NEW_TOKENS).map(|_| token.seal(crypto, rng)).collect()
}

impl Presented {
    /// What `token` proves of the client that presents it. `is_spent` tells of tokens used before.
    pub(crate) fn judge(
        &self,
        token: &[u8],
        crypto: &dyn EndpointCrypto,
        is_spent: &dyn Fn(&Nonce) -> bool,
    ) -> TokenProof {
        let opened = ValidationToken::open(token, crypto);
        let now = self.now + crypto.began();
        match (opened, token.first()) {
            (Some(ValidationToken::Retry { client, issued, original_dcid, retry_scid }), _) => {
                let good = same(client, self.client)
                    && retry_scid == self.dcid
                    && is_fresh(now, issued, self.retry_lifetime);
                let trip = now.since(issued);
                if good { TokenProof::Retry { original_dcid, retry_scid, trip } } else { TokenProof::Bad }
            }
            (Some(ValidationToken::New { client, issued, version }), _) => {
                // RFC 9000 §8.1.3: one that is not good is as none at all.
                let nonce = token[1..].first_chunk().copied().unwrap_or_default();
                // RFC 9369 §5: so is one of another version.
                let good = client.to_canonical() == self.client.ip().to_canonical()
                    && version == self.version
                    && is_fresh(now, issued, self.lifetime)
                    && !is_spent(&nonce);
                if good { TokenProof::Before { nonce } } else { TokenProof::None }
            }
            (None, Some(&RETRY)) => TokenProof::Bad,
            (None, _) => TokenProof::None,
        }
    }
}

/// A token from the future is of another run, with another origin of time, or of a clock that was set back.
fn is_fresh(now: Time, issued: Time, lifetime: Duration) -> bool {
    issued <= now && now.since(issued) <= lifetime
}

/// Tokens from NEW_TOKEN that were used (RFC 9000 §8.1.4). The oldest are forgotten when there are more
/// than [`MAX_SPENT`]: who replays such a one only gets what its owner's address could have had again.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    spent: HashSet<Nonce>,
    order: VecDeque<Nonce>,
}

impl Replays {
    pub(crate) fn contains(&self, nonce: &Nonce) -> bool {
        self.spent.contains(nonce)
    }

    /// False when it was spent before.
    pub(crate) fn spend(&mut self, nonce: Nonce) -> bool {
        if !self.spent.insert(nonce) {
            return false;
        }
        self.order.push_back(nonce);
        if self.order.len() > MAX_SPENT {
            if let Some(oldest) = self.order.pop_front() {
                self.spent.remove(&oldest);
            }
        }
        true
    }
}

/// The longest token that is shown to a server, in bytes: an Initial packet of the least size has to hold it
/// beside the hello, and tokens are a tenth of that.
pub(crate) const MAX_TOKEN: usize = 768;

/// An IPv4 client of a dual-stack socket has two spellings.
fn same(a: SocketAddr, b: SocketAddr) -> bool {
    a.ip().to_canonical() == b.ip().to_canonical() && a.port() == b.port()
}

fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

fn take_ip(r: &mut Reader<'_>) -> Result<IpAddr, Truncated> {
    match r.u8()? {
        4 => Ok(IpAddr::from(r.array::<4>()?)),
        _ => Ok(IpAddr::from(r.array::<16>()?)),
    }
}

fn take_id(r: &mut Reader<'_>) -> Result<ConnectionId, Truncated> {
    let len = r.u8()?;
    ConnectionId::new(r.bytes(len.into())?).ok_or(Truncated)
}

const RETRY: u8 = 1;
const NEW: u8 = 2;

const NEW_TOKENS: usize = 2;

/// 12 bytes each, twice.
const MAX_SPENT: usize = 8192;
