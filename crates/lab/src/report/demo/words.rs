use std::fmt::Write as _;

use quickset_base::number::Unsigned as _;

use crate::demo::{DemoMode, DemoRow};
use crate::report::text::{number, percent};

/// What the numbers of a pace say, in sentences.
pub(crate) fn verdict(rows: &[&DemoRow], rtt_ms: f64) -> String {
    let of = |mode| rows.iter().find(|row| row.mode == mode);
    let (Some(total), Some(partial), Some(latest)) =
        (of(DemoMode::Total), of(DemoMode::Partial), of(DemoMode::Latest))
    else {
        return String::new();
    };
    let mut text = format!(
        "Held back by others although they had arrived: {} of the messages in total order, {} with a fence after each \
         update, {} without fences. ",
        percent(total.blocked_share),
        percent(partial.blocked_share),
        percent(latest.blocked_share)
    );
    let (a, b) = (&total.blocking_ms, &partial.blocking_ms);
    let _ = write!(
        text,
        "Four in five waited at most {} ms in total and {} ms in partial order, ninety-nine in a hundred at most {} and \
         {} ms. ",
        number(a.p80),
        number(b.p80),
        number(a.p99),
        number(b.p99)
    );
    if let Some(repaired) = of(DemoMode::Repaired) {
        let share = repaired.repair_bytes.approx() / repaired.sent_bytes.max(1).approx();
        let _ = write!(
            text,
            "With erasure correction behind each fence {} were held, ninety-nine in a hundred for at most {} ms: {} of the \
             bytes sent were repair, and by them {} packets came back where {} were lost. ",
            percent(repaired.blocked_share),
            number(repaired.blocking_ms.p99),
            percent(share),
            repaired.recovered,
            repaired.lost
        );
    }
    text.push_str(&whole(rows));
    let period_ms = 1000.0 / f64::from(total.updates_per_s);
    // Why it is so is told where it is so.
    let are_close = b.mean > a.mean * CLOSE && a.mean > b.mean * CLOSE;
    if period_ms < rtt_ms * 0.75 && are_close {
        let _ = write!(
            text,
            "Updates come every {} ms and a lost packet takes a round trip of {} ms to be noticed and sent again: an \
             incomplete update holds several behind it in either order, and so the two come close. A fast stream is \
             helped by what fills the hole sooner, which is erasure correction, or by what need not wait, as in the \
             mode latest.",
            number(period_ms),
            number(rtt_ms)
        );
    } else if period_ms >= rtt_ms * 0.75 && b.mean < a.mean * CLOSE {
        text.push_str(
            "The next update comes about when a lost packet has been sent again, or later, so a fence has little to \
             hold; total order holds what follows within the same update as well.",
        );
    }
    text
}

/// How long updates took to be whole, for each mode.
fn whole(rows: &[&DemoRow]) -> String {
    let times = |row: &&DemoRow| {
        let whole = &row.whole_update_ms;
        let how = match row.mode {
            DemoMode::Total => "in total order",
            DemoMode::Partial => "in partial order",
            DemoMode::Repaired => "with repair",
            DemoMode::Latest => "without fences",
        };
        format!("{} and {} ms {how}", number(whole.p50), number(whole.p99))
    };
    let times: Vec<String> = rows.iter().map(times).collect();
    format!(
        "Half of the updates, and ninety-nine in a hundred, were whole on the screen within {}. ",
        times.join(", ")
    )
}

/// Mean times of which the one is more than this part of the other come close.
const CLOSE: f64 = 0.75;
