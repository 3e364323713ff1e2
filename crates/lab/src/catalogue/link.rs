//! What the keys of all experiments mean for links and connections.

use quickset::Algorithm;
use quickset_base::Duration;
use quickset_sim::{LinkSpec, Loss, Queue, Rate};

use crate::experiment::{FLEC, Params, Value, ValueError};
use crate::play::Order;

/// One direction of the link, with `loss_scale` times the loss.
pub(super) fn spec(params: &Params, loss_scale: f64) -> Result<LinkSpec, ValueError> {
    let one_way = match params.get("owd_ms") {
        Some(_) => params.number("owd_ms")?,
        None => params.number("rtt_ms")? / 2.0,
    };
    let rate = (params.number("rate_mbit")? * 1e6).round() as u64;
    let loss = match params.get("loss") {
        Some(Value::Number(share)) if *share > 0.0 => Loss::Independent(share * loss_scale),
        Some(Value::Text(model)) => model.parse().map_err(|error| ValueError(format!("{error}")))?,
        _ => Loss::None,
    };
    let queue = match params.text("queue").as_str() {
        FLEC => {
            // FlEC, ToN 2022: 1.5 times the bandwidth-delay product in packets of 1200 bytes, a megabit being 2^20 bits.
            let packets = 1.5 * params.number("rate_mbit")? / 8.0 * 1_048_576.0 * one_way * 2e-3 / 1200.0;
            Queue::Packets((packets as u64).max(1))
        }
        text => text.parse().map_err(|error| ValueError(format!("{error}")))?,
    };
    Ok(LinkSpec {
        rate: Rate::Constant(rate),
        delay: Duration::from_nanos((one_way * 1e6).round() as u64),
        queue,
        loss,
        // UDP over IPv4.
        overhead: 28,
        ..LinkSpec::default()
    })
}

/// The congestion controller.
pub(super) fn congestion(params: &Params) -> Result<Algorithm, ValueError> {
    params.text("cc").parse().map_err(|error| ValueError(format!("{error}")))
}

/// How messages wait for one another.
pub(super) fn order(params: &Params) -> Order {
    match params.text("mode").as_str() {
        "total" => Order::Total,
        "latest" => Order::Latest,
        "plain" => Order::Plain,
        _ => Order::Partial,
    }
}

/// When to give up on `bytes`: fifty times what they take at the link's rate, ten minutes and a hundred round trips. CUBIC
/// at 0.5 % loss and 100 ms gets 2 % of 100 Mbit/s (RFC 9438 §5.2).
pub(super) fn patience(params: &Params, bytes: u64) -> Result<Duration, ValueError> {
    let wire = bytes as f64 * 8.0 / (params.number("rate_mbit")? * 1e6);
    let rtt = match params.get("owd_ms") {
        Some(_) => params.number("owd_ms")? * 2e-3,
        None => params.number("rtt_ms")? * 1e-3,
    };
    Ok(Duration::from_secs_f64(wire * 50.0 + rtt * 100.0 + 600.0))
}
