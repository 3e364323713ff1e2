use core::time::Duration;
use std::collections::VecDeque;

use quickset_base::{Batch, Datagram};

/// What work costs a node that has one core: while it works, its input waits in a buffer, and its output
/// leaves when the work on it is done.
///
/// A turn of such a node is that of a driver with one thread: it takes what has arrived (a batch of at
/// most [`batch`](Self::batch)), works on it, and is then polled, each batch that it sends taking its
/// time, until it sleeps, or has sent so many that it looks for input first ([`turn`](Self::turn)). The
/// machine is told the time at which each of these steps begins. A node that has no such description works
/// in no time and has room for everything.
///
/// ```
/// use quickset_sim::Cpu;
/// // 2 µs a packet however they come, 0.5 ns a byte for the cipher.
/// let cpu = Cpu { receive_datagram_ns: 2_000, byte_ps: 500, ..Cpu::default() };
/// // 1250 bytes take 2625 ns: at most 381,000 packets, or 3.8 Gbit/s.
/// assert_eq!(cpu.byte_ps as u64 * 1250 / 1000 + cpu.receive_datagram_ns as u64, 2_625);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Nanoseconds for each batch received, whatever is in it (the system call).
    pub receive_batch_ns: u32,
    /// Nanoseconds for each datagram received.
    pub receive_datagram_ns: u32,
    /// Nanoseconds for each batch sent.
    pub send_batch_ns: u32,
    /// Nanoseconds for each datagram sent.
    pub send_datagram_ns: u32,
    /// Picoseconds for each byte of payload, received or sent.
    pub byte_ps: u32,
    /// Bytes of payload that wait while the node works; what does not fit is dropped, as by a socket's
    /// receive buffer. (Systems count their own headers too, so a buffer of theirs holds less than its name
    /// says.)
    pub buffer: u64,
    /// Datagrams taken at once at most, one or more.
    pub batch: u32,
    /// Batches sent at most, one or more, before what has arrived meanwhile is taken.
    pub turn: u32,
}

/// No work, a buffer of 4 MB, batches of 64, and all that there is to send in a turn.
impl Default for Cpu {
    fn default() -> Self {
        Self {
            receive_batch_ns: 0,
            receive_datagram_ns: 0,
            send_batch_ns: 0,
            send_datagram_ns: 0,
            byte_ps: 0,
            buffer: 4_000_000,
            batch: 64,
            turn: u32::MAX,
        }
    }
}

impl Cpu {
    fn checked(self) -> Self {
        Self { batch: self.batch.max(1), turn: self.turn.max(1), ..self }
    }

    /// The work for a batch in picoseconds.
    fn picos(self, batch_ns: u32, datagram_ns: u32, datagrams: u64, bytes: u64) -> u64 {
        let nanos = u64::from(batch_ns).saturating_add(u64::from(datagram_ns).saturating_mul(datagrams));
        nanos.saturating_mul(1000).saturating_add(u64::from(self.byte_ps).saturating_mul(bytes))
    }
}

/// What a node with a [`Cpu`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// How long it worked, or will have when the work at hand is done.
    pub busy: Duration,
    /// Datagrams that its buffer had no room for.
    pub dropped: u64,
    /// Their payload.
    pub dropped_bytes: u64,
    /// Batches taken from the buffer.
    pub batches: u64,
    /// The most bytes that ever waited.
    pub peak_buffer: u64,
}

/// A core at work.
#[derive(Debug)]
pub(crate) struct Core {
    spec: Cpu,
    buffer: VecDeque<Datagram>,
    bytes: u64,
    // Batches sent since something was taken.
    sent: u32,
    // Less than a nanosecond, carried along so that rounding never adds up.
    rest_ps: u64,
    counts: CpuCounts,
}

impl Core {
    pub(crate) fn new(spec: Cpu) -> Self {
        let spec = spec.checked();
        Self { spec, buffer: VecDeque::new(), bytes: 0, sent: 0, rest_ps: 0, counts: CpuCounts::default() }
    }

    pub(crate) fn counts(&self) -> CpuCounts {
        self.counts
    }

    /// Another description; what waits goes on waiting.
    pub(crate) fn change(&mut self, spec: Cpu) {
        self.spec = spec.checked();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// True when it has sent as much as it does before it looks for input, and there is some.
    pub(crate) fn is_due(&self) -> bool {
        self.sent >= self.spec.turn && !self.buffer.is_empty()
    }

    /// Takes what has arrived; false when there is no room.
    pub(crate) fn accept(&mut self, datagram: Datagram) -> bool {
        let size = datagram.bytes.len() as u64;
        if self.bytes + size > self.spec.buffer {
            self.counts.dropped += 1;
            self.counts.dropped_bytes += size;
            return false;
        }
        self.bytes += size;
        self.counts.peak_buffer = self.counts.peak_buffer.max(self.bytes);
        self.buffer.push_back(datagram);
        true
    }

    /// Moves the next batch to `inbox`; returns how long it takes to work on it.
    pub(crate) fn take(&mut self, inbox: &mut Vec<Datagram>) -> Duration {
        let count = self.buffer.len().min(self.spec.batch as usize);
        let before = inbox.len();
        inbox.extend(self.buffer.drain(..count));
        let bytes = inbox[before..].iter().map(|datagram| datagram.bytes.len() as u64).sum();
        self.bytes -= bytes;
        self.sent = 0;
        self.counts.batches += 1;
        let Cpu { receive_batch_ns, receive_datagram_ns, .. } = self.spec;
        self.work(self.spec.picos(receive_batch_ns, receive_datagram_ns, count as u64, bytes))
    }

    /// How long it takes to send a batch.
    pub(crate) fn send(&mut self, batch: &Batch) -> Duration {
        let Cpu { send_batch_ns, send_datagram_ns, .. } = self.spec;
        let (count, bytes) = (batch.count() as u64, batch.bytes().len() as u64);
        self.sent = self.sent.saturating_add(1);
        self.work(self.spec.picos(send_batch_ns, send_datagram_ns, count, bytes))
    }

    fn work(&mut self, picos: u64) -> Duration {
        let picos = picos.saturating_add(self.rest_ps);
        self.rest_ps = picos % 1000;
        let work = Duration::from_nanos(picos / 1000);
        self.counts.busy = self.counts.busy.saturating_add(work);
        work
    }
}
