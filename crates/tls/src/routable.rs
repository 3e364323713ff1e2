//! Connection ids by which a load balancer finds the server of a connection: QUIC-LB, as
//! draft-ietf-quic-load-balancers has it in May 2026.
//!
//! An id is a first octet, with the number of the configuration, and the server's id and a nonce, in clear or
//! under a key that balancers and servers have. A client's first ids are random: a balancer sends whoever it
//! cannot tell anything of wherever it likes, and the server's answer has an id that says where that was.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use quickset_base::Rng;
use quickset_quic::{ConnectionId, ConnectionIds};

/// How servers and balancers understand each other: a configuration of QUIC-LB.
///
/// ```
/// use quickset_tls::{RoutableIds, RoutableLayout};
///
/// // The same at servers and balancers; the third of seven that may be in use at a time.
/// let layout = || RoutableLayout::new(2, 3, 8).map(|layout| layout.with_key(&[7; 16]));
/// // What one of the servers gives to its endpoint, by `SocketConfig::connection_ids`.
/// let ids = RoutableIds::new(layout()?, &[0, 0, 42])?;
/// # use quickset_quic::ConnectionIds;
/// # let id = ids.draw(&mut quickset_base::Rng::new(1));
/// // And what a balancer finds in it.
/// assert_eq!(layout()?.server_id(&id), Some(vec![0, 0, 42]));
/// # Ok::<(), quickset_tls::RoutableLayoutError>(())
/// ```
#[derive(Clone)]
pub struct RoutableLayout {
    rotation: u8,
    server_id_len: usize,
    nonce_len: usize,
    tells_length: bool,
    key: Option<Aes128>,
}

/// Why a layout is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutableLayoutError {
    /// The number of a configuration is one of 0 to 6; 7 is for ids that say nothing.
    #[error("a configuration has a number from 0 to 6, and not {0}")]
    Rotation(u8),
    /// A server's id has a byte at least, a nonce four, and both at most 19.
    #[error(
        "{server_id} bytes of a server's id and {nonce} of a nonce: 1 and 4 at least, 19 at most together"
    )]
    Length {
        /// Of the server's id.
        server_id: usize,
        /// Of the nonce.
        nonce: usize,
    },
    /// The server's id has another length than the layout.
    #[error("the server's id has {0} bytes, and another number in the layout")]
    ServerId(usize),
}

/// Makes the connection ids of a server, by which balancers find it.
///
/// Under a key nonces are counted, from a random one on: none is used twice. When all were, ids say so
/// (0b111), and balancers go by addresses. Without a key they are random, and whoever sees an id sees the
/// server's: it tells those who watch which connections may be one that has moved.
///
/// A server answers what a balancer sent to the wrong one with nothing: it makes stateless resets for ids
/// that name it, and for no others (RFC 9000 §21.11). So all servers may have one key of resets. Neither are
/// ids reset that name no server, nor those of a configuration from before a restart; such clients time out.
pub struct RoutableIds {
    layout: RoutableLayout,
    server_id: Vec<u8>,
    nonces: Mutex<Nonces>,
}

/// Nonces of a key.
#[derive(Debug)]
enum Nonces {
    Fresh,
    Counted {
        first: Vec<u8>,
        next: Vec<u8>,
    },
    /// All were used.
    Exhausted,
}

impl RoutableLayout {
    /// Returns a layout without a key: of the configuration `rotation`, with so many bytes of a server's id
    /// and of a nonce.
    ///
    /// # Errors
    /// See [`RoutableLayoutError`].
    pub fn new(rotation: u8, server_id_len: usize, nonce_len: usize) -> Result<Self, RoutableLayoutError> {
        if rotation >= UNROUTABLE {
            return Err(RoutableLayoutError::Rotation(rotation));
        }
        let is_long = server_id_len.saturating_add(nonce_len) > MAX_PLAIN;
        if server_id_len == 0 || nonce_len < MIN_NONCE || is_long {
            return Err(RoutableLayoutError::Length { server_id: server_id_len, nonce: nonce_len });
        }
        Ok(Self { rotation, server_id_len, nonce_len, tells_length: false, key: None })
    }

    /// Hides servers' ids from all who have not this key (AES-128): in one pass where server's id and nonce
    /// have 16 bytes together, and in four where they have not.
    #[must_use]
    pub fn with_key(mut self, key: &[u8; 16]) -> Self {
        self.key = Some(Aes128::new(&(*key).into()));
        self
    }

    /// Has the first octet tell how many bytes follow, for hardware that opens packets.
    #[must_use]
    pub fn with_length(mut self) -> Self {
        self.tells_length = true;
        self
    }

    /// Returns the length of ids, in bytes.
    pub fn id_len(&self) -> usize {
        1 + self.plain_len()
    }

    /// Returns the server that an id names, as a balancer asks: `None` for an id of another configuration, or
    /// of none. One that a client has drawn may name any.
    pub fn server_id(&self, id: &[u8]) -> Option<Vec<u8>> {
        let (first, rest) = id.split_first()?;
        if first >> LENGTH_BITS != self.rotation {
            return None;
        }
        // A server may have put something of its own behind it.
        let mut plain = rest.get(..self.plain_len())?.to_vec();
        if let Some(key) = &self.key {
            open(key, &mut plain);
        }
        plain.truncate(self.server_id_len);
        Some(plain)
    }

    fn plain_len(&self) -> usize {
        self.server_id_len + self.nonce_len
    }

    /// An id of `server`; `spare` is what the first octet has where it does not tell the length.
    fn id(&self, server: &[u8], nonce: &[u8], spare: u8) -> Vec<u8> {
        let mut plain = [server, nonce].concat();
        if let Some(key) = &self.key {
            seal(key, &mut plain);
        }
        [&[self.first(self.rotation, self.tells_length, spare)], plain.as_slice()].concat()
    }

    fn first(&self, rotation: u8, tells_length: bool, spare: u8) -> u8 {
        let len = u8::try_from(self.plain_len()).expect("19 at most");
        let rest = if tells_length { len } else { spare & ((1 << LENGTH_BITS) - 1) };
        rotation << LENGTH_BITS | rest
    }
}

impl fmt::Debug for RoutableLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutableLayout")
            .field("rotation", &self.rotation)
            .field("server_id_len", &self.server_id_len)
            .field("nonce_len", &self.nonce_len)
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

impl RoutableIds {
    /// Makes the ids of this server.
    ///
    /// # Errors
    /// When its id has not the length that the layout gives it.
    pub fn new(layout: RoutableLayout, server_id: &[u8]) -> Result<Self, RoutableLayoutError> {
        if server_id.len() != layout.server_id_len {
            return Err(RoutableLayoutError::ServerId(server_id.len()));
        }
        Ok(Self { layout, server_id: server_id.to_vec(), nonces: Mutex::new(Nonces::Fresh) })
    }

    /// A nonce; `None` when all were used.
    fn nonce(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        let mut random = vec![0; self.layout.nonce_len];
        rng.fill(&mut random);
        if self.layout.key.is_none() {
            return Some(random);
        }
        let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*nonces, Nonces::Fresh) {
            *nonces = Nonces::Counted { first: random.clone(), next: random };
        }
        let Nonces::Counted { first, next } = &mut *nonces else { return None };
        let nonce = next.clone();
        for byte in next.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
        if next == first {
            *nonces = Nonces::Exhausted;
        }
        Some(nonce)
    }
}

impl ConnectionIds for RoutableIds {
    fn id_len(&self) -> usize {
        self.layout.id_len()
    }

    fn draw(&self, rng: &mut Rng) -> ConnectionId {
        let mut spare = [0];
        rng.fill(&mut spare);
        let id = if let Some(nonce) = self.nonce(rng) {
            self.layout.id(&self.server_id, &nonce, spare[0])
        } else {
            let mut id = vec![0; self.id_len()];
            rng.fill(&mut id);
            id[0] = self.layout.first(UNROUTABLE, true, 0);
            id
        };
        ConnectionId::new(&id).expect("at most 20 bytes")
    }

    fn is_ours(&self, id: &ConnectionId) -> bool {
        self.layout.server_id(id).is_some_and(|server| server == self.server_id)
    }
}

impl fmt::Debug for RoutableIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutableIds").field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// Encrypts a server's id and nonce, in place.
fn seal(key: &Aes128, plain: &mut [u8]) {
    if let Ok(block) = <&mut [u8; BLOCK]>::try_from(&mut *plain) {
        key.encrypt_block(block.into());
        return;
    }
    let mut halves = Halves::of(plain);
    for pass in 1..=PASSES {
        halves.pass(key, pass);
    }
    halves.join(plain);
}

/// Decrypts them again.
fn open(key: &Aes128, sealed: &mut [u8]) {
    if let Ok(block) = <&mut [u8; BLOCK]>::try_from(&mut *sealed) {
        key.decrypt_block(block.into());
        return;
    }
    let mut halves = Halves::of(sealed);
    for pass in (1..=PASSES).rev() {
        halves.pass(key, pass);
    }
    halves.join(sealed);
}

/// The halves of a network of Feistel's; of an odd number of bytes each has half of the one in the middle.
struct Halves {
    left: Vec<u8>,
    right: Vec<u8>,
    len: usize,
}

impl Halves {
    fn of(bytes: &[u8]) -> Self {
        let half = bytes.len().div_ceil(2);
        let (left, right) = (bytes[..half].to_vec(), bytes[bytes.len() - half..].to_vec());
        let mut halves = Self { left, right, len: bytes.len() };
        halves.clear();
        halves
    }

    /// The odd passes change the right half by the left one, the even ones the left by the right.
    fn pass(&mut self, key: &Aes128, pass: u8) {
        let (from, to) = match pass % 2 {
            1 => (&self.left, &mut self.right),
            _ => (&self.right, &mut self.left),
        };
        let mut block = [0; BLOCK];
        block[..from.len()].copy_from_slice(from);
        block[BLOCK - 2] = u8::try_from(self.len).expect("19 at most");
        block[BLOCK - 1] = pass;
        key.encrypt_block((&mut block).into());
        to.iter_mut().zip(block).for_each(|(byte, mask)| *byte ^= mask);
        self.clear();
    }

    fn clear(&mut self) {
        if self.len % 2 == 1 {
            self.left.last_mut().into_iter().for_each(|byte| *byte &= 0xf0);
            self.right.first_mut().into_iter().for_each(|byte| *byte &= 0x0f);
        }
    }

    fn join(&self, into: &mut [u8]) {
        let half = self.left.len();
        into[half..].copy_from_slice(&self.right[2 * half - self.len..]);
        into[..half].copy_from_slice(&self.left);
        if self.len % 2 == 1 {
            into[half - 1] |= self.right[0];
        }
    }
}

/// The number of no configuration: balancers go by addresses.
const UNROUTABLE: u8 = 0b111;

/// Bits of the first octet that are not the configuration's number.
const LENGTH_BITS: u8 = 5;

const MIN_NONCE: usize = 4;

/// Server's id and nonce: what the longest id has beside its first octet.
const MAX_PLAIN: usize = 19;

const BLOCK: usize = 16;
const PASSES: u8 = 4;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn key(hex: &str) -> [u8; 16] {
        bytes(hex).try_into().unwrap()
    }

    /// draft-ietf-quic-load-balancers, appendix "Load Balancer Test Vectors", and the example of four passes.
    #[test]
    fn ids_are_those_of_the_draft() {
        let other = "8f95f09245765f80256934e50c66207f";
        for (rotation, key_hex, server, nonce, id) in [
            (0, None, "c4605e", "4504cc4f", "07c4605e4504cc4f"),
            // The draft's own program lost a digit of both when it printed this one ("20a350d28b42…"); length
            // and nonce are as they were meant: 10 bytes, of which 5 are the nonce's.
            (1, None, "350d28b420", "03487d970b", "2a350d28b42003487d970b"),
            (0, Some("fdf726a9893ec05c0632d3956680baf0"), "31441a", "9c69c275", "0767947d29be054a"),
            (0, Some(other), "ed793a", "ee080dbf", "0720b1d07b359d3c"),
            (1, Some(other), "ed793a51d49b8f5fab65", "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2"),
            (2, Some(other), "ed793a51d49b8f5f", "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3"),
            (
                3,
                Some(other),
                "ed793a51d49b8f5fab",
                "ee080dbf48c0d1e55d",
                "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc",
            ),
        ] {
            let (server, nonce, id) = (bytes(server), bytes(nonce), bytes(id));
            let layout = RoutableLayout::new(rotation, server.len(), nonce.len()).unwrap().with_length();
            let layout = match key_hex {
                Some(hex) => layout.with_key(&key(hex)),
                None => layout,
            };
            let made = layout.id(&server, &nonce, 0);
            if rotation == 3 {
                // Printed with the number 0, as its table does not say: 18 bytes are 0x12 of either.
                assert_eq!((made[0], &made[1..]), (0x72, &id[1..]));
            } else {
                assert_eq!(made, id);
                assert_eq!(layout.server_id(&id), Some(server));
            }
        }
    }

    #[test]
    fn what_was_hidden_is_found_with_the_key_alone() {
        let mut rng = Rng::new(1);
        for server_id_len in 1..=15 {
            for nonce_len in 4..=19 - server_id_len {
                let layout = RoutableLayout::new(6, server_id_len, nonce_len).unwrap().with_key(&[1; 16]);
                let mut server = vec![0; server_id_len];
                rng.fill(&mut server);
                let ids = RoutableIds::new(layout.clone(), &server).unwrap();
                let drawn: BTreeSet<Vec<u8>> = (0..50).map(|_| ids.draw(&mut rng).to_vec()).collect();
                assert_eq!(drawn.len(), 50);
                for id in &drawn {
                    assert_eq!((id.len(), id[0] >> 5), (ids.id_len(), 6));
                    assert_eq!(layout.server_id(id), Some(server.clone()));
                    let longer = [id.as_slice(), &[9]].concat();
                    assert_eq!(layout.server_id(&longer), Some(server.clone()), "a byte of the server's own");
                    assert_eq!(layout.server_id(&id[..id.len() - 1]), None);
                }
                let firsts: BTreeSet<u8> = drawn.iter().map(|id| id[0]).collect();
                assert!(firsts.len() > 10, "the rest of the first octet is random");
                let wrong = layout.with_key(&[2; 16]);
                let found = drawn.iter().filter(|id| wrong.server_id(id) == Some(server.clone())).count();
                assert!(found < 10, "{found} of 50");
            }
        }
    }

    #[test]
    fn ids_of_other_configurations_say_nothing() {
        let layout = RoutableLayout::new(3, 1, 6).unwrap();
        for rotation in 0..8u8 {
            let id = [rotation << 5, 42, 1, 2, 3, 4, 5, 6];
            assert_eq!(layout.server_id(&id), (rotation == 3).then(|| vec![42]));
        }
        assert_eq!(layout.server_id(&[]), None);
    }

    /// RFC 9000 §21.11: what may be of another server, or of nobody knows whom, is not a server's own.
    #[test]
    fn a_server_knows_its_own_ids() {
        let mut rng = Rng::new(1);
        for layout in [
            RoutableLayout::new(1, 2, 6).unwrap(),
            RoutableLayout::new(1, 2, 6).unwrap().with_key(&[1; 16]),
            RoutableLayout::new(1, 2, 14).unwrap().with_key(&[1; 16]).with_length(),
        ] {
            let [ours, theirs] = [[0, 1], [0, 2]].map(|id| RoutableIds::new(layout.clone(), &id).unwrap());
            for _ in 0..100 {
                let id = ours.draw(&mut rng);
                assert!(ours.is_ours(&id) && !theirs.is_ours(&id));
            }
            for rotation in [0, 2, 7] {
                let mut id = ours.draw(&mut rng).to_vec();
                id[0] = id[0] & 0x1f | rotation << 5;
                assert!(!ours.is_ours(&ConnectionId::new(&id).unwrap()), "of configuration {rotation}");
            }
            let short = ConnectionId::new(&ours.draw(&mut rng)[..8]).unwrap();
            assert!(!ours.is_ours(&short));
        }
    }

    /// No nonce is used twice under a key; whoever has none left says so.
    #[test]
    fn all_nonces_are_used_once() {
        let layout = RoutableLayout::new(0, 1, 4).unwrap().with_key(&[1; 16]);
        let ids = RoutableIds::new(layout.clone(), &[7]).unwrap();
        // 70,000 are left of all.
        let (first, next) = (vec![0, 1, 0x11, 0x70], vec![0, 0, 0, 0]);
        *ids.nonces.lock().unwrap() = Nonces::Counted { first, next };
        let mut rng = Rng::new(1);
        let drawn: BTreeSet<Vec<u8>> = (0..70_000).map(|_| ids.draw(&mut rng)[1..].to_vec()).collect();
        assert_eq!(drawn.len(), 70_000);
        let late = ids.draw(&mut rng);
        assert_eq!((late[0], layout.server_id(&late)), (0b1110_0000 | 5, None));
        assert_ne!(late, ids.draw(&mut rng));
    }

    #[test]
    fn layouts_that_the_draft_has_not_are_refused() {
        let length = |server_id, nonce| RoutableLayoutError::Length { server_id, nonce };
        assert_eq!(RoutableLayout::new(7, 1, 4).unwrap_err(), RoutableLayoutError::Rotation(7));
        for (server_id, nonce) in [(0, 8), (1, 3), (16, 4), (usize::MAX, 4)] {
            assert_eq!(RoutableLayout::new(0, server_id, nonce).unwrap_err(), length(server_id, nonce));
        }
        let layout = RoutableLayout::new(0, 15, 4).unwrap();
        assert_eq!(layout.id_len(), 20);
        assert_eq!(RoutableIds::new(layout, &[1; 14]).unwrap_err(), RoutableLayoutError::ServerId(14));
    }
}
