use std::convert::Infallible;
use std::time::Duration;

use quickset_base::number::Unsigned as _;
use tokio::time::{Instant, interval};

use super::counted::{ViewStats, ViewTotals};
use super::desk::ViewerScreen;

/// Shows once a second how the connection is, where that is wanted.
pub(super) async fn show(desk: &ViewerScreen, stats: &ViewStats) -> Infallible {
    if !desk.lock().overlay.is_begun() {
        return std::future::pending().await;
    }
    let (mut figures, mut ticks) = (ViewFigures::default(), interval(SECOND));
    loop {
        let now = ticks.tick().await;
        desk.set_overlay(&figures.lines(now, &stats.totals()));
    }
}

/// What a viewer is told in the picture.
#[derive(Debug, Default)]
struct ViewFigures {
    last: Option<(Instant, FigureCounts)>,
    /// When there was an update the last time.
    updated: Option<Instant>,
}

/// What is counted on.
#[derive(Clone, Copy, Debug, Default)]
struct FigureCounts {
    bytes: u64,
    updates: u64,
    held: u64,
    sent: u64,
    lost: u64,
    sources: u64,
    repairs: u64,
    recovered: u64,
}

impl ViewFigures {
    /// The lines as of now; rates are those since the last call.
    fn lines(&mut self, now: Instant, totals: &ViewTotals) -> Vec<String> {
        let counts = FigureCounts::of(totals);
        let (since, before) = self.last.unwrap_or((now, counts));
        self.last = Some((now, counts));
        // Each connection counts from nothing.
        let news = counts.since(before);
        if news.updates > 0 {
            self.updated = Some(now);
        }
        let seconds = now.duration_since(since).as_secs_f64().max(0.001);
        let rtt = totals.connection.as_ref().map(|stats| stats.rtt).filter(|rtt| !rtt.is_zero());
        let percent = |part: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * part.approx() / of.approx() };
        let way = match (totals.connected, totals.by_tcp) {
            (false, _) => "none now",
            (true, true) => "TCP, no UDP",
            (true, false) => "QUIC",
        };
        let age = self.updated.map_or_else(
            || "none yet".to_owned(),
            |at| match now.duration_since(at) {
                Duration::ZERO => "now".to_owned(),
                age => format!("{} s ago", age.as_secs()),
            },
        );
        let line = |name: &str, value: String| format!("{name:<11} {value:<12}");
        vec![
            line("way", way.to_owned()),
            line(
                "round trip",
                rtt.map_or("-".to_owned(), |rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1e3)),
            ),
            line("rate", format!("{:.2} Mbit/s", news.bytes.approx() * 8e-6 / seconds)),
            line("updates", format!("{:.0} /s", news.updates.approx() / seconds)),
            line("last update", age),
            line("held", format!("{:.0} /s", news.held.approx() / seconds)),
            line("lost, sent", format!("{:.1} %", percent(news.lost, news.sent))),
            line("repair", format!("{:.1} %", percent(news.repairs, news.repairs + news.sources))),
            line("repaired", format!("{}, all {}", news.recovered, counts.recovered)),
        ]
    }
}

impl FigureCounts {
    fn of(totals: &ViewTotals) -> Self {
        let connection = totals.connection.clone().unwrap_or_default();
        Self {
            bytes: totals.screen.bytes,
            updates: totals.batches,
            held: totals.held,
            sent: connection.sent_packets,
            lost: connection.lost_packets,
            sources: connection.fec.sources_received,
            repairs: connection.fec.repairs_received,
            recovered: connection.fec.recovered_here,
        }
    }

    fn since(self, before: Self) -> Self {
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Self {
            bytes: more(self.bytes, before.bytes),
            updates: more(self.updates, before.updates),
            held: more(self.held, before.held),
            sent: more(self.sent, before.sent),
            lost: more(self.lost, before.lost),
            sources: more(self.sources, before.sources),
            repairs: more(self.repairs, before.repairs),
            recovered: more(self.recovered, before.recovered),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use quickset::Stats;

    use super::*;

    #[test]
    fn rates_are_those_of_the_time_between() {
        let start = Instant::now();
        let mut totals = ViewTotals { connected: true, ..ViewTotals::default() };
        let mut figures = ViewFigures::default();
        let first = figures.lines(start, &totals);
        assert!(first[0].contains("QUIC") && first[1].contains(" -") && first[4].contains("none yet"));
        let mut stats = Stats::default();
        (stats.rtt, stats.sent_packets, stats.lost_packets) = (Duration::from_micros(101_300), 200, 3);
        (stats.fec.sources_received, stats.fec.repairs_received, stats.fec.recovered_here) = (95, 5, 2);
        totals.connection = Some(stats);
        (totals.screen.bytes, totals.batches, totals.held) = (1_000_000, 60, 4);
        let lines = figures.lines(start + Duration::from_secs(2), &totals);
        for (n, text) in [
            (1, "101.3 ms"),
            (2, "4.00 Mbit/s"),
            (3, "30 /s"),
            (4, "now"),
            (5, "2 /s"),
            (6, "1.5 %"),
            (7, "5.0 %"),
            (8, "2, all 2"),
        ] {
            assert!(lines[n].contains(text), "{:?} and not {text}", lines[n]);
        }
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "all are as long");
        // Nothing more comes; then there is another connection, by TCP, which counts anew.
        let lines = figures.lines(start + Duration::from_secs(5), &totals);
        assert!(lines[2].contains("0.00 Mbit/s") && lines[4].contains("3 s ago"), "{lines:?}");
        let mut stats = Stats::default();
        (stats.sent_packets, stats.lost_packets) = (10, 1);
        (totals.connection, totals.by_tcp) = (Some(stats), true);
        let lines = figures.lines(start + Duration::from_secs(6), &totals);
        assert!(lines[0].contains("TCP") && lines[6].contains("10.0 %"), "{lines:?}");
        totals.connected = false;
        assert!(figures.lines(start + Duration::from_secs(7), &totals)[0].contains("none now"));
    }
}
