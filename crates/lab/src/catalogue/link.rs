//! What the keys of all experiments mean for links and connections.

use quickset::{AckPolicy, AckPolicyError, Algorithm, TransportConfig};
use quickset_base::Duration;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_h3::{Priority, Tolerance};
use quickset_policies::PublishedPolicy;
use quickset_quic::{Fec, Protection};
use quickset_sim::{Burst, GilbertElliott, LinkQueue, LinkSpec, LossModel, Rate, TimedGilbertElliott};

use crate::experiment::{FLEC, NONE, Params, Value, ValueError, products};
use crate::play::{
    MessageChannel, MessageGroup, MessageOrder, MessagePiece, MessageStream, PageResource, PageVisit,
    PlayFlow, Schedule, Work,
};

/// One direction of the link, with `loss_scale` times the loss.
pub(super) fn spec(params: &Params, loss_scale: f64) -> Result<LinkSpec, ValueError> {
    let one_way = one_way_s(params)?;
    Ok(LinkSpec {
        rate: rate(params)?,
        delay: Duration::from_nanos((one_way * 1e9).round().whole::<u64>()),
        queue: queue(params, one_way)?,
        loss: loss(params, loss_scale)?,
        // UDP over IPv4.
        overhead: 28,
        others_pps: others_pps(params)?,
        ..LinkSpec::default()
    })
}

/// The congestion controller.
pub(super) fn congestion(params: &Params) -> Result<Algorithm, ValueError> {
    params.text("cc").parse().map_err(|error| ValueError(format!("{error}")))
}

/// How to acknowledge.
pub(crate) fn acks(params: &Params) -> Result<AckPolicy, ValueError> {
    params.text("ack").parse().map_err(|error: AckPolicyError| ValueError(error.to_string()))
}

/// How messages wait for one another.
pub(super) fn order(params: &Params) -> MessageOrder {
    match params.text("mode").as_str() {
        "total" => MessageOrder::Total,
        "latest" => MessageOrder::Latest,
        "plain" => MessageOrder::Plain,
        _ => MessageOrder::Partial,
    }
}

/// So many updates of a screen, one due `every` so long or each asked for `interactive` after the one before,
/// with a fence behind each.
pub(super) fn updates(
    params: &Params,
    count: u64,
    every: Duration,
    interactive: Option<Duration>,
) -> Result<MessageStream, ValueError> {
    let piece =
        MessagePiece { bytes: params.whole("message_bytes")?.saturated::<u32>(), deadline: None, area: None };
    let messages = vec![piece; params.whole("messages")?.saturated::<usize>()];
    let group = |n: u64| MessageGroup {
        due: every * n.saturated::<u32>(),
        messages: messages.clone(),
        fence: true,
        channel: MessageChannel::First,
    };
    Ok(MessageStream {
        order: order(params),
        groups: (0..count).map(group).collect(),
        tell_deadlines: false,
        schedule: Schedule::default(),
        interactive,
    })
}

/// When to give up on `bytes`: fifty times what they take at the link's rate, ten minutes and a hundred round
/// trips. CUBIC at 0.5 % loss and 100 ms gets 2 % of 100 Mbit/s (RFC 9438 §5.2).
pub(super) fn patience(params: &Params, bytes: u64) -> Result<Duration, ValueError> {
    let wire = bytes.approx() * 8.0 / (mean_mbit(params)? * 1e6);
    Ok(Duration::from_secs_f64(wire * 50.0 + one_way_s(params)? * 200.0 + 600.0))
}

/// A flow of the FlEC paper: its packets, and BBR unless something else is asked for.
pub(super) fn flec_flow(name: &str, params: &Params, work: Work) -> Result<PlayFlow, ValueError> {
    let mut flow = PlayFlow::new(name, congestion(params)?, work);
    flow.transport.mtu = 1350;
    if matches!(flow.work, Work::Bytes(_)) {
        plain(&mut flow.transport);
    }
    protect(&mut flow, params)?;
    Ok(flow)
}

/// What protects a flow against loss. Both ends offer to decode, also where nothing is protected: handshakes
/// of equal length meet the same losses, since these go by the number of the packet.
pub(super) fn protect(flow: &mut PlayFlow, params: &Params) -> Result<(), ValueError> {
    flow.protection = protection(params)?;
    flow.transport.fec = Some(
        Fec::default()
            .with_window(params.whole("fec_window")?)
            // The answers, by two codes at most: blocks, and a window.
            .with_sessions(2)
            .with_symbol(u64::from(flow.transport.mtu)),
    );
    Ok(())
}

/// A browser's flow: content that nothing but the path holds up, from a server with the buffers of `http
/// serve`. What the key `fec` has of burst loss tolerance, requests more urgent than `below` ask for
/// themselves (`exp_b`, `exp_d`); other protections are the server's setting for these.
pub(super) fn visit_flow(
    name: &str,
    params: &Params,
    mut resources: Vec<PageResource>,
    below: u8,
) -> Result<PlayFlow, ValueError> {
    let protection = protection(params)?;
    // A server does not do everything that it is asked for.
    let most = quickset_h3::Config::default().max_burst;
    let is_asked = |delay: Duration| delay >= Tolerance::LEAST_DELAY && delay.as_nanos() % 1_000_000 == 0;
    let asked = match PublishedPolicy::of(&protection) {
        Some(PublishedPolicy::TumBulk(burst)) if burst <= most => Some(format!("exp_b={burst}")),
        Some(PublishedPolicy::TumIncremental(burst, delay)) if burst <= most && is_asked(delay) => {
            Some(format!("exp_b={burst}, exp_d={}", delay.as_millis()))
        }
        _ => None,
    };
    let repair = (below, if asked.is_some() { Protection::None } else { protection });
    for resource in &mut resources {
        let priority = Priority::parse(resource.priority.as_bytes()).unwrap_or_default();
        if let Some(asked) = asked.as_ref().filter(|_| priority.urgency < below) {
            let comma = if resource.priority.is_empty() { "" } else { ", " };
            resource.priority = format!("{}{comma}{asked}", resource.priority);
        }
    }
    let mut flow = PlayFlow::new(name, congestion(params)?, Work::Visit(PageVisit { resources, repair }));
    plain(&mut flow.transport);
    windows(&mut flow.transport, None);
    flow.transport.send_buffer = 2 << 20;
    protect(&mut flow, params)?;
    // An answer has a session to itself.
    if let Some(fec) = &mut flow.transport.fec {
        fec.sessions = Fec::default().sessions;
    }
    Ok(flow)
}

/// The protection of the key `fec`.
fn protection(params: &Params) -> Result<Protection, ValueError> {
    quickset_policies::read(&params.text("fec")).map_err(|error| ValueError(format!("{error}")))
}

/// QUIC without anything of ours.
pub(super) fn plain(transport: &mut TransportConfig) {
    transport.fenced_streams = None;
}

/// Receive windows that stay at `bytes`, of the stream and of the connection; with `None`, flow control never
/// stops anything.
pub(super) fn windows(transport: &mut TransportConfig, bytes: Option<u64>) {
    let bytes = bytes.unwrap_or(NO_WINDOW);
    (transport.stream_window, transport.max_stream_window) = (bytes, bytes);
    transport.max_connection_window = bytes;
}

fn one_way_s(params: &Params) -> Result<f64, ValueError> {
    Ok(match params.get("owd_ms") {
        Some(_) => params.number("owd_ms")? / 1e3,
        None => params.number("rtt_ms")? / 2e3,
    })
}

/// Packets of 1500 bytes.
fn others_pps(params: &Params) -> Result<u32, ValueError> {
    if params.get("others_mbit").is_none() {
        return Ok(0);
    }
    Ok((params.number("others_mbit")? * 1e6 / (8.0 * 1500.0)).round().whole::<u32>())
}

fn rate(params: &Params) -> Result<Rate, ValueError> {
    match params.get("rate_trace") {
        Some(Value::Text(path)) if path != NONE => {
            format!("trace:{path}").parse().map_err(|error| ValueError(format!("{error}")))
        }
        _ => Ok(Rate::Constant((params.number("rate_mbit")? * 1e6).round().whole::<u64>())),
    }
}

/// The link's rate in Mbit/s; of a recording the mean, and no less than `rate_mbit` may be.
pub(super) fn mean_mbit(params: &Params) -> Result<f64, ValueError> {
    match rate(params)? {
        Rate::Trace(trace) => Ok((trace.mean_bps().approx() / 1e6).max(0.01)),
        _ => params.number("rate_mbit"),
    }
}

fn queue(params: &Params, one_way_s: f64) -> Result<LinkQueue, ValueError> {
    let mbit = mean_mbit(params)?;
    match params.text("queue").as_str() {
        FLEC => {
            // FlEC, ToN 2022: 1.5 times the bandwidth-delay product in packets of 1200 bytes, a megabit being
            // 2^20 bits.
            let packets = 1.5 * mbit / 8.0 * 1_048_576.0 * one_way_s * 2.0 / 1200.0;
            Ok(LinkQueue::Packets(packets.whole::<u64>().max(1)))
        }
        text => match products(text) {
            // A packet must find room.
            Some(n) => Ok(LinkQueue::Bytes(
                (n * mbit * 1e6 / 8.0 * one_way_s * 2.0).round().whole::<u64>().max(1500),
            )),
            None => text.parse().map_err(|error| ValueError(format!("{error}"))),
        },
    }
}

fn loss(params: &Params, scale: f64) -> Result<LossModel, ValueError> {
    if params.get("ge_p").is_some() {
        let to_bad = params.number("ge_p")?;
        // FlEC, ToN 2022, figure 11: a burst goes on with 67 %, over 5 packets at most.
        let bursts = GilbertElliott { longest: Some(5), ..GilbertElliott::simple(to_bad, 0.33) };
        return Ok(if to_bad > 0.0 { LossModel::GilbertElliott(bursts) } else { LossModel::None });
    }
    match params.get("loss") {
        Some(Value::Number(share)) if *share > 0.0 => Ok(LossModel::Independent(share * scale)),
        Some(Value::Text(model)) => match model.parse().map_err(|error| ValueError(format!("{error}")))? {
            // Bursts as long as ever, and as many fewer.
            LossModel::GilbertElliott(bursts) => Ok(LossModel::GilbertElliott(GilbertElliott {
                to_bad: bursts.to_bad * scale,
                good: bursts.good * scale,
                ..bursts
            })),
            LossModel::Timed(bursts) => Ok(LossModel::Timed(TimedGilbertElliott {
                good: bursts.good.div_f64(scale),
                good_loss: bursts.good_loss * scale,
                ..bursts
            })),
            LossModel::Burst(bursts) => {
                let every = (bursts.every.approx() / scale).round().whole::<u64>();
                Ok(LossModel::Burst(Burst { every, ..bursts }))
            }
            // Nobody can say which of them would be left.
            loss => Ok(loss),
        },
        _ => Ok(LossModel::None),
    }
}

/// A terabyte.
const NO_WINDOW: u64 = 1 << 40;
