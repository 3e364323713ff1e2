//! The cases: one line each in [`CASES`].

mod data;
mod early;
mod endings;
mod handshakes;
mod versions;

use std::pin::Pin;

use anyhow::Result;

use crate::world::InteropPair;

pub(crate) struct InteropCase {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(InteropPair) -> Running,
}

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

pub(crate) const CASES: &[InteropCase] = &[
    InteropCase {
        name: "handshake",
        about: "both sides agree on protocol and keys, and an echo",
        run: |p| Box::pin(handshakes::plain(p)),
    },
    InteropCase {
        name: "retry",
        about: "the server makes the client prove its address",
        run: |p| Box::pin(handshakes::retry(p)),
    },
    InteropCase {
        name: "large",
        about: "a certificate that does not fit the amplification limit",
        run: |p| Box::pin(handshakes::large(p)),
    },
    InteropCase {
        name: "lossy",
        about: "handshakes while 30 % of the first 20 packets are lost each way",
        run: |p| Box::pin(handshakes::lossy(p)),
    },
    InteropCase {
        name: "chacha20",
        about: "quinn has ChaCha20-Poly1305 only",
        run: |p| Box::pin(handshakes::chacha20(p)),
    },
    InteropCase {
        name: "alpn",
        about: "no common application protocol: error 0x178 on both sides",
        run: |p| Box::pin(handshakes::no_protocol(p)),
    },
    InteropCase {
        name: "early",
        about: "a second connection begins with data; another server takes none of it, and gets it again",
        run: |p| Box::pin(early::run(p)),
    },
    InteropCase {
        name: "versions",
        about: "no common version of QUIC: Version Negotiation, and what it leads to",
        run: |p| Box::pin(versions::run(p)),
    },
    InteropCase {
        name: "upload",
        about: "100 MB from the client, 1 % lost each way",
        run: |p| Box::pin(data::upload(p)),
    },
    InteropCase {
        name: "download",
        about: "100 MB from the server, 1 % lost each way",
        run: |p| Box::pin(data::download(p)),
    },
    InteropCase {
        name: "streams",
        about: "200 streams at once, each echoed, 1 % lost each way",
        run: |p| Box::pin(data::streams(p)),
    },
    InteropCase {
        name: "keyupdate",
        about: "both sides change keys, in turns, in the midst of a transfer",
        run: |p| Box::pin(data::key_updates(p)),
    },
    InteropCase {
        name: "rebind",
        about: "the client takes another socket in the midst of transfers, both ways",
        run: |p| Box::pin(data::rebind(p)),
    },
    InteropCase {
        name: "corruption",
        about: "one datagram in a hundred arrives with a flipped bit",
        run: |p| Box::pin(data::corruption(p)),
    },
    InteropCase {
        name: "close",
        about: "each side's application closes, with a code and words",
        run: |p| Box::pin(endings::close(p)),
    },
    InteropCase {
        name: "abandon",
        about: "streams reset and stopped, by each side, with codes",
        run: |p| Box::pin(endings::abandon(p)),
    },
    InteropCase {
        name: "idle",
        about: "the road is cut: both sides end by the shorter idle timeout",
        run: |p| Box::pin(endings::idle(p)),
    },
    InteropCase {
        name: "reset",
        about: "a server that lost its connections resets them statelessly",
        run: |p| Box::pin(endings::reset(p)),
    },
];
