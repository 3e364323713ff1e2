//! Sinks that fail, refuse, or keep things back.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use quickset_base::Duration;
use quickset_quic::qlog::{Output, Sinks, Subject};
use quickset_quic::{Dir, Side};

use crate::common::{Setup, pattern};
use crate::reading::Trace;

/// Gives writers to one side, and what these are told to do.
#[derive(Clone, Debug)]
struct Flaky {
    side: Side,
    /// Writes that succeed.
    writes: usize,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    opened: usize,
    calls: usize,
    /// What was written and not flushed, and what was flushed.
    buffered: Vec<u8>,
    safe: Vec<u8>,
}

struct Writer(Flaky);

impl Sinks for Flaky {
    fn open(&self, subject: &Subject) -> Option<Output> {
        self.kept.lock().expect("no panic").opened += 1;
        let writer = Box::new(Writer(self.clone()));
        (subject.side == self.side).then_some(Output { writer, reference_time_ms: 0.0 })
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.kept.lock().expect("no panic");
        kept.calls += 1;
        if kept.calls > self.0.writes {
            return Err(io::Error::other("the disk is full"));
        }
        kept.buffered.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut kept = self.0.kept.lock().expect("no panic");
        let mut buffered = std::mem::take(&mut kept.buffered);
        kept.safe.append(&mut buffered);
        Ok(())
    }
}

fn flaky(writes: usize) -> Flaky {
    Flaky { side: Side::Client, writes, kept: Arc::default() }
}

#[test]
fn a_full_disk_does_not_end_a_connection_and_is_left_alone() {
    for writes in [0, 1, 30] {
        let sinks = flaky(writes);
        let given = Arc::new(sinks.clone());
        let setup =
            Setup::new(31, "rate=20mbit delay=10ms loss=1%").transport(|t| t.qlog = Some(given.clone()));
        let mut pair = setup.connected();
        let key = pair.key;
        let id = pair.client_mut().send(key, Dir::Uni, pattern(100_000));
        pair.until("delivered", |p| p.client().delivered.contains(&(key, id)));
        let kept = sinks.kept.lock().expect("no panic");
        assert_eq!(kept.opened, 2, "both ends asked");
        assert_eq!(kept.calls, writes + 1, "nobody writes to what has failed");
    }
}

/// A process that is killed leaves what a quiet connection said, and no torn record.
#[test]
fn nothing_is_kept_back_for_long() {
    let sinks = flaky(usize::MAX);
    let given = Arc::new(sinks.clone());
    let setup = Setup::new(32, "rate=20mbit delay=10ms").transport(|t| t.qlog = Some(given.clone()));
    let mut pair = setup.connected();
    let safe = |sinks: &Flaky| {
        let kept = sinks.kept.lock().expect("no panic");
        (kept.safe.len(), kept.buffered.len())
    };
    // Quiet: the next timer is the idle timeout, in half a minute.
    pair.pass(Duration::from_millis(500));
    let (before, buffered) = safe(&sinks);
    assert!(before > 0 && buffered == 0, "{buffered} bytes are kept back");
    // Busy for seconds: a byte now and then, no long sleep in between.
    let key = pair.key;
    let id = pair.client_mut().connection(key).streams().open(Dir::Uni).expect("a stream");
    let mut last = before;
    for _ in 0..4 {
        for _ in 0..110 {
            let mut byte = bytes::Bytes::from_static(b"x");
            pair.client_mut().connection(key).send_stream(id).write(&mut byte).expect("room");
            pair.pass(Duration::from_millis(10));
        }
        let (now, _) = safe(&sinks);
        assert!(now > last, "nothing in more than a second");
        last = now;
    }
    let text = sinks.kept.lock().expect("no panic").safe.clone();
    Trace::parse(std::str::from_utf8(&text).expect("text"));
}
