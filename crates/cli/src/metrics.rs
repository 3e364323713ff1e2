//! What a server does, for Prometheus: text by HTTP on an address of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use quickset::EndpointStats;
use quickset_base::number::{Float as _, Unsigned as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::say::note;

/// Where to be watched.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    /// Tell Prometheus what the server does, at http://ADDRESS/metrics (not encrypted: for addresses that
    /// only you reach)
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::values::listening)]
    metrics: Option<SocketAddr>,
}

/// Where Prometheus will be answered, if anywhere.
#[derive(Debug)]
#[must_use = "nobody is answered"]
pub(crate) struct MetricsServer(Option<TcpListener>);

/// What stands on a page.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(Vec<Family>);

/// Values of one name.
#[derive(Debug)]
struct Family {
    name: String,
    kind: MetricKind,
    help: String,
    values: Vec<(MetricLabels, MetricValue)>,
}

/// Names and values, by which those of one family are told apart.
pub(crate) type MetricLabels = Vec<(&'static str, String)>;

/// A value: a number of something, or a measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MetricValue {
    Count(u64),
    Measure(f64),
}

/// Whether a value only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// It does, and its name ends in `_total`.
    Counter,
    /// It may fall.
    Gauge,
}

impl MetricsArgs {
    /// Takes the address, if there is one. To be done before anybody hears that the server is there: one that
    /// cannot be watched as it should does not begin.
    pub(crate) async fn bind(self) -> anyhow::Result<MetricsServer> {
        let Some(address) = self.metrics else { return Ok(MetricsServer(None)) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; choose another address with --metrics"))?;
        Ok(MetricsServer(Some(listener)))
    }
}

impl MetricsServer {
    /// Answers in the background. `fill` writes the page each time somebody asks.
    pub(crate) fn serve(self, fill: impl Fn(&mut MetricsPage) + Send + Sync + 'static) -> anyhow::Result<()> {
        let Some(listener) = self.0 else { return Ok(()) };
        note!("quickset: metrics on http://{}/metrics", listener.local_addr()?);
        tokio::spawn(accept(listener, Arc::new(fill)));
        Ok(())
    }
}

impl MetricsPage {
    /// A value without labels.
    pub(crate) fn value(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Into<MetricValue>) {
        self.values((name, kind, help), [(MetricLabels::new(), value)]);
    }

    /// Values with labels.
    pub(crate) fn values<V: Into<MetricValue>>(
        &mut self,
        (name, kind, help): (&str, MetricKind, &str),
        values: impl IntoIterator<Item = (MetricLabels, V)>,
    ) {
        debug_assert_eq!(kind == MetricKind::Counter, name.ends_with(TOTAL), "{name}");
        let values = values.into_iter().map(|(labels, value)| (labels, value.into())).collect();
        self.0.push(Family { name: name.to_owned(), kind, help: help.to_owned(), values });
    }

    /// What every server has: its endpoint.
    pub(crate) fn endpoint(&mut self, stats: &EndpointStats) {
        use MetricKind::{Counter, Gauge};
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        self.values(("quickset_build_info", Gauge, "The version of quickset."), [(version, 1_u64)]);
        let (counters, totals) = (&stats.counters, stats.totals());
        let all = [
            ("connections_accepted", "QUIC connections accepted.", counters.accepted),
            ("connections_refused", "QUIC clients refused.", counters.refused),
            ("handshakes_displaced", "Handshakes that made room for others.", counters.displaced),
            ("retries", "Clients that had to prove their address.", counters.retries),
            ("version_negotiations", "Version Negotiation packets sent.", counters.version_negotiations),
            ("stateless_resets", "Stateless resets sent.", counters.resets_sent),
            ("datagrams_dropped", "UDP datagrams that belong to no connection.", counters.dropped),
            ("datagrams_handed_over", "UDP datagrams handed over from core to core.", stats.handed_over),
            ("datagrams_handed_over_lost", "Those lost then.", stats.handed_over_lost),
            ("sent_datagrams", "UDP datagrams sent on QUIC connections.", totals.sent_datagrams),
            ("sent_bytes", "Bytes of UDP payload sent.", totals.sent_bytes),
            ("sent_packets", "QUIC packets sent.", totals.sent_packets),
            (
                "refused_datagrams",
                "UDP datagrams that the system did not send.",
                counters.unsent + totals.refused_datagrams,
            ),
            ("received_datagrams", "UDP datagrams received.", totals.received_datagrams),
            ("received_bytes", "Bytes of UDP payload received.", totals.received_bytes),
            ("received_packets", "QUIC packets received.", totals.received_packets),
            ("dropped_packets", "QUIC packets that could not be read.", totals.dropped_packets),
            ("lost_packets", "QUIC packets sent that were declared lost.", totals.lost_packets),
            ("spurious_losses", "Of these, packets that arrived after all.", totals.spurious_losses),
            ("probe_timeouts", "Probe timeouts.", totals.ptos),
            ("path_moves", "Connections that went on over another path.", totals.moves),
            ("ce_packets", "Packets sent that met congestion, by their marks.", totals.ce_packets),
            ("fec_source_symbols", "Source symbols sent.", totals.sources_sent),
            ("fec_repair_symbols", "Repair symbols sent.", totals.repairs_sent),
            ("fec_repair_bytes", "Bytes of repair symbols sent.", totals.repair_bytes),
            ("fec_recovered_symbols", "Symbols sent that the peer recovered.", totals.recovered),
            ("fec_unrecovered_symbols", "Symbols that were lost and sent again.", totals.unrecovered),
            ("fec_recovered_here_symbols", "Symbols of peers recovered here.", totals.recovered_here),
            (
                "unsent_frames",
                "DATAGRAM frames that were too old, or too many, to be sent.",
                totals.unsent_frames,
            ),
            ("unread_frames", "DATAGRAM frames that came and were not read in time.", totals.unread_frames),
        ];
        for (name, help, value) in all {
            self.value(&format!("quickset_{name}_total"), Counter, help, value);
        }
        let live = &stats.live;
        self.value("quickset_connections", Gauge, "QUIC connections that there are.", live.len());
        let sum = |of: fn(&quickset::Stats) -> u64| live.iter().map(of).sum::<u64>();
        let window = sum(|stats| stats.window);
        self.value("quickset_window_bytes", Gauge, "Congestion windows, all together.", window);
        let in_flight = sum(|stats| stats.in_flight);
        self.value("quickset_in_flight_bytes", Gauge, "Bytes in flight, all together.", in_flight);
        let mut rtts: Vec<Duration> = live.iter().map(|stats| stats.rtt).collect();
        rtts.sort_unstable();
        let quantile = |share: f64| {
            let at = (rtts.len().approx() * share).ceil().whole::<usize>().max(1) - 1;
            rtts.get(at).map_or(f64::NAN, Duration::as_secs_f64)
        };
        let rtts = [0.5, 0.9, 1.0].map(|share| (vec![("quantile", share.to_string())], quantile(share)));
        let help = "Smoothed round-trip times of the connections that there are.";
        self.values(("quickset_rtt_seconds", Gauge, help), rtts);
    }
}

impl MetricsPage {
    /// As text by the specification of OpenMetrics, which Prometheus reads.
    fn text(self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        text::encode(&mut text, &registry).expect("a string takes what is written");
        text
    }
}

impl Collector for MetricsPage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, kind, help, values } in &self.0 {
            let (name, kind) = match kind {
                // It is appended.
                MetricKind::Counter => (name.trim_end_matches(TOTAL), MetricType::Counter),
                MetricKind::Gauge => (name.as_str(), MetricType::Gauge),
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in values {
                let mut line = family.encode_family(labels)?;
                match (kind, *value) {
                    (MetricType::Counter, MetricValue::Count(value)) => {
                        line.encode_counter(&value, NO_EXAMPLE)
                    }
                    (MetricType::Counter, MetricValue::Measure(value)) => {
                        line.encode_counter(&value, NO_EXAMPLE)
                    }
                    (_, MetricValue::Count(value)) => line.encode_gauge(&value),
                    (_, MetricValue::Measure(value)) => line.encode_gauge(&value),
                }?;
            }
        }
        Ok(())
    }
}

impl From<u64> for MetricValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for MetricValue {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for MetricValue {
    fn from(measure: f64) -> Self {
        Self::Measure(measure)
    }
}

/// As many at a time as there are seats. When all are taken the oldest goes: who reads slowly, or asks
/// nothing, keeps nobody from being answered.
async fn accept<F: Fn(&mut MetricsPage) + Send + Sync + 'static>(listener: TcpListener, fill: Arc<F>) {
    let mut seats = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No more descriptors: they come back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let fill = fill.clone();
        let seat: JoinHandle<()> = tokio::spawn(async move {
            let service =
                service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &*fill))));
            // Kept for some questions, and then made anew: nobody holds a seat for long.
            let connection = http1::Builder::new()
                .max_buf_size(LONGEST_REQUEST)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(PATIENCE, connection).await;
        });
        seats.retain(|seat: &JoinHandle<()>| !seat.is_finished());
        if seats.len() == CONNECTIONS {
            seats.pop_front().inspect(JoinHandle::abort);
        }
        seats.push_back(seat);
    }
}

fn answer<B>(request: &Request<B>, fill: &impl Fn(&mut MetricsPage)) -> Response<ReadyText> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&(Method::GET | Method::HEAD), "/metrics") => {
            let mut page = MetricsPage::default();
            fill(&mut page);
            (StatusCode::OK, page.text())
        }
        (&(Method::GET | Method::HEAD), _) => {
            (StatusCode::NOT_FOUND, "There is nothing but /metrics.\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "This is to be read.\n".to_owned()),
    };
    let mut response = Response::new(ReadyText(text.into()));
    *response.status_mut() = status;
    let format = HeaderValue::from_static(FORMAT);
    response.headers_mut().insert(CONTENT_TYPE, format);
    response
}

/// Content that is there already.
struct ReadyText(bytes::Bytes);

impl Body for ReadyText {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Self::Data>, Infallible>>> {
        let text = std::mem::take(&mut self.0);
        std::task::Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// The text format of OpenMetrics.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Of what counts nobody is told one case.
const NO_EXAMPLE: Option<&Exemplar<MetricLabels, u64>> = None;

/// What the name of a counter ends with.
const TOTAL: &str = "_total";

/// Connections at a time, and how long each may last.
const CONNECTIONS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a request, lines and fields together; of a page that is not read as many are kept in front of
/// what is to be sent.
const LONGEST_REQUEST: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// OpenMetrics as its specification has it: families of HELP, TYPE and samples, each family in one place,
    /// each sample once, and an end. Returns the samples.
    fn read(text: &str) -> BTreeMap<String, f64> {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        };
        let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
        let (mut family, mut kind) = ("", "");
        let text = text.strip_suffix("# EOF\n").expect("an end");
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').unwrap().0;
                assert!(is_name(family) && families.insert(family), "{line}");
            } else if let Some(said) = line.strip_prefix("# TYPE ") {
                let name;
                (name, kind) = said.split_once(' ').unwrap();
                assert!(name == family && ["counter", "gauge"].contains(&kind), "{line}");
            } else {
                let (what, value) = line.rsplit_once(' ').unwrap();
                let (name, labels) = what.split_once('{').unwrap_or((what, "}"));
                let suffix = if kind == "counter" { "_total" } else { "" };
                assert_eq!(name.strip_suffix(suffix), Some(family), "{line}");
                let labels = labels.strip_suffix('}').unwrap();
                for label in labels.split(',').filter(|label| !label.is_empty()) {
                    let (label, value) = label.split_once("=\"").unwrap();
                    let value = value.strip_suffix('"').unwrap();
                    assert!(is_name(label) && !value.contains(['"', '\\', '\n']), "{line}");
                }
                assert!(samples.insert(what.to_owned(), value.parse().unwrap()).is_none(), "{line}");
            }
        }
        samples
    }

    #[test]
    fn what_an_endpoint_does_is_text_for_prometheus() {
        let one = |ms, lost| {
            let mut stats = quickset::Stats::default();
            stats.rtt = Duration::from_millis(ms);
            stats.lost_packets = lost;
            stats.window = 10_000;
            stats
        };
        let mut stats = EndpointStats::default();
        stats.live = vec![one(30, 1), one(10, 2), one(20, 3)];
        stats.ended.add(&one(500, 4));
        stats.counters.accepted = 4;
        let mut page = MetricsPage::default();
        page.endpoint(&stats);
        let page = page.text();
        let samples = read(&page);
        for (name, value) in [
            ("quickset_connections", 3.0),
            ("quickset_connections_accepted_total", 4.0),
            ("quickset_lost_packets_total", 10.0),
            ("quickset_window_bytes", 30_000.0),
            ("quickset_rtt_seconds{quantile=\"0.5\"}", 0.02),
            ("quickset_rtt_seconds{quantile=\"1\"}", 0.03),
        ] {
            assert_eq!(samples.get(name), Some(&value), "{name} in\n{page}");
        }

        let mut page = MetricsPage::default();
        page.endpoint(&EndpointStats::default());
        assert!(read(&page.text())["quickset_rtt_seconds{quantile=\"0.5\"}"].is_nan(), "there are none");
    }

    /// Who asks is answered though many more than there are seats for ask slowly, ask without end, or do not
    /// read.
    #[tokio::test]
    async fn slow_readers_keep_nobody_from_being_answered() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fill = |page: &mut MetricsPage| page.value("a", MetricKind::Gauge, &"A".repeat(100_000), 1_u64);
        let server = tokio::spawn(accept(listener, Arc::new(fill)));
        let connect = || async { tokio::net::TcpStream::connect(address).await.unwrap() };
        let mut slow = Vec::new();
        for n in 0..4 * CONNECTIONS {
            let mut stream = connect().await;
            let said: &[u8] = match n % 3 {
                0 => b"GET /metrics HTT",
                1 => b"",
                // More pages than any socket holds, and none is read.
                _ => &b"GET /metrics HTTP/1.1\r\n\r\n".repeat(100),
            };
            stream.write_all(said).await.unwrap();
            slow.push(stream);
        }
        let mut endless = connect().await;
        let line = [&b"GET /"[..], &vec![b'x'; 4 * LONGEST_REQUEST]].concat();
        // It may be refused before all of it was sent.
        let _ = endless.write_all(&line).await;

        let limit = Duration::from_secs(20);
        let mut honest = connect().await;
        honest.write_all(b"GET /metrics HTTP/1.1\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut page = String::new();
        tokio::time::timeout(limit, honest.read_to_string(&mut page)).await.expect("it is answered").unwrap();
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("\na 1\n# EOF\n"), "{}", page.len());

        let mut refused = Vec::new();
        let _ = tokio::time::timeout(limit, endless.read_to_end(&mut refused)).await.expect("it is over");
        assert!(refused.is_empty() || refused.starts_with(b"HTTP/1.1 4"), "{refused:?}");
        // The oldest were sent away.
        let mut rest = Vec::new();
        let over = tokio::time::timeout(limit, slow[0].read_to_end(&mut rest)).await.expect("it is over");
        assert!(over.is_err() || rest.is_empty());
        server.abort();
    }

    #[test]
    fn only_the_page_is_answered() {
        let ask = |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            answer(&request, &|page: &mut MetricsPage| page.value("a", MetricKind::Gauge, "A.", 1_u64))
                .map(|text| text.0)
        };
        let page = ask(Method::GET, "/metrics?x");
        assert_eq!(
            (page.status(), &page.body()[..]),
            (StatusCode::OK, &b"# HELP a A.\n# TYPE a gauge\na 1\n# EOF\n"[..])
        );
        assert!(
            page.headers()[CONTENT_TYPE]
                .to_str()
                .unwrap()
                .starts_with("application/openmetrics-text; version=1.0.0")
        );
        assert_eq!(ask(Method::GET, "/").status(), StatusCode::NOT_FOUND);
        assert_eq!(ask(Method::POST, "/metrics").status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
