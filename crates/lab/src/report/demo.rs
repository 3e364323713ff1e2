//! The report of a demonstration: [`Findings`], and the command that gives them again, as a page.

mod words;

use std::fmt::Write as _;

use super::chart::{Chart, ChartCurve, ChartMark, ChartShape, Scale, WIDE, shares};
use super::text::{base64, escaped, number, percent, size};
use crate::demo::{DemoMode, DemoRow, Findings};
use quickset_base::number::Unsigned as _;
use words::verdict;

/// The page. `command` is what to type to get the same findings.
pub fn html(findings: &Findings, command: &str) -> String {
    let mut page = String::with_capacity(1 << 20);
    page.push_str(HEAD);
    opening(&mut page, findings);
    page.push_str("<div class=scene>");
    picture(&mut page, findings);
    modes(&mut page, findings);
    page.push_str("</div>");
    for pace in paces(findings) {
        pace_section(&mut page, findings, pace);
    }
    table(&mut page, findings);
    method(&mut page, findings, command);
    page.push_str("</main></body></html>\n");
    page
}

fn opening(page: &mut String, findings: &Findings) {
    let link = &findings.link;
    let _ = write!(
        page,
        "<header><p class=kicker>Quickset · demonstration</p><h1>A screen across a lossy link, {n} ways</h1>\
         <p class=lead>The same moving desktop was sent at the same time over {n} QUIC connections. Each went \
         through a link of {rate} and {rtt} ms round trip that lost {loss} of the packets each way, the same ones \
         on each. All that differs is what has to wait for a lost packet, and how it is made good.</p></header>",
        n = if modes_of(findings).count() == 4 { "four" } else { "three" },
        rate = size(&link.rate),
        rtt = number(link.rtt_ms),
        loss = escaped(&size(&link.loss)),
    );
}

fn picture(page: &mut String, findings: &Findings) {
    let _ = write!(
        page,
        "<figure class=shot><img alt='The test desktop: an editor that scrolls, a video, a log and a window that \
         moves' src='data:image/png;base64,{}'><figcaption>What a receiver had drawn in the end. The desktop is \
         made up by a program from the seed {}; each message carries the pixels of a rectangle. {}</figcaption></figure>",
        base64(&findings.picture),
        findings.link.seed,
        if findings.modes.iter().all(|row| row.picture_equal) {
            "All receivers’ pictures were equal to the sender’s, pixel by pixel."
        } else {
            "<strong>Not all receivers’ pictures were equal to the sender’s. That is a fault.</strong>"
        }
    );
}

fn modes(page: &mut String, findings: &Findings) {
    page.push_str("<section class=cards>");
    for mode in modes_of(findings) {
        let (title, text) = match mode {
            DemoMode::Total => (
                "Total order",
                "Every message waits for all those before it, as on a TCP connection or an ordinary QUIC stream. A \
                 lost packet stops everything behind it until it has been sent again.",
            ),
            DemoMode::Partial => (
                "Partial order",
                "A fence after each update. Within an update messages are drawn in whatever order they arrive; \
                 the next update waits until the one before it is complete.",
            ),
            DemoMode::Repaired => (
                "Partial order, repaired",
                "The same fences. Behind each go repair symbols, as many as the losses of the path ask for: what is lost \
                 of an update is computed from them, and nobody waits a round trip for it.",
            ),
            DemoMode::Latest => (
                "Latest",
                "No fences. Each part of the screen keeps the newest pixels that have come. What newer messages have \
                 covered meanwhile is not sent again.",
            ),
        };
        let _ = write!(
            page,
            "<article class={mode}><h3><i></i>{title} <code>{mode}</code></h3><p>{text}</p></article>"
        );
    }
    page.push_str("</section>");
}

fn pace_section(page: &mut String, findings: &Findings, pace: u32) {
    let rows: Vec<&DemoRow> = findings.modes.iter().filter(|row| row.updates_per_s == pace).collect();
    let rtt = findings.link.rtt_ms;
    let _ = write!(page, "<section><h2>{pace} updates a second</h2><p>{}</p>", verdict(&rows, rtt));
    page.push_str("<div class=tiles>");
    for row in &rows {
        let _ = write!(
            page,
            "<div class={mode}><b>{blocked}</b><span>of messages held for more than 1 ms</span>\
             <span>p80 {p80} ms · p99 {p99} ms</span>\
             <span>whole update p50 {whole50} ms · p99 {whole99} ms</span>{repair}<em>{mode}</em></div>",
            mode = row.mode,
            blocked = percent(row.blocked_share),
            p80 = number(row.blocking_ms.p80),
            p99 = number(row.blocking_ms.p99),
            whole50 = number(row.whole_update_ms.p50),
            whole99 = number(row.whole_update_ms.p99),
            repair = repair(row),
        );
    }
    page.push_str("</div><div class=charts>");
    let longest = rows.iter().map(|row| row.blocking_ms.p999).fold(rtt * 1.2, f64::max);
    let curves = |values: fn(&DemoRow) -> &[f64]| {
        let curve = |row: &&DemoRow| ChartCurve {
            class: row.mode.name().to_owned(),
            shape: ChartShape::Steps(shares(values(row))),
            ..ChartCurve::default()
        };
        rows.iter().map(curve).collect::<Vec<_>>()
    };
    let blocking = Chart {
        title: "Blocking time".to_owned(),
        x_label: "milliseconds from complete to let go".to_owned(),
        y_label: "share of messages".to_owned(),
        x: Scale::linear(longest),
        y: Scale::Share,
        marks: vec![ChartMark::Along(rtt, "one round trip".to_owned())],
        frame: WIDE,
        curves: curves(|row| row.blocking.values()),
    };
    let gaps = Chart {
        title: "Inter-delivery time".to_owned(),
        x_label: "milliseconds from one message to the next, log scale".to_owned(),
        x: Scale::Logarithmic { from: 0.01, to: 1000.0 },
        curves: curves(|row| row.inter_delivery.values()),
        ..blocking.clone()
    };
    page.push_str(&blocking.svg(true));
    page.push_str(&gaps.svg(true));
    page.push_str("</div></section>");
}

fn repair(row: &DemoRow) -> String {
    if row.mode != DemoMode::Repaired {
        return String::new();
    }
    let share = row.repair_bytes.approx() / row.sent_bytes.max(1).approx();
    format!(
        "<span>{} packets lost, {} came back</span><span>{} of the bytes repair</span>",
        row.lost,
        row.recovered,
        percent(share)
    )
}

fn table(page: &mut String, findings: &Findings) {
    page.push_str(
        "<section><h2>The numbers</h2><div class=scroll><table><thead><tr><th rowspan=2>updates/s<th rowspan=2>mode\
         <th colspan=6>blocking time, ms<th colspan=3>inter-delivery, ms<th rowspan=2>gaps over<br>round trip\
         <th colspan=2>delivery, ms<th colspan=2>whole update<br>on screen, ms<th rowspan=2>messages<th rowspan=2>not sent<br>again<th colspan=2>packets<th rowspan=2>repair,<br>kB</tr><tr><th>over 1 ms\
         <th>mean<th>p80<th>p90<th>p99<th>max<th>p50<th>p99<th>p99.95<th>p50<th>p99<th>p50<th>p99<th>lost<th>recovered</tr></thead><tbody>",
    );
    for row in &findings.modes {
        let (b, gap, d) = (&row.blocking_ms, &row.inter_delivery_ms, &row.delivery_ms);
        let whole = &row.whole_update_ms;
        let cells = [
            percent(row.blocked_share),
            number(b.mean),
            number(b.p80),
            number(b.p90),
            number(b.p99),
            number(b.max),
            number(gap.p50),
            number(gap.p99),
            number(gap.p9995),
            row.over_rtt.to_string(),
            number(d.p50),
            number(d.p99),
            number(whole.p50),
            number(whole.p99),
            row.messages.to_string(),
            row.abandoned.to_string(),
            row.lost.to_string(),
            row.recovered.to_string(),
            number(row.repair_bytes.approx() / 1e3),
        ];
        let first = if row.mode == DemoMode::ALL[0] { " class=first" } else { "" };
        let _ = write!(
            page,
            "<tr{first}><td>{}<th class={mode}><i></i>{mode}",
            row.updates_per_s,
            mode = row.mode
        );
        for cell in cells {
            let _ = write!(page, "<td>{cell}");
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div></section>");
}

fn method(page: &mut String, findings: &Findings, command: &str) {
    let link = &findings.link;
    let _ = write!(
        page,
        "<section class=method><h2>What was measured, and how</h2><dl>\
         <dt>Blocking time<dd>from the moment a message was complete at the receiver to the moment the fences let it \
         go. Held (“over 1 ms”) is a message that waited longer than a millisecond.\
         <dt>Inter-delivery time<dd>from one message let go to the next. About one in a hundred spans the pause between \
         two updates; “gaps over round trip” counts only those within an update. \
         Messages that are let go together have nothing between them; the figure shows them at its left edge.\
         <dt>Delivery<dd>from the moment the update was due at the sender to the message being let go. In the mode \
         <code>latest</code> messages that were lost and outdated do not count: they never arrive, and need not.\
         <dt>Whole update on screen<dd>from the moment the first message of an update was written by the sender to the \
         moment nothing older than the update was left on the receiver’s picture where the update changed it: all its \
         pixels were there, or newer ones in their places. Pixels that newer ones cover count as there from the newer ones \
         on, whether they come later or never, so each update counts once and none is left out.{overtaken}\
         <dt>Repair<dd>in the mode <code>partial+fec</code> by the policy <code>{fec}</code>. Packets lost and recovered and \
         the bytes of repair symbols are those of the whole run, the {warm_up} s before it included.\
         <dt>Percentiles<dd>are exact (nearest rank) over all messages of {seconds} s at each pace. What comes in the \
         {warm_up} s before is left out: handshake, slow start and the first full picture are the same in all modes.\
         <dt>The link<dd>{rate}, {half} ms each way, queue {queue}, loss {loss} each way, seed {seed}: emulated on this \
         machine by a relay between UDP sockets. Packet number n meets the same fate on each of the links. The relay \
         itself was late by at most {late} ms for 99 % of the packets{overruns}.\
         <dt>The transport<dd>QUIC with TLS 1.3, congestion control {cc}, UDP payloads of up to {mtu} bytes, at most \
         {messages} messages an update of at most {bytes} bytes each.</dl>\
         <h2>Repeat it</h2><p>The losses are those of the seed; times vary a little with the machine.</p>\
         <pre>cargo run --release -- {command}</pre></section>",
        overtaken = overtaken(findings),
        seconds = number(link.seconds),
        warm_up = number(link.warm_up_s),
        fec = escaped(&link.fec),
        rate = size(&link.rate),
        half = number(link.rtt_ms / 2.0),
        queue = size(&link.queue),
        loss = escaped(&size(&link.loss)),
        seed = link.seed,
        late = number(link.lateness_p99_ms),
        overruns = match link.overruns {
            Some(0) => String::new(),
            Some(n) => format!(
                ", and the system dropped {n} packets on the way to it, which the seed does not explain"
            ),
            None => ", and whether the system dropped packets on the way to it is not known here".to_owned(),
        },
        cc = escaped(&link.congestion.to_uppercase()),
        mtu = link.mtu,
        messages = crate::screen::MESSAGES,
        bytes = crate::screen::MAX_MESSAGE,
        command = escaped(command.strip_prefix("quickset ").unwrap_or(command)),
    );
}

/// How many updates newer pixels came first of, where that was so.
fn overtaken(findings: &Findings) -> String {
    let rows = || findings.modes.iter().filter(|row| row.mode == DemoMode::Latest);
    let overtaken: u64 = rows().map(|row| row.overtaken).sum();
    if overtaken == 0 {
        return String::new();
    }
    let share = overtaken.approx() / rows().map(|row| row.updates).sum::<u64>().max(1).approx();
    format!(
        " In the mode <code>latest</code> newer pixels came first somewhere; that was so for {} of the updates.",
        percent(share)
    )
}

/// The modes that ran.
fn modes_of(findings: &Findings) -> impl Iterator<Item = DemoMode> {
    DemoMode::ALL.into_iter().filter(|mode| findings.modes.iter().any(|row| row.mode == *mode))
}

/// Each pace once, in the order of the findings.
fn paces(findings: &Findings) -> Vec<u32> {
    let mut paces: Vec<u32> = findings.modes.iter().map(|row| row.updates_per_s).collect();
    paces.dedup();
    paces
}

const HEAD: &str = concat!(
    "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>\
     <title>Quickset: a screen across a lossy link</title><style>",
    include_str!("page.css"),
    "</style></head><body class=demo><main>"
);

#[cfg(test)]
mod tests;
