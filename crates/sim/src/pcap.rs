use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use quickset_base::number::Unsigned as _;
use quickset_base::{Ecn, Time};

use crate::network::LinkId;
use crate::world::NodeId;

/// Where in a world packets are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// At a node, as tcpdump there sees it: what it sends when that leaves, what it receives when that
    /// arrives (before a full buffer drops it).
    Node(NodeId),
    /// At the near end of a link: what is given to it, whatever becomes of it.
    Entering(LinkId),
    /// At the far end of a link: what has come through, with the marks and damages of the way.
    Leaving(LinkId),
    /// At all nodes, when packets leave: each packet of the world once.
    Departures,
    /// At all nodes, when packets arrive.
    Arrivals,
}

/// Writes packets in the classic pcap format, for Wireshark and its kin: nanosecond timestamps (magic
/// a1b23c4d, little-endian), each packet beginning with its IP header (LINKTYPE_RAW).
///
/// The headers are made up from the addresses: IPv4 with "don't fragment" (IPv6 when either address is;
/// IPv4 ones are then mapped), TTL 64, the ECN bits, and UDP; checksums are right for the bytes at hand,
/// also for damaged ones (links damage what is inside). Time zero of the world is the beginning of 1970.
/// Nothing is kept in memory; buffering is the writer's.
///
/// Keys are not the network's business: a TLS session writes them to the file that `SSLKEYLOGFILE` names.
/// The null session has none, and its payload is in the clear.
#[derive(Debug)]
pub struct Pcap<W> {
    out: W,
    snap: u32,
    packets: u64,
    skipped: u64,
    // The record at hand, used again.
    record: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    /// Begins a file.
    pub fn new(out: W) -> io::Result<Self> {
        Self::with_snap(out, MAX_PACKET)
    }

    /// Begins a file that keeps the first `snap` bytes of each packet, IP header included (checksums and
    /// lengths are those of the whole packet).
    pub fn with_snap(mut out: W, snap: u32) -> io::Result<Self> {
        let snap = snap.clamp(1, MAX_PACKET);
        let mut header = Vec::with_capacity(24);
        header.extend_from_slice(&MAGIC_NANOS.to_le_bytes());
        header.extend_from_slice(&[2, 0, 4, 0]); // Version 2.4, each number in 16 bits.
        header.extend_from_slice(&[0; 8]); // Time zone and accuracy, which nobody uses.
        header.extend_from_slice(&snap.to_le_bytes());
        header.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.write_all(&header)?;
        Ok(Self { out, snap, packets: 0, skipped: 0, record: Vec::new() })
    }

    /// Writes a UDP datagram that was seen at `time`. One whose payload fits into no IP packet is skipped
    /// and counted.
    pub fn write(&mut self, time: Time, seen: CapturedDatagram<'_>) -> io::Result<()> {
        self.record.clear();
        self.record.extend_from_slice(&[0; 16]);
        if !seen.packet(&mut self.record) {
            self.skipped += 1;
            return Ok(());
        }
        let whole = (self.record.len() - 16).saturated::<u32>();
        let kept = whole.min(self.snap);
        let nanos = time.as_nanos();
        // The format's seconds end in 2106; later packets stay there.
        let seconds = u32::try_from(nanos / 1_000_000_000).unwrap_or(u32::MAX);
        let words = [seconds, (nanos % 1_000_000_000) as u32, kept, whole];
        for (place, word) in self.record.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.packets += 1;
        self.out.write_all(&self.record[..16 + kept as usize])
    }

    /// Packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets too large for IP.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Flushes the writer and gives it back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A UDP datagram on the wire.
#[derive(Clone, Copy, Debug)]
pub struct CapturedDatagram<'a> {
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// Its mark.
    pub ecn: Ecn,
    /// Its payload.
    pub payload: &'a [u8],
}

impl CapturedDatagram<'_> {
    /// Appends the IP packet to `out`; false, and nothing is appended, when it would be too large.
    fn packet(&self, out: &mut Vec<u8>) -> bool {
        let udp_length = self.payload.len() + UDP_HEADER;
        let v4 = matches!((self.from.ip(), self.to.ip()), (IpAddr::V4(_), IpAddr::V4(_)));
        // IPv4 counts its own header in the length, IPv6 does not.
        let ip_length = if v4 { udp_length + 20 } else { udp_length };
        let Ok(ip_length) = u16::try_from(ip_length) else { return false };
        // RFC 768, RFC 8200 §8.1: the sum goes over a pseudo-header of addresses, protocol and length.
        let mut sum = InternetChecksum::default();
        let begin = out.len();
        if let (IpAddr::V4(from), IpAddr::V4(to)) = (self.from.ip(), self.to.ip()) {
            out.extend_from_slice(&[0x45, self.ecn.bits()]);
            out.extend_from_slice(&ip_length.to_be_bytes());
            // RFC 6864 §4.1: what may not be fragmented needs no identification.
            out.extend_from_slice(&[0, 0, 0x40, 0, TTL, UDP, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
            let mut header = InternetChecksum::default();
            header.add(&out[begin..]);
            out[begin + 10..begin + 12].copy_from_slice(&header.complement().to_be_bytes());
        } else {
            out.extend_from_slice(&[0x60, self.ecn.bits() << 4, 0, 0]);
            out.extend_from_slice(&ip_length.to_be_bytes());
            out.extend_from_slice(&[UDP, TTL]);
            out.extend_from_slice(&v6(self.from.ip()).octets());
            out.extend_from_slice(&v6(self.to.ip()).octets());
        }
        sum.add(&out[if v4 { begin + 12 } else { begin + 8 }..]);
        sum.add(&[0, UDP]);
        sum.add(&udp_length.saturated::<u32>().to_be_bytes());
        let udp = out.len();
        out.extend_from_slice(&self.from.port().to_be_bytes());
        out.extend_from_slice(&self.to.port().to_be_bytes());
        out.extend_from_slice(&udp_length.saturated::<u16>().to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(self.payload);
        sum.add(&out[udp..]);
        // RFC 768: zero would say that there is none.
        let sum = Some(sum.complement()).filter(|sum| *sum != 0).unwrap_or(0xffff);
        out[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

/// The Internet checksum (RFC 1071): a sum of 16-bit words in ones' complement.
#[derive(Default)]
struct InternetChecksum(u64);

impl InternetChecksum {
    /// Adds bytes; only the last ones added may be odd in number.
    fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
    }

    fn complement(&self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !((sum & 0xffff) as u16)
    }
}

/// The captures of a world.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    list: Vec<Capture>,
}

struct Capture {
    point: Point,
    pcap: Pcap<Box<dyn Write + Send>>,
    // The first error; nothing is written after it.
    failed: Option<io::Error>,
}

impl core::fmt::Debug for Capture {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { point, pcap, failed } = self;
        let mut all = f.debug_struct("Capture");
        all.field("point", point).field("packets", &pcap.packets).field("failed", failed);
        all.finish_non_exhaustive()
    }
}

impl Captures {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn add(&mut self, point: Point, pcap: Pcap<Box<dyn Write + Send>>) {
        self.list.push(Capture { point, pcap, failed: None });
    }

    /// Writes down a packet for all whose point is among `points`.
    pub(crate) fn see(&mut self, now: Time, points: &[Point], seen: CapturedDatagram<'_>) {
        for capture in &mut self.list {
            if capture.failed.is_none() && points.contains(&capture.point) {
                capture.failed = capture.pcap.write(now, seen).err();
            }
        }
    }

    /// Flushes all; returns the first error of any.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for Capture { pcap, failed, .. } in self.list.drain(..) {
            let finished = failed.map_or_else(|| pcap.finish().map(drop), Err);
            if result.is_ok() {
                result = finished;
            }
        }
        result
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const LINKTYPE_RAW: u32 = 101;
/// The largest snap length that readers accept without asking; no IP packet without jumbograms reaches it.
const MAX_PACKET: u32 = 262_144;
const UDP: u8 = 17;
const TTL: u8 = 64;
const UDP_HEADER: usize = 8;
