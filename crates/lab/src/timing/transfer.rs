//! Transfers over the loopback interface, with a thread for each end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quickset::{
    ClientConfig, Endpoint, Fec, Identity, Protection, ServerConfig, SocketConfig, TransportConfig, Trust,
};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::experiment::{HTTP1, Params, TimingError, Value};
use crate::perf::{self, Direction, Speed};
use crate::results::{Counted, Metrics, Timings};

/// Times a transfer over loopback, with a thread for each end.
///
/// # Errors
/// When the system gives no socket or thread, or the transfer breaks off.
pub(crate) fn transfer(params: &Params, _: u64) -> Result<Metrics, TimingError> {
    let connections = match params.get("connections") {
        Some(_) => params.whole("connections").map_err(|error| TimingError(error.to_string()))? as usize,
        None => 1,
    };
    let bytes = params.number_or_word("size").map(|bytes| bytes as u64);
    let bytes =
        bytes.ok_or_else(|| TimingError("what is timed has an end; set size to a number".to_owned()))?;
    let is_http1 = params.get("ack").is_some_and(|ack| *ack == Value::Text(HTTP1.to_owned()));
    let speed = if is_http1 { by_http1(connections, bytes)? } else { by_quic(params, connections, bytes)? };
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

fn by_quic(params: &Params, connections: usize, bytes: u64) -> Result<Speed, TimingError> {
    let transport = transport(params)?;
    let (server, client) = ends(perf::PROTOCOL)?;
    let socket = SocketConfig { segmentation_offload: transport.gso, ..SocketConfig::default() };
    let (server, client) = (server.with_transport(transport.clone()), client.with_transport(transport));
    let [far, near] = [runtime()?, runtime()?];
    let endpoint =
        far.block_on(async { Endpoint::bind(ANYWHERE, &socket, Some(&server)) }).map_err(broken)?;
    let job = perf::Job {
        address: endpoint.local_addr(),
        name: NAME.to_owned(),
        connections,
        direction: Direction::Download,
        bytes: Some(bytes),
        time: None,
    };
    beside(&far, perf::serve(endpoint), || {
        near.block_on(async {
            let endpoint = Endpoint::bind(ANYWHERE, &socket, None).map_err(broken)?;
            perf::measure(&endpoint, &client, &job, &Arc::default()).await.map_err(broken)
        })
    })
}

fn by_http1(connections: usize, bytes: u64) -> Result<Speed, TimingError> {
    let (server, client) = ends(perf::HTTP1)?;
    let [far, near] = [runtime()?, runtime()?];
    let listener = far.block_on(TcpListener::bind(ANYWHERE)).map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    beside(&far, perf::serve_http1(listener, server.tls(&[perf::HTTP1])), || {
        let tls = client.tls(&[perf::HTTP1]);
        near.block_on(perf::measure_http1((address, NAME), tls, connections, bytes)).map_err(broken)
    })
}

/// A server that a client trusts.
fn ends(protocol: &str) -> Result<(ServerConfig, ClientConfig), TimingError> {
    let identity = Identity::self_signed([NAME]).map_err(broken)?;
    let trust = Trust::pinned(identity.fingerprint());
    let server = ServerConfig::new(identity, &[protocol]).map_err(broken)?;
    Ok((server, ClientConfig::new(trust, &[protocol]).map_err(broken)?))
}

/// Serves on a thread of its own until this one has done its part.
fn beside<T>(far: &Runtime, serve: impl Future<Output = ()> + Send, near: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(move || {
            far.block_on(async {
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
        });
        let done = near();
        drop(stop);
        done
    })
}

fn broken(error: impl std::fmt::Display) -> TimingError {
    TimingError(format!("nothing was transferred: {error}"))
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

const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const NAME: &str = "localhost";
/// As `quickset perf` has it.
pub(super) const MTU: u16 = 1452;

#[cfg(test)]
mod tests {
    use super::super::tests::points;
    use super::*;

    /// Whatever is asked for, by packet or by batch or by TCP, all comes, at all that fetch it.
    #[test]
    fn transfers_are_timed_however_they_are_acknowledged() {
        for point in points("throughput", &["size=2MB", "connections=3"]) {
            let metrics = transfer(&point, 1).unwrap_or_else(|error| panic!("{point}: {error}"));
            assert!(metrics.goodput_bps.unwrap() > 0.0, "{point}");
            assert_eq!(metrics.counted.bytes_useful, 2_000_000, "{point}");
        }
    }

    #[test]
    fn http1_is_no_packets_of_ours_and_what_has_no_end_is_not_timed() {
        let point = |more: &str| points("throughput", &["ack=http1", "gso=yes", more]).remove(0);
        let metrics = transfer(&point("size=2MB"), 1).unwrap();
        assert_eq!((metrics.counted.bytes_useful, metrics.counted.retransmitted), (2_000_000, 0));
        assert!(transfer(&point("size=unlimited"), 1).unwrap_err().to_string().contains("set size"));
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
