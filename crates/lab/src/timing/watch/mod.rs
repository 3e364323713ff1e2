//! What a thread spends its processor time on, by sampling it (perf_event_open): where it is, a thousand
//! times a second.
//!
//! *In:* a thread that says [`ThreadWatch::begin`]. *Out:* [`Spent`]. A sample is the instruction that the
//! thread was at, or, while the kernel worked for it, the system call that it was in; `parts` says what that
//! belongs to. It asks for what `kernel.perf_event_paranoid` allows at 1, or root at any value.

mod parts;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use parts::SymbolNames;
pub(super) use parts::{CpuPart, Spent};
use quickset_base::number::Unsigned as _;

/// A thread under observation.
pub(super) struct ThreadWatch {
    stop: Arc<AtomicBool>,
    collector: JoinHandle<PlaceCounts>,
}

/// Where a thread was, and how often.
type PlaceCounts = BTreeMap<CodePlace, u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CodePlace {
    /// The instruction in the program; of a system call the one behind it.
    address: u64,
    /// The kernel was at work.
    is_kernel: bool,
}

impl ThreadWatch {
    /// Watches the thread that calls it, from here on.
    ///
    /// # Errors
    /// What the system says, when it does not permit it or has no such thing.
    pub(super) fn begin() -> io::Result<Self> {
        let mut sampler = sampler()?;
        sampler.enable()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let collector = std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || collect(&mut sampler, &stopped))?;
        Ok(Self { stop, collector })
    }

    /// Whether the system permits it.
    #[cfg(test)]
    pub(super) fn may_begin() -> bool {
        sampler().is_ok()
    }

    /// What the thread's time went to; `None` when there is no sample.
    pub(super) fn end(self) -> Option<Spent> {
        self.stop.store(true, Ordering::Relaxed);
        let places = self.collector.join().ok()?;
        let mut names = SymbolNames::default();
        let mut spent = Spent::default();
        for (place, count) in places {
            spent.add(&names.parts(place.address, place.is_kernel), count);
        }
        (spent.samples() > 0).then_some(spent)
    }
}

/// Of the thread that calls it, not yet at work.
fn sampler() -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder
        .observe_self()
        .any_cpu()
        .sample_period(PERIOD.as_nanos().saturated::<u64>())
        .sample(SampleFlag::CALLCHAIN)
        .include_kernel()
        .exclude_callchain_kernel(true);
    builder.build()?.sampled(BUFFER)
}

/// Takes samples out of the buffer that the kernel writes to, until told to stop.
fn collect(sampler: &mut Sampler, stop: &AtomicBool) -> PlaceCounts {
    let mut places = PlaceCounts::new();
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        while let Some(record) = sampler.next_record() {
            let is_kernel = record.misc() & CPU_MODE == KERNEL_MODE;
            let Ok(Record::Sample(sample)) = record.parse_record() else { continue };
            // Before the first place stands whose it is.
            let chain = sample.callchain().unwrap_or_default();
            if let Some(address) = chain.iter().copied().find(|address| *address < MARKERS) {
                *places.entry(CodePlace { address, is_kernel }).or_default() += 1;
            }
        }
        if is_last {
            return places;
        }
        std::thread::sleep(PAUSE);
    }
}

/// A prime number of microseconds: what the thread does every so often is seen at all of its stages.
const PERIOD: Duration = Duration::from_micros(997);
/// Bytes of the buffer, for some thousand samples; who is not root may lock 516 kB
/// (`kernel.perf_event_mlock_kb`).
const BUFFER: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(20);
/// PERF_RECORD_MISC_CPUMODE_MASK and PERF_RECORD_MISC_KERNEL of <linux/perf_event.h>.
const CPU_MODE: u16 = 7;
const KERNEL_MODE: u16 = 1;
/// PERF_CONTEXT_MAX: what is above is no address.
const MARKERS: u64 = 4095u64.wrapping_neg();

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;

    /// What a thread does for a third of a second; `None` where it may not be watched.
    fn watched(mut work: impl FnMut()) -> Option<Spent> {
        let watch = match ThreadWatch::begin() {
            Ok(watch) => watch,
            Err(error) => {
                eprintln!("nobody may be watched here: {error}");
                return None;
            }
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(330) {
            work();
        }
        watch.end()
    }

    #[test]
    fn a_thread_that_sends_spends_its_time_on_sending() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let piece = vec![7; 60_000];
        let Some(spent) = watched(|| drop(socket.send_to(&piece, to))) else { return };
        assert!(spent.share(CpuPart::Sending) > 0.7, "{spent:?}");
    }

    #[test]
    fn a_thread_that_reads_files_is_seen_to_do_that() {
        let path = std::env::temp_dir().join(format!("quickset-watch-{}", std::process::id()));
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = watched(|| drop(std::fs::read(&path)));
        std::fs::remove_file(&path).unwrap();
        let Some(file) = file else { return };
        assert!(file.share(CpuPart::File) > 0.3, "{file:?}");
    }

    #[test]
    fn a_thread_that_waits_spends_nothing() {
        let Ok(watch) = ThreadWatch::begin() else { return };
        std::thread::sleep(Duration::from_millis(200));
        let samples = watch.end().map_or(0, |spent| spent.samples());
        assert!(samples < 50, "{samples} in 200 ms of sleep");
    }
}
