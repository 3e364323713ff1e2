//! Transfers over the loopback interface, with a thread for each end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quickset::{
    ClientConfig, Endpoint, Fec, Identity, Protection, ServerConfig, SocketConfig, TransportConfig, Trust,
};
use tokio::runtime::{Builder, Runtime};

use crate::experiment::{Params, TimingError};
use crate::perf::{self, Direction};
use crate::results::{Counted, Metrics, Timings};

/// Times a transfer over loopback, with a thread for each end.
///
/// # Errors
/// When the system gives no socket or thread, or the transfer breaks off.
pub(crate) fn transfer(params: &Params, _: u64) -> Result<Metrics, TimingError> {
    let broken = |error: &dyn std::fmt::Display| TimingError(format!("nothing was transferred: {error}"));
    let transport = transport(params)?;
    let identity = Identity::self_signed(["localhost"]).map_err(|error| broken(&error))?;
    let trust = Trust::pinned(identity.fingerprint());
    let server = ServerConfig::new(identity, &[perf::PROTOCOL]).map_err(|error| broken(&error))?;
    let client = ClientConfig::new(trust, &[perf::PROTOCOL]).map_err(|error| broken(&error))?;
    let socket = SocketConfig { segmentation_offload: transport.gso, ..SocketConfig::default() };
    let (server, client) = (server.with_transport(transport.clone()), client.with_transport(transport));
    let [far, near] = [runtime()?, runtime()?];
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let endpoint = far
        .block_on(async { Endpoint::bind(anywhere, &socket, Some(&server)) })
        .map_err(|error| broken(&error))?;
    let job = perf::Job {
        address: endpoint.local_addr(),
        name: "localhost".to_owned(),
        connections: match params.get("connections") {
            Some(_) => params.whole("connections").map_err(|error| broken(&error))? as usize,
            None => 1,
        },
        direction: Direction::Download,
        bytes: params.number_or_word("size").map(|bytes| bytes as u64),
        time: None,
    };
    let speed = std::thread::scope(|scope| {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(move || {
            far.block_on(async {
                tokio::select! {
                    () = perf::serve(endpoint) => {}
                    _ = stopped => {}
                }
            });
        });
        let speed = near.block_on(async {
            let endpoint = Endpoint::bind(anywhere, &socket, None).map_err(|error| broken(&error))?;
            perf::measure(&endpoint, &client, &job, &Arc::default()).await.map_err(|error| broken(&error))
        });
        drop(stop);
        speed
    })?;
    Ok(Metrics {
        finished: true,
        completion_s: Some(speed.seconds),
        goodput_bps: Some(speed.bits_per_second),
        counted: Counted {
            bytes_useful: speed.bytes,
            repair_bytes: speed.fec.repair_bytes,
            retransmitted: speed.lost,
            ..Counted::default()
        },
        timings: Timings { cpu_s_per_gb: speed.cpu_s_per_gb_client, ..Timings::default() },
        ..Metrics::default()
    })
}

fn transport(params: &Params) -> Result<TransportConfig, TimingError> {
    let wrong = |error: &dyn std::fmt::Display| TimingError(error.to_string());
    let mut transport = TransportConfig {
        mtu: MTU,
        congestion: params.text("cc").parse().map_err(|error| wrong(&error))?,
        fec: None,
        ..TransportConfig::default()
    };
    if params.get("ack").is_some() {
        transport.acks = params.text("ack").parse().map_err(|error| wrong(&error))?;
        transport.gso = params.text("gso") == "yes";
    }
    if params.get("fec").is_some() {
        let protection: Protection = params.text("fec").parse().map_err(|error| wrong(&error))?;
        let window = params.whole("fec_window").map_err(|error| wrong(&error))?;
        let fec = Fec { window, symbol: u64::from(MTU), protection, ..Fec::default() };
        transport.fec = (fec.protection != Protection::None).then_some(fec);
    }
    Ok(transport)
}

fn runtime() -> Result<Runtime, TimingError> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(|error| TimingError(format!("the system gives no event loop: {error}")))
}

/// As `quickset perf` has it.
const MTU: u16 = 1452;

#[cfg(test)]
mod tests {
    use super::super::tests::points;
    use super::*;

    /// Whatever is asked for, by packet or by batch, all comes, at all that fetch it.
    #[test]
    fn transfers_are_timed_however_they_are_acknowledged() {
        for point in points("throughput", &["size=2MB", "connections=3"]) {
            let metrics = transfer(&point, 1).unwrap_or_else(|error| panic!("{point}: {error}"));
            assert!(metrics.goodput_bps.unwrap() > 0.0, "{point}");
            assert_eq!(metrics.counted.bytes_useful, 2_000_000, "{point}");
        }
    }

    #[test]
    fn a_transfer_is_timed_and_repaired() {
        let [plain, repaired] = ["none", "fixed:10"].map(|fec| {
            let point = &points("perf-fec", &["size=2MB", &format!("fec={fec}")])[0];
            transfer(point, 1).unwrap()
        });
        for metrics in [&plain, &repaired] {
            assert!(metrics.goodput_bps.unwrap() > 0.0 && metrics.counted.bytes_useful == 2_000_000);
        }
        // One behind each tenth packet, of a packet's length.
        assert_eq!(plain.counted.repair_bytes, 0);
        assert!((150_000..250_000).contains(&repaired.counted.repair_bytes), "{:?}", repaired.counted);
    }
}
