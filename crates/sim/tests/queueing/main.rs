//! Links against queueing theory and against naive models: what is to come out is computed here, by other
//! means than the links compute it.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod codel;
mod events;
mod losses;
mod queues;
mod random;
mod rates;
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering};

use quickset_base::{Ecn, Time};
use quickset_sim::{Fate, Link, LinkSpec, SendResult};

/// A packet that is to be sent: when, in nanoseconds, how many bytes, marked how.
type Packet = (u64, usize, Ecn);

fn spec(text: &str) -> LinkSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn link(text: &str, seed: u64) -> Link {
    Link::new(spec(text), seed, 0)
}

/// Sends packets, asks whenever something is due, and returns the fates by ordinal.
fn carry(link: &mut Link, packets: &[Packet]) -> Vec<Fate> {
    let mut fates = vec![None; packets.len()];
    let mut told = |link: &mut Link, at: Time| {
        while let Some((ordinal, fate)) = link.poll(at) {
            assert_eq!(fates[ordinal as usize].replace(fate), None, "packet {ordinal} has two fates");
            assert!(
                fate.deliveries().all(|delivery| delivery.at >= at),
                "{ordinal} arrives in the past of {at}"
            );
        }
    };
    let mut known = Vec::new();
    for (n, (ns, size, ecn)) in packets.iter().enumerate() {
        let now = Time::from_nanos(*ns);
        while let Some(due) = link.due().filter(|due| *due <= now) {
            told(link, due);
        }
        match link.send(now, *size, *ecn) {
            SendResult::Known(fate) => {
                assert!(fate.deliveries().all(|delivery| delivery.at >= now));
                known.push((n, fate));
            }
            SendResult::Waits(ordinal) => assert_eq!(ordinal, n as u64),
        }
    }
    while let Some(due) = link.due() {
        told(link, due);
    }
    assert_eq!(link.waiting(), 0);
    for (n, fate) in known {
        assert_eq!(fates[n].replace(fate), None, "packet {n} has two fates");
    }
    fates.into_iter().map(|fate| fate.expect("every packet has a fate")).collect()
}

/// Packets of this size at these times.
fn plain(times: impl IntoIterator<Item = u64>, size: usize) -> Vec<Packet> {
    times.into_iter().map(|ns| (ns, size, Ecn::NotEct)).collect()
}

/// When a packet arrives, if it does.
fn arrival(fate: &Fate) -> Option<u64> {
    fate.deliveries().next().map(|delivery| delivery.at.as_nanos())
}

/// Writes a file for a link to read, and returns its path. A test that writes the same file does not disturb
/// one that reads it: it is there at once, with all that is in it.
fn file(name: &str, text: &str) -> String {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let part = folder.join(format!("{name}.{}", WRITTEN.fetch_add(1, Ordering::Relaxed)));
    let path = folder.join(name);
    std::fs::write(&part, text).expect("the target directory can be written");
    std::fs::rename(&part, &path).expect("its files can be renamed");
    path.to_str().expect("a path of text").to_owned()
}

/// Mean, and its standard error from the means of twenty batches (neighbours are correlated).
fn batches(values: &[f64]) -> (f64, f64) {
    let means: Vec<f64> =
        values.chunks(values.len() / 20).take(20).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect();
    let mean = means.iter().sum::<f64>() / 20.0;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 19.0;
    (mean, (variance / 20.0).sqrt())
}
