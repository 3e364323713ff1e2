use std::time::Duration;

use quickset_wire::TransportParams;

use crate::cids;
use crate::config::TransportConfig;
use crate::datagram::DatagramQueues;
use crate::protect::Protect;
use crate::streams::Streams;

/// The transport parameters that follow from `config`; the connection ids come later.
pub(crate) fn announce(config: &TransportConfig) -> TransportParams {
    let max_ack_delay = whole_millis(config.max_ack_delay).min(MAX_ACK_DELAY);
    let mut params = TransportParams {
        max_idle_timeout: config.idle_timeout.unwrap_or(Duration::ZERO),
        max_ack_delay,
        min_ack_delay: (config.min_ack_delay < max_ack_delay).then_some(config.min_ack_delay),
        disable_active_migration: !config.migration.allowed,
        active_connection_id_limit: cids::LIMIT,
        grease_quic_bit: config.grease_quic_bit,
        ..TransportParams::default()
    };
    // Credit is the affair of those who count it.
    Streams::offer(&config.into(), &mut params);
    DatagramQueues::offer(&config.datagrams, &mut params);
    params.fec_decoder = Protect::offer(config.fec.as_ref());
    params.fec_unmarked = Protect::keeps(config.fec.as_ref());
    params
}

/// Rounded up: a peer that waits less than we delay would probe for nothing.
fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// RFC 9000 §18.2: below 2^14.
const MAX_ACK_DELAY: Duration = Duration::from_millis((1 << 14) - 1);

#[cfg(test)]
mod tests {
    use super::*;

    /// draft-ietf-quic-ack-frequency §3: a min_ack_delay above max_ack_delay would end the connection.
    #[test]
    fn delays_can_be_asked_for_when_there_is_a_choice() {
        let offered = |least, most| {
            announce(&TransportConfig {
                min_ack_delay: least,
                max_ack_delay: most,
                ..TransportConfig::fixed_mtu(1200)
            })
            .min_ack_delay
        };
        let ms = Duration::from_millis;
        assert_eq!(TransportConfig::fixed_mtu(1200).min_ack_delay, ms(1));
        assert_eq!(offered(ms(1), ms(25)), Some(ms(1)));
        assert_eq!(offered(ms(25), ms(25)), None);
        assert_eq!(offered(ms(30), ms(25)), None);
        // What is announced is whole milliseconds.
        assert_eq!(
            offered(Duration::from_micros(600), Duration::from_micros(500)),
            Some(Duration::from_micros(600))
        );
    }
}
