//! What a packet costs the server, whatever it is full of: a search for the worst of each type of frame.
//!
//! Each [`Storm`] draws how large, how many and how far apart things are from a seed; the worst of several
//! draws is what a frame costs. `cargo bench -p quickset-h3 --bench frames` prints the table in time; the
//! test below holds the same storms against a packet of usual data in the same run, since neither the machine
//! nor the build is known to it.

use std::cell::RefCell;
use std::rc::Rc;

use quickset_base::{Duration, Rng};
use quickset_h3::{ErrorCode, capsule};
use quickset_quic::StreamId;
use quickset_wire::frame::Frame;
use quickset_wire::{ConnectionId, Dir, FecDecoder, ResetToken, Schemes, Side, Writer};

use crate::arena::{Arena, Setup};
use crate::hostile::{Hostile, encoded};
use crate::requests::{CONTROL, DECODER, ENCODER, bidi, frame as http_frame, greet, request, uni};

/// What the server does for a packet that is said and not dropped unpaid: for what it makes of it later and
/// for the acknowledgements of that, too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Nanoseconds.
    pub(crate) time: u64,
    pub(crate) allocations: u64,
    /// Bytes that came.
    pub(crate) bytes: u64,
    /// Datagrams that came, hundreds for a hundred packets: acknowledgements are among them.
    pub(crate) datagrams: u64,
    /// Requests, or streams, that the application heard of; hundreds likewise.
    pub(crate) heard: u64,
}

impl Cost {
    /// Nanoseconds for each datagram that came: acknowledgements are packets, too, and pay for what others
    /// ask.
    pub(crate) fn each(&self) -> u64 {
        self.time * 100 / self.datagrams.max(100)
    }
}

/// A type of frame, and how an attacker says it.
#[derive(Clone, Copy)]
pub(crate) struct Storm {
    pub(crate) name: &'static str,
    on: On,
    /// What a server is there for: the application hears of it, and gives what it was asked for.
    pub(crate) is_useful: bool,
    /// A packet at a time, by what was drawn.
    begin: fn(Knobs) -> Say,
}

pub(crate) type Say = Box<dyn FnMut(&mut Hostile, u64)>;

/// What the attacker speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Quic,
    Http,
    /// A session of WebTransport, on the first stream.
    Session,
}

/// What was drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knobs {
    /// Bytes of a thing.
    pub(crate) size: u64,
    /// How far apart things are.
    pub(crate) step: u64,
    /// How many there are before the first comes again.
    pub(crate) many: u64,
    pub(crate) odd: bool,
}

impl Knobs {
    fn draw(rng: &mut Rng) -> Self {
        let mut upto = |bits| {
            let bits = 1 + rng.below(bits);
            rng.below(1 << bits)
        };
        let (size, step, many) = (upto(10), upto(12), upto(8).max(1));
        Self { size, step, many, odd: rng.chance(0.5) }
    }
}

/// The usual packet: the next bytes of a stream that is read.
pub(crate) const USUAL: Storm = Storm {
    name: "usual data",
    on: On::Quic,
    is_useful: true,
    begin: |_| Box::new(|hostile, _| hostile.write(uni(0), &[7; 1100], false)),
};

pub(crate) const STORMS: &[Storm] = &[
    quic("PADDING, PING", |k| {
        plain(move |n| if k.odd || n % k.many == 0 { Frame::Ping } else { Frame::Padding(1) })
    }),
    quic("ACK", |k| {
        Box::new(move |hostile, _| {
            hostile.acks = false;
            let seen: Vec<u64> = hostile.seen().into_iter().flatten().collect();
            // Every other one, or what the draw says, of those that came; the newest first.
            let mut numbers = seen.into_iter().rev().step_by(2 + (k.step % 3) as usize).collect::<Vec<_>>();
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            if numbers.is_empty() {
                return hostile.say(&[Frame::Ping]);
            }
            let ack = crate::hostile::ack(numbers.into_iter().take(500).map(|n| n..=n));
            let more = if k.odd { 1150 / ack.len().max(1) } else { 1 };
            hostile.say_bytes(&[encoded(&[Frame::Ping]), ack.repeat(more.max(1))].concat());
        })
    }),
    quic("STREAM in pieces", |k| {
        plain(move |n| {
            let at = n.wrapping_mul(2 * k.step + 1) % 50_000;
            let data = bytes(1 + k.size % 40);
            Frame::Stream { id: uni(n % k.many.min(8)), offset: at, fin: false, data }
        })
    }),
    useful(quic("STREAM, new streams", |k| {
        opening(Dir::Uni, move |id| vec![Frame::Stream { id, offset: 0, fin: k.odd, data: &[7] }])
    })),
    quic("RESET_STREAM, new streams", |k| {
        opening(if k.odd { Dir::Uni } else { Dir::Bi }, |id| {
            vec![Frame::ResetStream { id, code: 7, final_size: 0 }]
        })
    }),
    quic("RESET_STREAM again", |k| {
        plain(move |n| Frame::ResetStream { id: uni(n % k.many.min(50)), code: n % 64, final_size: 0 })
    }),
    quic("RESET_STREAM_AT", |k| {
        opening(Dir::Uni, move |id| {
            let size = k.size % 100;
            vec![Frame::ResetStreamAt { id, code: 7, final_size: 100, reliable_size: size }]
        })
    }),
    quic("STOP_SENDING, new streams", |_| opening(Dir::Bi, |id| vec![Frame::StopSending { id, code: 7 }])),
    quic("a stream, reset and stopped", |_| {
        opening(Dir::Bi, |id| {
            vec![
                Frame::Stream { id, offset: 0, fin: false, data: &[7] },
                Frame::ResetStream { id, code: 7, final_size: 1 },
                Frame::StopSending { id, code: 7 },
            ]
        })
    }),
    quic("MAX_DATA", |k| plain(move |n| Frame::MaxData((1 << 40) + n * k.step))),
    quic("MAX_STREAM_DATA", |k| {
        plain(move |n| Frame::MaxStreamData { id: bidi(n % k.many.min(60)), max: (1 << 40) + n * k.step })
    }),
    quic("MAX_STREAMS", |k| plain(move |n| Frame::MaxStreams { dir: Dir::Bi, max: 1000 + n * k.step })),
    quic("DATA_BLOCKED and so on", |k| {
        plain(move |n| match n % 3 {
            0 => Frame::DataBlocked(n * k.step),
            1 => Frame::StreamsBlocked { dir: Dir::Bi, limit: n * k.step },
            _ => Frame::StreamDataBlocked { id: bidi(n % k.many.min(60)), limit: n * k.step },
        })
    }),
    quic("CRYPTO with holes", |k| {
        plain(move |n| {
            let offset = 3 + n.wrapping_mul(2 * k.step + 1) % 4000;
            Frame::Crypto { offset, data: bytes(1 + k.size % 20) }
        })
    }),
    quic("NEW_CONNECTION_ID", |k| {
        plain(move |n| {
            let sequence = n + 1;
            let id = ConnectionId::new(&(sequence + (1 << 40)).to_be_bytes()).expect("eight bytes");
            let retire_prior_to = if k.odd { sequence } else { sequence.saturating_sub(1 + k.many % 3) };
            let token = ResetToken([sequence as u8; 16]);
            Frame::NewConnectionId { sequence, retire_prior_to, id, token }
        })
    }),
    quic("RETIRE_CONNECTION_ID", |_| {
        let mut next = 1;
        Box::new(move |hostile, _| {
            // Not the one in use, whose turn is never.
            let known = hostile.ids.iter().map(|(sequence, _)| *sequence).max().unwrap_or(0);
            let frames: Vec<_> =
                (next..known).map(|sequence| Frame::RetireConnectionId { sequence }).collect();
            next = next.max(known);
            if !frames.is_empty() {
                hostile.say(&frames);
            }
        })
    }),
    quic("PATH_CHALLENGE", |_| plain(|n| Frame::PathChallenge(n.to_be_bytes()))),
    quic("PATH_RESPONSE", |_| plain(|n| Frame::PathResponse(n.to_be_bytes()))),
    quic("DATAGRAM", |k| plain(move |_| Frame::Datagram { len: true, data: bytes(k.size % 64) })),
    quic("ACK_FREQUENCY, IMMEDIATE_ACK", |k| {
        plain(move |n| {
            if k.odd {
                return Frame::ImmediateAck;
            }
            Frame::AckFrequency { sequence: n, threshold: k.step, max_delay_us: 5000, reordering: k.many }
        })
    }),
    quic("FENCED, a fence each", |k| {
        let mut at = 0;
        plain(move |_| {
            let data = records(1 + k.size % 8);
            let offset = at;
            at += data.len() as u64;
            Frame::Fenced { id: uni(0), offset, distance: 0, start: true, each: k.odd, fin: false, data }
        })
    }),
    quic("FENCED with holes", |k| {
        // In an order of its own, as a permutation of what the window has room for.
        plain(move |n| {
            let data = records(1);
            let offset = 2 * (n.wrapping_mul(2 * k.step + 1) % (1 << (5 + k.many % 10)));
            let distance = if k.odd { offset } else { 0 };
            Frame::Fenced {
                id: uni(n % k.many.min(8)),
                offset,
                distance,
                start: true,
                each: false,
                fin: false,
                data,
            }
        })
    }),
    quic("FENCED with holes, in streams", |k| {
        let mut at = 0;
        plain(move |n| {
            at += u64::from(n % k.many.min(60) == 0);
            let offset = 2 * (at * (2 + k.step % 3) + k.size % 2);
            Frame::Fenced {
                id: uni(n % k.many.min(60)),
                offset,
                distance: if k.odd { offset } else { 0 },
                start: true,
                each: false,
                fin: false,
                data: records(1),
            }
        })
    }),
    quic("ABANDON", |k| {
        plain(move |n| {
            let offset = 2 * (n.wrapping_mul(2 * k.step + 1) % (1 << (5 + k.many % 10)));
            Frame::Abandon { id: uni(n % k.many.min(8)), offset, len: 2 + 2 * (k.size % 8) }
        })
    }),
    quic("SOURCE_SYMBOL", |k| {
        let mut sid = 0;
        packets(move |n| {
            sid += 1 + if k.odd { 0 } else { k.step % 40 };
            (0..8)
                .map(|s| Frame::SourceSymbol { session: 8 * s + n % k.many % 5, sid, data: SYMBOL })
                .collect()
        })
    }),
    quic("REPAIR, XOR", |k| repairs(0, k)),
    quic("REPAIR, grid", |k| repairs(1, k)),
    quic("REPAIR, Reed-Solomon", |k| repairs(2, k)),
    quic("REPAIR, LDPC", |k| repairs(3, k)),
    quic("REPAIR, RLC", |k| repairs(4, k)),
    quic("symbols and REPAIR, RLC", |k| {
        let (mut sid, mut seed) = (0, 0);
        packets(move |_| {
            let mut frames = Vec::new();
            for s in 0..8 {
                sid += u64::from(s == 0) * (1 + k.step % 3);
                frames.push(Frame::SourceSymbol { session: 8 * s + 4, sid, data: SYMBOL });
            }
            for _ in 0..60 {
                seed += 1;
                let count = 1 + (k.many * 8).min(1000);
                let (first, session) = (sid.saturating_sub(count), 8 * (seed % 8) + 4);
                frames.push(Frame::Repair { session, first, count, parameter: 0, index: seed, data: SYMBOL });
            }
            frames
        })
    }),
    quic("FEC_WINDOW", |k| plain(move |n| Frame::FecWindow { epoch: n, window: 1 + n * k.step % 1024 })),
    quic("UNMARKED", |_| plain(|n| Frame::Unmarked { session: 4, packets: 1 + n % 0xff })),
    http("DATA of nothing", |k| body(move |_| http_frame(0, &[7; 64][..(k.size % 4) as usize]))),
    useful(http("HEADERS, answered", |_| requesting(|_| Vec::new(), true))),
    http("HEADERS, stopped at once", |k| {
        requesting(
            move |id| {
                let stop = Frame::StopSending { id, code: 0x10c };
                let reset = Frame::ResetStream { id, code: 0x10c, final_size: request().len() as u64 };
                if k.odd { vec![stop] } else { vec![reset, stop] }
            },
            k.odd,
        )
    }),
    http("HEADERS, stopped in their answers", |k| {
        // Those of the packet before, whose answers have begun.
        let begun = Rc::new(RefCell::new(Vec::new()));
        let opened = begun.clone();
        let and = move |id| {
            opened.borrow_mut().push(id);
            Vec::new()
        };
        let mut open = requesting(and, !k.odd);
        Box::new(move |hostile, packet| {
            let (queued, before) = (hostile.queued(), begun.take());
            open(hostile, packet);
            if hostile.queued() == queued {
                let opened = begun.take();
                begun.replace([before, opened].concat());
                return;
            }
            let stops = before.into_iter().flat_map(|id| {
                let reset = Frame::ResetStream { id, code: 0x10c, final_size: request().len() as u64 };
                let stop = Frame::StopSending { id, code: 0x10c };
                if k.odd { vec![reset, stop] } else { vec![stop] }
            });
            let stops: Vec<_> = stops.collect();
            if !stops.is_empty() {
                hostile.say(&stops);
            }
        })
    }),
    http("HEADERS with priorities, stopped", |k| {
        let mut section = crate::requests::section();
        // A literal with a name of its own: `priority`.
        let value = if k.odd { &b"u=1, i"[..] } else { b"u=1, exp_p=(\"a\" \"b\")" };
        section.extend([0x27, 1]);
        section.extend(b"priority");
        section.push(value.len() as u8);
        section.extend(value);
        let bytes: &'static [u8] = http_frame(1, &section).leak();
        opening(Dir::Bi, move |id| {
            let request = Frame::Stream { id, offset: 0, fin: true, data: bytes };
            vec![request, Frame::StopSending { id, code: 0x10c }]
        })
    }),
    http("HEADERS that are wrong", |_| {
        let wrong: &'static [u8] = http_frame(1, &[0, 0, 0xd1]).leak();
        opening(Dir::Bi, move |id| vec![Frame::Stream { id, offset: 0, fin: true, data: wrong }])
    }),
    http("HEADERS of many fields", |k| {
        let mut section = crate::requests::section();
        section.extend(std::iter::repeat_n(0xc0 | 0x1d, if k.odd { 1000 } else { k.many as usize }));
        let bytes = http_frame(1, &section);
        let mut next = 0;
        Box::new(move |hostile, _| {
            if next < hostile.allowed[0] {
                hostile.write(bidi(next), &bytes, true);
                next += 1;
            }
        })
    }),
    http("streams of unknown types", |k| {
        opening(Dir::Uni, move |id| vec![Frame::Stream { id, offset: 0, fin: k.odd, data: &[0x40, 0x77] }])
    }),
    http("GOAWAY", |_| control(|n| http_frame(7, &varint((1 << 40) - n)))),
    http("GOAWAY again", |_| control(|_| http_frame(7, &[0]))),
    http("MAX_PUSH_ID", |k| control(move |n| http_frame(0xd, &varint(n * k.step)))),
    http("CANCEL_PUSH", |_| control(|_| http_frame(3, &[0]))),
    http("PRIORITY_UPDATE", |k| {
        control(move |n| {
            let id = 4 * (n % k.many);
            let value = if k.odd { format!("u={}", n % 8) } else { format!("exp_p=(\"{n}\")") };
            http_frame(0xf_0700, &[varint(id), value.into_bytes()].concat())
        })
    }),
    http("PRIORITY_UPDATE of requests", |k| {
        let mut begun = false;
        let mut names = 0;
        Box::new(move |hostile, _| {
            if !std::mem::replace(&mut begun, true) {
                // Without an end: what is said of them is said of a stream.
                (0..40).for_each(|n| hostile.write(bidi(n), &request(), false));
                return;
            }
            if hostile.repeat() {
                return;
            }
            let bytes = filled(|| {
                let parents = (0..=k.size % 16).map(|_| {
                    names += u64::from(k.odd);
                    format!("\"{}\"", names % 1000)
                });
                let value = format!("exp_p=({})", parents.collect::<Vec<_>>().join(" "));
                names += 1;
                http_frame(0xf_0700, &[varint(4 * (names % 40)), value.into_bytes()].concat())
            });
            hostile.insist(CONTROL, &bytes);
        })
    }),
    http("unknown frames", |k| {
        control(move |_| http_frame(0x21 + 0x1f * k.step, &[7; 4][..(k.size % 4) as usize]))
    }),
    http("QPACK: entries", |k| {
        encoder(move |n| {
            let name = [0x41, b'a' + (n % 20) as u8];
            let len = (k.size % 8) as u8;
            [&name[..], &[len], &[b'v'; 8][..len.into()]].concat()
        })
    }),
    http("QPACK: duplicates", |k| {
        let len = (k.size % 100) as u8;
        encoder(move |n| if n == 0 { [&[0x41, b'a', len][..], bytes(len.into())].concat() } else { vec![0] })
    }),
    http("QPACK: capacity", |k| {
        encoder(move |n| if n % 2 == 0 { vec![0x20] } else { vec![0x3f, (k.size % 100) as u8] })
    }),
    http("QPACK: cancellations", |k| stream(DECODER, move |n| vec![0x40 | (4 * (n % k.many) % 60) as u8])),
    session("capsules: DATAGRAM", |k| {
        capsules(move |_| capsule(capsule::DATAGRAM, &[7; 64][..(k.size % 4) as usize]))
    }),
    session("capsules: WT_DRAIN_SESSION", |_| capsules(|_| capsule(capsule::WT_DRAIN_SESSION, &[]))),
    session("capsules: credit", |k| {
        capsules(move |n| {
            let kind = if k.odd { capsule::WT_MAX_DATA } else { capsule::WT_MAX_STREAMS_UNI };
            capsule(kind, &varint((1 << 40) + n))
        })
    }),
    session("capsules, unknown", |k| {
        capsules(move |_| capsule(0x21 + 0x1f * k.step, &[7; 4][..(k.size % 4) as usize]))
    }),
    session("datagrams of a session", |k| datagrams(0, k)),
    session("datagrams of no session", |k| datagrams(1 + k.step, k)),
    useful(session("streams of a session", |k| session_streams(k, |_| Vec::new()))),
    session("streams of a session, given up", |k| {
        session_streams(k, move |id| {
            let reset = Frame::ResetStream { id, code: 7, final_size: k.size % 8 + 3 };
            if id.dir() == Dir::Bi { vec![reset, Frame::StopSending { id, code: 7 }] } else { vec![reset] }
        })
    }),
    session("streams of no session", |k| {
        opening(if k.odd { Dir::Uni } else { Dir::Bi }, move |id| {
            let bytes: &[u8] = if k.odd { &[0x40, 0x54, 8] } else { &[0x40, 0x41, 8] };
            vec![Frame::Stream { id, offset: 0, fin: k.size % 2 == 0, data: bytes }]
        })
    }),
];

const fn quic(name: &'static str, begin: fn(Knobs) -> Say) -> Storm {
    Storm { name, on: On::Quic, is_useful: false, begin }
}

const fn http(name: &'static str, begin: fn(Knobs) -> Say) -> Storm {
    Storm { name, on: On::Http, is_useful: false, begin }
}

const fn session(name: &'static str, begin: fn(Knobs) -> Say) -> Storm {
    Storm { name, on: On::Session, is_useful: false, begin }
}

/// The same, where it is what the server is there for.
const fn useful(storm: Storm) -> Storm {
    Storm { is_useful: true, ..storm }
}

/// As many frames as a packet has room for.
fn plain(mut next: impl FnMut(u64) -> Frame<'static> + 'static) -> Say {
    let mut n = 0;
    Box::new(move |hostile, _| {
        let bytes = filled(|| {
            n += 1;
            short(&[next(n - 1)])
        });
        hostile.say_bytes(&bytes);
    })
}

/// These frames a packet, as far as there is room.
fn packets(mut next: impl FnMut(u64) -> Vec<Frame<'static>> + 'static) -> Say {
    Box::new(move |hostile, n| {
        let mut frames = next(n).into_iter();
        let bytes = filled(|| frames.next().map_or(Vec::new(), |frame| short(&[frame])));
        hostile.say_bytes(&bytes);
    })
}

/// As many new streams as a packet has room for, as soon as the server allows them, or it allowed no more for
/// a while.
fn opening(dir: Dir, mut next: impl FnMut(StreamId) -> Vec<Frame<'static>> + 'static) -> Say {
    // Others are what a client of HTTP/3 has, and a session.
    let (mut index, mut waited) = (3, 0);
    let mut bytes = Vec::new();
    Box::new(move |hostile, _| {
        while index < hostile.allowed[dir as usize] {
            let frames = short(&next(StreamId::new(Side::Client, dir, index)));
            if bytes.len() + frames.len() > ROOM {
                waited = 0;
                return hostile.say_bytes(&std::mem::take(&mut bytes));
            }
            bytes.extend_from_slice(&frames);
            index += 1;
        }
        waited += 1;
        if waited > PATIENCE && !bytes.is_empty() {
            waited = 0;
            hostile.say_bytes(&std::mem::take(&mut bytes));
        }
    })
}

/// REPAIRs of a scheme, of one byte.
fn repairs(scheme: u64, k: Knobs) -> Say {
    plain(move |n| {
        let session = 8 * (n % 8 % k.many) + scheme;
        let count = match scheme {
            2 => 1 + k.size % 200,
            _ => 1 + k.size % 1024,
        };
        let (first, index) = match scheme {
            // As far as blocks do not overlap, each is one of its own.
            4 => (n / 8 / k.many * (k.step % 80), n),
            _ if k.odd => (n / 8 * count, 0),
            _ => (n / 8 / 50 * count, n / 8 % 50 % (256 - count.min(255))),
        };
        let parameter = match scheme {
            0 | 2 => 1,
            1 => 8,
            3 => 1024,
            _ => 0,
        };
        let index = match scheme {
            0 => 0,
            1 => index % (8 + count.div_ceil(8)),
            _ => index,
        };
        Frame::Repair { session, first, count, parameter, index, data: SYMBOL }
    })
}

/// Requests, and what is said of each at once.
fn requesting(mut and: impl FnMut(StreamId) -> Vec<Frame<'static>> + 'static, fin: bool) -> Say {
    let request: &'static [u8] = request().leak();
    opening(Dir::Bi, move |id| {
        let mut frames = vec![Frame::Stream { id, offset: 0, fin, data: request }];
        frames.extend(and(id));
        frames
    })
}

/// The body of one request.
fn body(mut next: impl FnMut(u64) -> Vec<u8> + 'static) -> Say {
    let mut n = 0;
    Box::new(move |hostile, packet| {
        if packet == 0 {
            hostile.write(bidi(0), &request(), false);
        }
        let bytes = filled(|| {
            n += 1;
            next(n - 1)
        });
        hostile.write(bidi(0), &bytes, false);
    })
}

/// The stream of the session.
fn capsules(next: impl FnMut(u64) -> Vec<u8> + 'static) -> Say {
    let mut next = next;
    stream(bidi(0), move |n| {
        // As many as fit, in a frame of their own.
        let first = next(n);
        let many = (1000 / first.len()).max(1) as u64;
        let rest = (1..many).flat_map(|_| next(n));
        http_frame(0, &first.into_iter().chain(rest).collect::<Vec<_>>())
    })
}

fn capsule(kind: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    capsule::encode(&mut bytes, kind, value);
    bytes
}

/// Datagrams of QUIC, each for the request with this number.
fn datagrams(request: u64, k: Knobs) -> Say {
    let data: &'static [u8] = [varint(request), vec![7; (k.size % 8) as usize]].concat().leak();
    plain(move |_| Frame::Datagram { len: true, data })
}

/// Streams of the session, with some bytes each, and what is said of each at once.
fn session_streams(k: Knobs, mut and: impl FnMut(StreamId) -> Vec<Frame<'static>> + 'static) -> Say {
    let dir = if k.odd { Dir::Uni } else { Dir::Bi };
    let kind = if k.odd { 0x54 } else { 0x41 };
    let data: &'static [u8] = [&[0x40, kind, 0], bytes(k.size % 8)].concat().leak();
    opening(dir, move |id| {
        let frames = and(id);
        let fin = frames.is_empty();
        [vec![Frame::Stream { id, offset: 0, fin, data }], frames].concat()
    })
}

fn control(next: impl FnMut(u64) -> Vec<u8> + 'static) -> Say {
    stream(CONTROL, next)
}

/// Instructions behind one that allows a table.
fn encoder(mut next: impl FnMut(u64) -> Vec<u8> + 'static) -> Say {
    let mut begun = false;
    stream(ENCODER, move |n| {
        if std::mem::replace(&mut begun, true) { next(n) } else { [vec![0x3f, 0xe1, 0x1f], next(n)].concat() }
    })
}

fn stream(id: StreamId, mut next: impl FnMut(u64) -> Vec<u8> + 'static) -> Say {
    let mut n = 0;
    Box::new(move |hostile, _| {
        if hostile.repeat() {
            return;
        }
        let bytes = filled(|| {
            n += 1;
            next(n - 1)
        });
        hostile.insist(id, &bytes);
    })
}

/// A packet of such, until nothing comes.
fn filled(mut next: impl FnMut() -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ROOM);
    loop {
        let more = next();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&more);
        if bytes.len() + more.len() > ROOM {
            return bytes;
        }
    }
}

fn short(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; ROOM];
    let mut w = Writer::new(&mut bytes);
    for frame in frames {
        frame.encode(&mut w);
    }
    w.written().to_vec()
}

fn varint(n: u64) -> Vec<u8> {
    let mut bytes = [0; 8];
    let mut w = Writer::new(&mut bytes);
    w.varint(n);
    w.written().to_vec()
}

/// So many records of a byte, each with its length in front of it.
fn records(n: u64) -> &'static [u8] {
    &[1; 64][..2 * n as usize]
}

/// So many bytes of data.
fn bytes(n: u64) -> &'static [u8] {
    &[7; 1024][..n as usize]
}

impl Storm {
    /// What a packet of it costs in the worst of `draws` draws, each over as many packets, and what was
    /// drawn.
    pub(crate) fn worst(&self, seed: u64, draws: u64, packets: u64) -> (Cost, Knobs) {
        let mut rng = Rng::new(seed);
        let tried = (0..draws).map(|_| {
            let knobs = Knobs::draw(&mut rng);
            (self.cost(knobs, packets), knobs)
        });
        tried.max_by_key(|(cost, _)| cost.time).expect("there are draws")
    }

    /// The least of three, since others may have the processor for a while.
    pub(crate) fn cost(&self, knobs: Knobs, packets: u64) -> Cost {
        let tried = (0..3).map(|_| self.once(knobs, (0, packets)));
        tried.min_by_key(|cost| cost.time).expect("three times")
    }

    /// What a packet that comes costs when that goes on and on, whoever is paced being so by then.
    pub(crate) fn in_the_long_run(&self, knobs: Knobs, packets: u64) -> Cost {
        let tried = (0..3).map(|_| self.once(knobs, (2 * packets, packets)));
        tried.min_by_key(Cost::each).expect("three times")
    }

    /// So many packets are not looked at, and then so many are.
    fn once(&self, knobs: Knobs, (before, packets): (u64, u64)) -> Cost {
        // Nobody else speaks.
        let mut arena = self.setup().quiet();
        arena.replace_hostile(|params| {
            params.fec_decoder = Some(FecDecoder {
                window: 1024,
                max_sessions: 8,
                max_symbol_size: 1472,
                schemes: Schemes::ALL,
            });
            params.fenced_streams = Some(64 << 10);
            params.max_datagram_frame_size = 65_535;
            params.min_ack_delay = Some(Duration::from_millis(1));
        });
        arena.hostile().connect();
        arena.pass(Duration::from_millis(200));
        assert!(arena.hostile().is_connected(), "{}: no handshake", self.name);
        self.greet(&mut arena);
        let mut say = (self.begin)(knobs);
        // The server opens what there is to open.
        say(arena.hostile(), 0);
        arena.pass(Duration::from_millis(50));
        let mut number = 0;
        let mut go_on = |arena: &mut Arena, packets| {
            let (mut said, mut silent) = (0, 0);
            while said < packets && silent < SILENCE && arena.hostile().closed.is_none() {
                let queued = arena.hostile().queued();
                number += 1;
                say(arena.hostile(), number);
                let new = arena.hostile().queued() - queued;
                arena.pass(MS);
                said += new;
                silent = if new == 0 { silent + 1 } else { 0 };
            }
            said
        };
        go_on(&mut arena, before);
        arena.server().begin();
        let dropped = arena.server().unpaid_packets();
        let said = go_on(&mut arena, packets);
        let total = arena.server().cost();
        let taken = said - (arena.server().unpaid_packets() - dropped).min(said);
        // Whoever is thrown out has no more to say.
        let is_over = arena.hostile().closed.is_some();
        let each = |n: u64| n / if is_over { packets.max(said) } else { taken.max(1) };
        Cost {
            time: each(total.time),
            allocations: each(total.allocations),
            bytes: each(total.bytes),
            datagrams: each(100 * total.datagrams),
            heard: each(100 * total.heard),
        }
    }

    /// What comes before all else.
    pub(crate) fn greet(&self, arena: &mut Arena) {
        match self.on {
            On::Quic => return,
            On::Http => greet(arena.hostile()),
            On::Session => crate::sessions::begin(arena.hostile()),
        }
        arena.pass(Duration::from_millis(50));
    }

    /// A packet at a time, by what was drawn.
    pub(crate) fn begin(&self, knobs: Knobs) -> Say {
        (self.begin)(knobs)
    }

    /// The server that it is for.
    pub(crate) fn setup(&self) -> Setup {
        let mut setup = match self.on {
            On::Quic => Setup::new(),
            On::Http => Setup::http(),
            On::Session => Setup::sessions(),
        };
        if self.name.contains("in their answers") {
            setup.content = 5000;
        }
        setup
    }
}

/// What takes its place among what came before is paid for: of a flood of it most packets are dropped, and
/// whoever flooded goes on when it has paid. Nobody else notices.
#[test]
fn whoever_asks_for_more_than_packets_earn_is_paced() {
    let storms = STORMS.iter().filter(|storm| storm.name.contains("with holes") || storm.name == "ABANDON");
    for storm in storms.filter(|storm| storm.name.starts_with(['F', 'A'])) {
        let mut arena = Setup::new().arena();
        arena.replace_hostile(|params| params.fenced_streams = Some(64 << 10));
        arena.hostile().connect();
        arena.pass(Duration::from_millis(200));
        arena.begin();
        let mut say = (storm.begin)(Knobs { size: 1, step: 720, many: 60, odd: false });
        arena.each(400, MS, |hostile, n| say(hostile, n));
        arena.pass(50 * MS);
        assert_eq!(arena.hostile().closed, None, "{}", storm.name);
        // A hundred frames of six steps and more, where a packet earns a hundred; with some to begin with.
        let unpaid = arena.server().unpaid_packets();
        assert!((250..400).contains(&unpaid), "{}: {unpaid} of 400 packets were not paid for", storm.name);
        // It pays for the last hundred frames.
        arena.each(30, MS, |hostile, _| hostile.say(&[Frame::Ping]));
        say(arena.hostile(), 400);
        arena.pass(50 * MS);
        assert_eq!(arena.server().unpaid_packets(), unpaid, "{}", storm.name);
        arena.assert_served();
    }
}

/// Requests that are given up as soon as they were made are as many as packets pay for, a few more at first.
/// The others are not fewer for it, and who gives up no more has all of its streams again.
#[test]
fn streams_that_are_given_up_are_not_replaced_at_once() {
    for name in
        ["HEADERS, stopped at once", "HEADERS, stopped in their answers", "HEADERS with priorities, stopped"]
    {
        let storm = STORMS.iter().find(|storm| storm.name == name).expect("a storm of that name");
        for odd in [false, true] {
            // Those that are answered whole were worth their while.
            let content = if name.contains("in their answers") { 5000 } else { 0 };
            let mut arena = crate::requests::speaking(&Setup { content, ..Setup::http() });
            let before = arena.server().received.datagrams;
            let mut say = (storm.begin)(Knobs { size: 1, step: 1, many: 1, odd });
            arena.each(3000, MS, |hostile, n| say(hostile, n));
            assert_eq!(arena.hostile().closed, None, "{name}");
            // Of the honest client, too, which says little.
            let received = arena.server().received.datagrams - before;
            let requests = arena.server().last_requests();
            assert!(requests > 200, "{name}: {requests} requests");
            assert!(requests < 400 + 2 * received, "{name}: {requests} requests by {received} datagrams");
            arena.assert_served();
            arena.each(400, MS, |hostile, _| hostile.say(&[Frame::Ping]));
            let opened = arena.hostile().allowed[0];
            assert!(
                opened >= requests + 60,
                "{name}: {opened} streams are allowed, and {requests} were used"
            );
        }
    }
}

/// A request that is none costs what others do: a thousand of them are too much, but where others come
/// between them.
#[test]
fn malformed_requests_come_to_an_end() {
    for honest in [false, true] {
        let mut arena = crate::requests::speaking(&Setup::http());
        let (wrong, right) = (http_frame(1, &[0, 0, 0xd1]), request());
        let mut next = 0;
        arena.each(2000, 2 * MS, |hostile, _| {
            while next < hostile.allowed[0].min(2300) && hostile.closed.is_none() {
                let bytes = if honest && next % 2 == 0 { &right } else { &wrong };
                hostile.write(bidi(next), bytes, true);
                next += 1;
            }
        });
        let end = if honest { None } else { Some(Err(ErrorCode::H3_EXCESSIVE_LOAD.0)) };
        assert_eq!(arena.hostile().closed, end, "{next} requests");
        assert!(next > if honest { 2100 } else { 1024 }, "{next} requests");
        arena.assert_served();
    }
}

/// Content in frames of a byte, with frames of nothing and unknown ones between them: what was read together
/// is handed over together.
#[test]
fn content_in_small_frames_is_told_in_large_pieces() {
    let cases: [(&str, &[u8]); 4] = [
        ("of a byte", &[0, 1, 7]),
        ("of a byte and of nothing", &[0, 1, 7, 0, 0, 0, 0]),
        ("of a byte and unknown", &[0, 1, 7, 0x21, 0, 0x21, 1, 7]),
        ("of a hundred bytes", &http_frame(0, &[7; 100])),
    ];
    for (what, frames) in cases {
        let mut arena = crate::requests::speaking(&Setup::http());
        arena.hostile().write(bidi(0), &request(), false);
        let many = frames.repeat(1090 / frames.len());
        arena.each(100, MS, |hostile, _| hostile.write(bidi(0), &many, false));
        arena.pass(50 * MS);
        let pieces = arena.server().pieces;
        assert!((100..=200).contains(&pieces), "{what}: {pieces} pieces of 100 packets");
        arena.assert_served();
    }
}

/// No packet costs a hundred times as much as one of usual data, in a build that is hardly optimized in which
/// frames of a byte are the dearest, nor more allocations than it has frames, but for requests, which take 14
/// each, entries of QPACK's table, which take three, and names of classes. What fences hold apart lies in
/// trees, and costs several steps in them.
#[test]
fn no_packet_costs_much_more_than_a_usual_one() {
    let usual = USUAL.worst(1, 2, 100).0.time;
    for storm in STORMS {
        let (cost, knobs) = storm.worst(7, 2, 60);
        let is_in_trees = storm.name.contains("FENCED") || storm.name.contains("ABANDON");
        let most = usual * if is_in_trees { 1000 } else { 100 };
        assert!(cost.time < most, "{}: {cost:?}, and {usual} ns are usual; {knobs:?}", storm.name);
        let made_of_them = ["HEADERS", "entries", "PRIORITY_UPDATE of"];
        let is_made_of_them = made_of_them.iter().any(|part| storm.name.contains(part));
        let most = if is_made_of_them { ROOM as u64 } else { 500 };
        assert!(cost.allocations < most, "{}: {cost:?}; {knobs:?}", storm.name);
    }
}

const MS: Duration = Duration::from_millis(1);

/// Milliseconds in which a server that allows more streams says so.
const PATIENCE: u64 = 50;

/// Milliseconds without a word after which there will be none.
const SILENCE: u64 = 500;

/// Bytes of a packet.
const ROOM: usize = 1090;

/// A symbol: PADDING, as whatever is computed from such symbols is.
const SYMBOL: &[u8] = &[0];
