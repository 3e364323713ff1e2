//! Transfers over the loopback interface, with a thread for each end.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quickset::{
    CallSizes, ClientConfig, Endpoint, Fec, Identity, Protection, ServerConfig, SocketConfig,
    TransportConfig, Trust,
};
use quickset_base::number::{Float, Unsigned as _};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

#[cfg(target_os = "linux")]
use super::watch::{CpuPart, ThreadWatch};
use crate::experiment::{HTTP1, Params, Timed, TimingError, Value};
use crate::perf::{self, Direction, PatternSource, Speed};
use crate::results::{CallsCarried, CountedPackets, Detail, Histogram, RunMetrics, SpentOn, Timings};
use crate::scratch::ScratchFile;
use crate::stats::{Samples, Sorted};

/// Times a transfer over loopback, with a thread for each end.
///
/// # Errors
/// When the system gives no socket or thread, or the transfer breaks off.
pub(crate) fn transfer(params: &Params, _: u64) -> Timed {
    transferred(params, false)
}

/// The same, and looks at what the server spends its time on.
///
/// # Errors
/// As [`transfer`].
pub(crate) fn profile(params: &Params, _: u64) -> Timed {
    transferred(params, true)
}

fn transferred(params: &Params, is_watched: bool) -> Timed {
    let load = TransferLoad::of(params, is_watched)?;
    let is_http1 = params.get("ack").is_some_and(|ack| *ack == Value::Text(HTTP1.to_owned()));
    let (speed, seen) = if is_http1 { by_http1(&load)? } else { by_quic(params, &load)? };
    let (carried, histograms) = if is_watched { seen.carried() } else { Default::default() };
    let metrics = RunMetrics {
        finished: true,
        completion_s: Some(speed.seconds),
        goodput_bps: Some(speed.bits_per_second),
        counted: CountedPackets {
            bytes_useful: speed.bytes,
            repair_bytes: speed.fec.repair_bytes,
            retransmitted: speed.lost,
            ..CountedPackets::default()
        },
        timings: Timings {
            cpu_s_per_gb: speed.cpu_s_per_gb_client,
            spent: seen.spent.unwrap_or_default(),
            carried,
            ..Timings::default()
        },
        ..RunMetrics::default()
    };
    Ok((metrics, Detail { histograms, ..Detail::default() }))
}

/// What is asked of a server.
struct TransferLoad {
    connections: usize,
    bytes: u64,
    source: PatternSource,
    /// The file that the source reads.
    _file: Option<ScratchFile>,
    is_watched: bool,
}

impl TransferLoad {
    fn of(params: &Params, is_watched: bool) -> Result<Self, TimingError> {
        let connections = match params.get("connections") {
            Some(_) => params
                .whole("connections")
                .map_err(|error| TimingError(error.to_string()))?
                .saturated::<usize>(),
            None => 1,
        };
        let bytes = params.number_or_word("size").map(Float::whole);
        let bytes =
            bytes.ok_or_else(|| TimingError("what is timed has an end; set size to a number".to_owned()))?;
        let is_file = params.get("source").is_some_and(|source| *source == Value::Text("file".to_owned()));
        let file = is_file.then(ScratchFile::file);
        let mut source = PatternSource::default();
        if let Some(file) = &file {
            perf::write_pattern(file.path()).map_err(broken)?;
            source = source.with_file(file.path());
        }
        if let Some(gbit) = params.number_or_word("offered_gbit") {
            source = source.with_rate(gbit * 1e9 / 8.0 / connections.approx());
        }
        Ok(Self { connections, bytes, source, _file: file, is_watched })
    }
}

/// What was seen at the server.
#[derive(Default)]
struct ServerSeen {
    spent: Option<SpentOn>,
    sent: CallSizes,
    received: CallSizes,
}

impl ServerSeen {
    /// How much calls carried, if there were any, and the distributions of that.
    fn carried(&self) -> (CallsCarried, BTreeMap<String, Histogram>) {
        let mut histograms = BTreeMap::new();
        let mut each = |name: &str, sizes: &CallSizes| {
            let all = sizes
                .iter()
                .flat_map(|(size, calls)| std::iter::repeat_n(size.approx(), calls.saturated::<usize>()));
            let sorted = all.collect::<Samples>().sorted();
            let is_any = !sorted.values().is_empty();
            if is_any {
                histograms.insert(name.to_owned(), Histogram::of_sorted(sorted.values()));
            }
            is_any.then_some(sorted)
        };
        let sent = each("packets_per_send", &self.sent);
        let received = each("packets_per_read", &self.received);
        let over = |bytes: f64| sent.as_ref().map(|sent| 1.0 - sent.share_up_to(bytes / f64::from(MTU)));
        let up_to = |datagrams: f64| received.as_ref().map(|received| received.share_up_to(datagrams));
        let carried = CallsCarried {
            packets_per_send: sent.as_ref().map(Sorted::percentiles),
            packets_per_read: received.as_ref().map(Sorted::percentiles),
            sends_over_10kb: over(10e3),
            sends_over_60kb: over(60e3),
            reads_of_1: up_to(1.0),
            reads_up_to_3: up_to(3.0),
            reads_full: up_to((CallSizes::MESSAGES_RECEIVED - 1).approx()).map(|fewer| 1.0 - fewer),
        };
        (carried, histograms)
    }
}

fn by_quic(params: &Params, load: &TransferLoad) -> Result<(Speed, ServerSeen), TimingError> {
    let transport = transport(params)?;
    let (server, client) = ends(perf::PROTOCOL)?;
    let socket = SocketConfig { segmentation_offload: transport.gso, ..SocketConfig::default() };
    let (server, client) = (server.with_transport(transport.clone()), client.with_transport(transport));
    let [far, near] = [runtime()?, runtime()?];
    let endpoint =
        far.block_on(async { Endpoint::bind(ANYWHERE, &socket, Some(&server)) }).map_err(broken)?;
    let job = perf::PerfJob {
        address: endpoint.local_addr(),
        name: NAME.to_owned(),
        connections: load.connections,
        direction: Direction::Download,
        bytes: Some(load.bytes),
        time: None,
    };
    let serve = perf::serve_from(endpoint.clone(), load.source.clone());
    let (speed, spent) = beside(&far, load.is_watched, serve, || {
        near.block_on(async {
            let endpoint = Endpoint::bind(ANYWHERE, &socket, None).map_err(broken)?;
            perf::measure(&endpoint, &client, &job, &Arc::default()).await.map_err(broken)
        })
    });
    let stats = endpoint.stats();
    Ok((speed?, ServerSeen { spent, sent: stats.sent, received: stats.received }))
}

fn by_http1(load: &TransferLoad) -> Result<(Speed, ServerSeen), TimingError> {
    let (server, client) = ends(perf::HTTP1)?;
    let [far, near] = [runtime()?, runtime()?];
    let listener = far.block_on(TcpListener::bind(ANYWHERE)).map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    let serve = perf::serve_http1(listener, server.tls(&[perf::HTTP1]), load.source.clone());
    let (speed, spent) = beside(&far, load.is_watched, serve, || {
        let tls = client.tls(&[perf::HTTP1]);
        let measured = perf::measure_http1(address, NAME, tls, load.connections, load.bytes);
        near.block_on(measured).map_err(broken)
    });
    Ok((speed?, ServerSeen { spent, ..ServerSeen::default() }))
}

/// A server that a client trusts.
fn ends(protocol: &str) -> Result<(ServerConfig, ClientConfig), TimingError> {
    let identity = Identity::self_signed([NAME]).map_err(broken)?;
    let trust = Trust::pinned(identity.fingerprint());
    let server = ServerConfig::new(identity, &[protocol]).map_err(broken)?;
    Ok((server, ClientConfig::new(trust, &[protocol]).map_err(broken)?))
}

/// Serves on a thread of its own until this one has done its part; what that thread spent its time on, if it
/// is watched.
fn beside<T>(
    far: &Runtime,
    is_watched: bool,
    serve: impl Future<Output = ()> + Send,
    near: impl FnOnce() -> T,
) -> (T, Option<SpentOn>) {
    std::thread::scope(|scope| {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = scope.spawn(move || {
            let serving = async {
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            };
            if is_watched {
                return watched(|| far.block_on(serving));
            }
            far.block_on(serving);
            None
        });
        let done = near();
        drop(stop);
        (done, server.join().unwrap_or_default())
    })
}

/// Does something, and tells what this thread spent its time on, where the system permits it to be seen.
#[cfg(target_os = "linux")]
fn watched(work: impl FnOnce()) -> Option<SpentOn> {
    let watch = ThreadWatch::begin();
    work();
    let spent = watch.ok()?.end()?;
    let share = |part| Some(spent.share(part));
    Some(SpentOn {
        spent_sending: share(CpuPart::Sending),
        spent_receiving: share(CpuPart::Receiving),
        spent_acks: share(CpuPart::Acks),
        spent_headers: share(CpuPart::Headers),
        spent_payload: share(CpuPart::Payload),
        spent_crypto: Some(spent.share(CpuPart::Headers) + spent.share(CpuPart::Payload)),
        spent_file: share(CpuPart::File),
        spent_rest: share(CpuPart::Rest),
    })
}

#[cfg(not(target_os = "linux"))]
fn watched(work: impl FnOnce()) -> Option<SpentOn> {
    work();
    None
}

fn broken(error: impl std::fmt::Display) -> TimingError {
    TimingError(format!("nothing was transferred: {error}"))
}

fn transport(params: &Params) -> Result<TransportConfig, TimingError> {
    let wrong = |error: &dyn std::fmt::Display| TimingError(error.to_string());
    let mut transport = TransportConfig::fixed_mtu(MTU)
        .with_congestion(params.text("cc").parse().map_err(|error| wrong(&error))?)
        .with_fec(None);
    if params.get("ack").is_some() {
        transport.acks = params.text("ack").parse().map_err(|error| wrong(&error))?;
        transport.gso = params.text("gso") == "yes";
    }
    if params.get("fec").is_some() {
        let protection = quickset_policies::read(&params.text("fec")).map_err(|error| wrong(&error))?;
        let window = params.whole("fec_window").map_err(|error| wrong(&error))?;
        let fec = Fec::default().with_window(window).with_symbol(u64::from(MTU)).with_protection(protection);
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
            let (metrics, _) = transfer(&point, 1).unwrap_or_else(|error| panic!("{point}: {error}"));
            assert!(metrics.goodput_bps.unwrap() > 0.0, "{point}");
            assert_eq!(metrics.counted.bytes_useful, 2_000_000, "{point}");
        }
    }

    #[test]
    fn http1_is_no_packets_of_ours_and_what_has_no_end_is_not_timed() {
        let point = |more: &str| points("throughput", &["ack=http1", "gso=yes", more]).remove(0);
        let (metrics, _) = transfer(&point("size=2MB"), 1).unwrap();
        assert_eq!((metrics.counted.bytes_useful, metrics.counted.retransmitted), (2_000_000, 0));
        assert!(transfer(&point("size=unlimited"), 1).unwrap_err().to_string().contains("set size"));
    }

    /// Parts are of a whole; every datagram goes in one of the calls, and what is offered at a rate takes its
    /// time.
    #[test]
    fn a_server_is_seen_at_work() {
        // At a sample a millisecond, that is hundreds of each: a part of a tenth is never missed.
        const BYTES: u32 = 400_000_000;
        for ack in ["2:fixed:single", "100:fixed:merged", "http1"] {
            let size = format!("size={BYTES}");
            let words = [&size, "gso=yes", "offered_gbit=unlimited", &format!("ack={ack}")];
            let (metrics, detail) = profile(&points("light-profile", &words)[0], 1).unwrap();
            assert_eq!(metrics.counted.bytes_useful, u64::from(BYTES), "{ack}");
            let carried = &metrics.timings.carried;
            let names: Vec<&str> = detail.histograms.keys().map(String::as_str).collect();
            if ack == "http1" {
                assert_eq!((carried, names), (&CallsCarried::default(), vec![]));
            } else {
                assert_eq!(names, ["packets_per_read", "packets_per_send"], "{ack}");
                let mean = carried.packets_per_send.unwrap().mean;
                let packets = mean * detail.histograms["packets_per_send"].count() as f64;
                assert!(packets >= f64::from(BYTES) / f64::from(MTU), "{ack}: {packets}");
            }
            #[cfg(target_os = "linux")]
            if ThreadWatch::may_begin() {
                let spent = &metrics.timings.spent;
                let parts = [
                    spent.spent_sending,
                    spent.spent_receiving,
                    spent.spent_acks,
                    spent.spent_crypto,
                    spent.spent_file,
                    spent.spent_rest,
                ];
                let all: f64 = parts.iter().map(|part| part.expect("a share")).sum();
                assert!((all - 1.0).abs() < 1e-9, "{ack}: {spent:?}");
                assert!(parts[0] > Some(0.01) && parts[3] > Some(0.01), "{ack}: {spent:?}");
            }
        }
    }

    #[test]
    fn what_is_offered_at_a_rate_takes_its_time() {
        for ack in ["2:adaptive:merged", "http1"] {
            let words = ["size=10MB", "gso=yes", "offered_gbit=0.2", "source=memory", &format!("ack={ack}")];
            let (metrics, _) = profile(&points("light-profile", &words)[0], 1).unwrap();
            // But for the last piece of each.
            assert!(metrics.goodput_bps.unwrap() < 0.24e9, "{ack}: {:?}", metrics.goodput_bps);
        }
    }

    #[test]
    fn a_transfer_is_timed_and_repaired() {
        let [plain, repaired] = ["none", "fixed:10"].map(|fec| {
            let point = &points("perf-fec", &["size=2MB", &format!("fec={fec}")])[0];
            transfer(point, 1).unwrap().0
        });
        for metrics in [&plain, &repaired] {
            assert!(metrics.goodput_bps.unwrap() > 0.0 && metrics.counted.bytes_useful == 2_000_000);
        }
        // One behind each tenth packet, of a packet's length.
        assert_eq!(plain.counted.repair_bytes, 0);
        assert!((150_000..250_000).contains(&repaired.counted.repair_bytes), "{:?}", repaired.counted);
    }
}
