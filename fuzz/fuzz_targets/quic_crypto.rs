//! The handshake of real TLS, of which the peer says its bytes in any pieces: cut, mixed, doubled and
//! overlapping, with what it has to say or something else, at any level.
//!
//! As long as each piece is of what the peer has to say, where it belongs, the handshake comes through when
//! all has been said. Whatever it says, ours holds little, comes to rest, and ends with an error of TLS or of
//! the transport if it ends.
//!
//! The first byte of the input chooses who ours is; then come pieces of eight bytes.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use quickset::{ClientConfig, Identity, ServerConfig, Trust};
use quickset_base::Duration;
use quickset_fuzz::peer::Cryptos;
use quickset_fuzz::victim::{Victim, config};
use quickset_fuzz::{Bytes, held};
use quickset_quic::{Closed, Side, TransportErrorCode as Code};
use quickset_wire::frame::Frame;
use quickset_wire::{Space, Writer};

fuzz_target!(|input: &[u8]| {
    static CRYPTOS: OnceLock<Cryptos> = OnceLock::new();
    let cryptos = CRYPTOS.get_or_init(cryptos).clone();
    let mut bytes = Bytes(input);
    let side = if bytes.next() & 1 == 0 { Side::Server } else { Side::Client };
    let before = held();
    let mut victim = Victim::begin(side, cryptos, Some(Default::default()), config(0));
    let mut talk = Talk { is_honest: true, pieces: 0 };
    while !bytes.is_empty() && talk.pieces < PIECES {
        talk.say(&mut victim, &mut bytes);
        assert!(held() - before < MOST, "{} bytes", held() - before);
    }
    talk.say_all(&mut victim);
    if talk.is_honest {
        assert!(victim.connected && victim.peer.is_connected(), "{:?}", victim.closed);
    }
    victim.pass(Duration::from_secs(60));
    if let Some(Closed::Failed(error)) = &victim.closed {
        let code = error.code;
        let known = code <= Code::VERSION_NEGOTIATION_ERROR && code != Code::INTERNAL_ERROR;
        assert!(known || code.is_crypto(), "{error:?}");
    }
});

/// Certificates as usual, and groups.
fn cryptos() -> Cryptos {
    let identity = Identity::self_signed(["localhost"]).expect("a key");
    let client = ClientConfig::new(Trust::pinned(identity.fingerprint()), &["fuzz"]).expect("usable");
    let server = ServerConfig::new(identity, &["fuzz"]).expect("usable");
    Cryptos { client: client.quic().crypto.clone(), server: server.quic().crypto, name: "localhost" }
}

/// What the peer said.
struct Talk {
    /// Nothing but what it has to say, where it belongs, and in no more pieces than anybody may.
    is_honest: bool,
    pieces: u32,
}

impl Talk {
    fn say(&mut self, victim: &mut Victim, bytes: &mut Bytes<'_>) {
        self.pieces += 1;
        let [what, level] = [bytes.next(), bytes.next()];
        let mut number = || usize::from(bytes.next()) << 8 | usize::from(bytes.next());
        let (from, len, extra) = (number(), number(), number());
        let of = Space::ALL[usize::from(level) % 3];
        let has = victim.peer.held.as_ref().expect("it is held")[of.index()].clone();
        let from = from % (has.len() + 1);
        let data = &has[from..has.len().min(from + len % 1000)];
        let at = from as u64;
        match what % 8 {
            0..=4 => say(victim, of, at, data),
            // Something else, a byte of it or all, or behind the end.
            5 => {
                let mut other = data.to_vec();
                if let Some(byte) = other.get_mut(extra % data.len().max(1)) {
                    *byte ^= 1 << (what >> 5);
                }
                self.is_honest &= other == data;
                say(victim, of, at, &other);
            }
            6 => {
                // As far ahead as there are numbers.
                let at = (extra as u64) << (what >> 3);
                let other = vec![what; 1 + len % 1000];
                self.is_honest = false;
                say(victim, of, at, &other);
            }
            // At another level.
            _ => {
                let other = Space::ALL[extra % 3];
                self.is_honest &= other == of;
                say(victim, other, at, data);
            }
        }
        if what & 8 != 0 {
            // Less in all than a handshake may take.
            victim.pass(Duration::from_millis(extra as u64 % 50));
        }
    }

    /// The rest, in order, each level as soon as there are keys for it.
    fn say_all(&mut self, victim: &mut Victim) {
        for _ in 0..3 {
            for space in Space::ALL {
                let has = victim.peer.held.as_ref().expect("it is held")[space.index()].clone();
                for (n, piece) in has.chunks(1000).enumerate() {
                    say(victim, space, n as u64 * 1000, piece);
                }
            }
        }
    }
}

/// In a packet of its own, which is answered.
fn say(victim: &mut Victim, space: Space, offset: u64, data: &[u8]) {
    let mut payload = vec![0; data.len() + 20];
    let mut w = Writer::new(&mut payload);
    Frame::Crypto { offset, data }.encode(&mut w);
    let payload = w.written().to_vec();
    victim.peer.say(space, &payload);
    victim.deliver();
}

/// Of one input: no more than may wait for others.
const PIECES: u32 = 60;

/// What ours may hold: two sessions, and pieces of handshakes ahead of others.
const MOST: isize = 1 << 20;
