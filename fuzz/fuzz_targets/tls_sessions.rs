//! Two real TLS sessions, and somebody between them who changes, cuts, doubles and swaps what they say: who
//! is through with the handshake has heard just what the other said, has its protocol, its parameters and
//! keys that fit; who is not says why by a TLS alert.
//!
//! The first byte of the input says what both want: certificates of clients, a session to go on with, early
//! data, another version. Then come pieces and what becomes of them.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use quickset::{ClientAuth, ClientConfig, EarlyData, Identity, ServerConfig, Trust};
use quickset_fuzz::Bytes;
use quickset_quic::{CryptoSession, KeyChange, Keys, PacketKey, Side, Version};

fuzz_target!(|input: &[u8]| {
    static IDENTITIES: OnceLock<[Identity; 2]> = OnceLock::new();
    let identities =
        IDENTITIES.get_or_init(|| [(); 2].map(|()| Identity::self_signed(["localhost"]).expect("a key")));
    let mut bytes = Bytes(input);
    let flags = bytes.next();
    let world = World::new(identities, flags);
    if flags & RESUMED != 0 {
        // Nobody is in between, and the client has its tickets from here on.
        let mut first = Talk::begin(&world, flags & !OTHER_VERSION);
        first.run(&mut Bytes(&[]));
        assert!(first.is_through(), "{:?}", first.failed);
    }
    let mut talk = Talk::begin(&world, flags);
    talk.run(&mut bytes);
    talk.judge();
});

/// What is wanted, by bits of the first byte.
const CLIENT_PROVES: u8 = 1;
const RESUMED: u8 = 2;
const EARLY: u8 = 4;
const OTHER_VERSION: u8 = 8;

/// How both are configured.
struct World {
    client: ClientConfig,
    server: ServerConfig,
}

impl World {
    fn new([server, client]: &[Identity; 2], flags: u8) -> Self {
        let mut world = Self {
            client: ClientConfig::new(Trust::pinned(server.fingerprint()), &["test"]).expect("usable"),
            server: ServerConfig::new(server.clone(), &["other", "test"]).expect("usable"),
        };
        if flags & CLIENT_PROVES != 0 {
            world.client = world.client.with_identity(client.clone());
            world.server = world.server.with_client_auth(ClientAuth::Mandatory).expect("usable");
        }
        if flags & EARLY != 0 {
            world.client = world.client.with_early_data(EarlyData::default()).expect("one protocol");
            world.server = world.server.with_early_data(EarlyData::default());
        }
        world
    }
}

/// A handshake.
struct Talk {
    ends: [End; 2],
    /// What ended it.
    failed: Option<(Side, u64)>,
}

struct End {
    session: Box<dyn CryptoSession>,
    /// What it said: how much of that at first, and how much before the keys of connections are there.
    said: Vec<u8>,
    first: usize,
    flight: Option<usize>,
    /// What of that is on its way, in pieces as they were written.
    under_way: Vec<Vec<u8>>,
    /// What it heard.
    heard: Vec<u8>,
    keys: Option<Keys>,
    /// It was through with the handshake when so much had been heard, by it and by the other.
    through: Option<[usize; 2]>,
}

impl End {
    fn new(session: Box<dyn CryptoSession>) -> Self {
        let (said, under_way, heard) = Default::default();
        Self { session, said, first: 0, flight: None, under_way, heard, keys: None, through: None }
    }

    /// Says what it has to.
    fn write(&mut self) {
        loop {
            let mut out = Vec::new();
            let change = self.session.write(&mut out);
            self.said.extend_from_slice(&out);
            if !out.is_empty() {
                self.under_way.push(out);
            }
            match change {
                None => return,
                Some(KeyChange::Handshake(_)) => {}
                Some(KeyChange::OneRtt { keys, .. }) => {
                    assert!(self.keys.replace(keys).is_none(), "keys of connections twice");
                    self.flight = Some(self.said.len());
                }
            }
        }
    }
}

impl Talk {
    fn begin(world: &World, flags: u8) -> Self {
        let crypto = world.client.quic().crypto.clone();
        let client = crypto.start(Version::V1, "localhost", PARAMS[0].to_vec()).expect("a name");
        let crypto = world.server.quic().crypto;
        let server = if flags & OTHER_VERSION == 0 {
            crypto.start(Version::V1, PARAMS[1].to_vec())
        } else {
            let choose = |params: &[u8]| (params == PARAMS[0]).then(|| (Version::V2, PARAMS[1].to_vec()));
            crypto.start_choosing(Version::V1, PARAMS[1].to_vec(), Box::new(choose))
        };
        let mut talk = Self { ends: [End::new(client), End::new(server)], failed: None };
        if let Some(early) = talk.ends[0].session.early_keys() {
            assert!(flags & (EARLY | RESUMED) == EARLY | RESUMED && early.packet.tag_len() == 16);
        }
        talk.ends.iter_mut().for_each(End::write);
        talk.ends[0].first = talk.ends[0].said.len();
        talk
    }

    fn run(&mut self, bytes: &mut Bytes<'_>) {
        // All that is said is heard at last.
        for _ in 0..PIECES {
            let wanted = usize::from(bytes.next() & 1);
            let from = if self.ends[wanted].under_way.is_empty() { 1 - wanted } else { wanted };
            if self.ends[from].under_way.is_empty() || self.failed.is_some() {
                return;
            }
            let piece = self.pass(from, bytes);
            self.hear(1 - from, &piece);
        }
    }

    /// The next piece of what this one said, as it arrives.
    fn pass(&mut self, from: usize, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let under_way = &mut self.ends[from].under_way;
        let what = bytes.next();
        let mut piece = under_way.remove(0);
        let at = usize::from(bytes.next()) << 8 | usize::from(bytes.next());
        match what % 16 {
            // As it is, but in two.
            1..5 => {
                let rest = piece.split_off(at % (piece.len() + 1));
                under_way.insert(0, rest);
            }
            5 => {
                let len = piece.len();
                piece[at % len] ^= bytes.next();
            }
            6 => drop(piece.drain(at % piece.len()..)),
            7 => {
                let at = at % (piece.len() + 1);
                let count = usize::from(bytes.next());
                piece.splice(at..at, bytes.take(count).iter().copied());
            }
            8 => under_way.insert(0, piece.clone()),
            9 => {
                under_way.push(piece);
                piece = under_way.remove(0);
            }
            10 => {
                let count = usize::from(bytes.next());
                piece = bytes.take(count).to_vec();
            }
            11 => {
                // A message of another length, which begins there.
                let len = piece.len();
                piece[(at % len).min(3)] = bytes.next();
            }
            _ => {}
        }
        under_way.retain(|piece| !piece.is_empty());
        piece
    }

    fn hear(&mut self, to: usize, piece: &[u8]) {
        if let Some(version) = self.ends[1].session.chosen_version().filter(|_| to == 0) {
            if self.ends[0].heard.is_empty() {
                self.ends[0].session.follow(version);
            }
        }
        let end = &mut self.ends[to];
        end.heard.extend_from_slice(piece);
        if let Err(error) = end.session.read(piece) {
            // RFC 9001 §4.8: an alert, or RFC 9001 §8.2: no parameters, which is one, too.
            let code = error.code.0;
            assert!((0x100..0x200).contains(&code), "{error:?}");
            assert!(end.through.is_none() || end.session.peer_params().is_some());
            let side = if to == 0 { Side::Client } else { Side::Server };
            self.failed = Some((side, code));
            return;
        }
        end.write();
        let heard = [self.ends[0].heard.len(), self.ends[1].heard.len()];
        for end in &mut self.ends {
            if !end.session.is_handshaking() {
                end.through.get_or_insert(heard);
            }
        }
    }

    fn is_through(&self) -> bool {
        self.ends.iter().all(|end| end.through.is_some())
    }

    fn judge(&mut self) {
        for at in 0..2 {
            let Some(heard) = self.ends[at].through else {
                let end = &self.ends[at];
                assert!(!end.session.export(b"label", b"", &mut [0; 16]) || end.keys.is_some());
                continue;
            };
            // RFC 8446 §4.4.1: both ends' Finished are of all that was said.
            for (to, from) in [(0, 1), (1, 0)] {
                // A client is through when it says the last of it.
                let first = Some(self.ends[from].first).filter(|_| at == 0 && from == 0);
                let whole = first.or(self.ends[from].flight).unwrap_or(self.ends[from].said.len());
                let n = heard[to].min(whole);
                assert_eq!(
                    self.ends[to].heard[..n],
                    self.ends[from].said[..n],
                    "{at} took what was not said"
                );
            }
            let session = &self.ends[at].session;
            assert_eq!(session.alpn(), Some(&b"test"[..]));
            assert_eq!(session.peer_params(), Some(PARAMS[1 - at]));
            assert!(self.ends[at].keys.is_some());
        }
        if self.is_through() {
            self.fit();
        }
    }

    /// What one seals the other opens.
    fn fit(&self) {
        let [client, server] = &self.ends;
        let (Some(ours), Some(theirs)) = (&client.keys, &server.keys) else {
            unreachable!("both are through")
        };
        opens(&*ours.local.packet, &*theirs.remote.packet);
        opens(&*theirs.local.packet, &*ours.remote.packet);
        // What fails behind the handshake takes the secrets along.
        if self.failed.is_some() {
            return;
        }
        let [mut one, mut other] = [[0; 32]; 2];
        assert!(client.session.export(b"label", b"of both", &mut one));
        assert!(server.session.export(b"label", b"of both", &mut other));
        assert_eq!(one, other);
        assert_ne!(one, [0; 32]);
    }
}

fn opens(seals: &dyn PacketKey, opens: &dyn PacketKey) {
    let mut payload = *b"some bytes and a tag            ";
    let plain = payload;
    seals.seal(7, b"header", &mut payload);
    let len = opens.open(7, b"header", &mut payload).expect("it is authentic");
    assert_eq!(payload[..len], plain[..len]);
}

/// Transport parameters: TLS only carries them.
const PARAMS: [&[u8]; 2] = [b"what the client says", b"and the server"];

/// Of one handshake, however they are cut.
const PIECES: usize = 400;
